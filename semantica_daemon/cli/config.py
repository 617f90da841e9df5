"""`semantica config`: the configuration that the daemon uses, and the path of its file."""

import os

from semantica_daemon.cli import tables
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.paths import printable


def run(arguments: Any, terminal: Terminal) -> None:
    path = printable(terminal.paths.config)
    if arguments.what == "path":
        return terminal.show({"path": path}, [path])
    if arguments.what is not None:
        raise CommandFailed(f"config: there is no {arguments.what}", "`semantica config`, or `semantica config path`")
    found = terminal.call("admin.config")
    if terminal.as_json:
        return terminal.print_json(found)
    path = found.pop("paths", {}).get("config", path)
    terminal.note(path + ("" if os.path.exists(path) else " (no such file: these are the defaults)"))
    tables.pairs(_flat(found))


def _flat(values: Json, prefix: str = "") -> list[tuple[str, object]]:
    """Rows with dotted names, as in config.toml."""
    rows: list[tuple[str, object]] = []
    for name, value in values.items():
        if isinstance(value, dict) and value:
            rows += _flat(value, f"{prefix}{name}.")
        else:
            rows.append((prefix + name, value if value != {} else "-"))
    return rows


PATH = Option("what path", "print only the path of the file; needs no daemon", nargs="?")
COMMAND = Command(
    "Show the configuration that the daemon uses, and where its file is.",
    run,
    [PATH],
    """
  semantica config
  $EDITOR "$(semantica config path)"      then `semantica stop`: the next command starts the daemon again""",
)
