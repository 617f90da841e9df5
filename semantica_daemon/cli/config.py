"""`semantica config`: the configuration that the daemon uses, and the path of its file."""

import os

from semantica_daemon.cli import tables
from semantica_daemon.cli.command import Command
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.parser import Namespace, Parser
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.exit_codes import USAGE
from semantica_daemon.client.json_types import Json
from semantica_daemon.paths import printable


def run(arguments: Namespace, terminal: Terminal) -> int:
    path = printable(terminal.paths.config)
    if arguments.what is not None:
        if arguments.what != "path":
            hint = "`semantica config`, or `semantica config path`"
            raise CommandFailed(f"config: there is no {arguments.what}", USAGE, hint)
        terminal.print_json({"path": path}) if terminal.as_json else terminal.print(path)
        return 0
    with terminal.client() as client:
        found = client.call("admin.config")
    if terminal.as_json:
        terminal.print_json(found)
        return 0
    path = found.get("paths", {}).get("config", path)
    terminal.note(path + ("" if os.path.exists(path) else " (no such file: these are the defaults)"))
    tables.pairs(_flat({name: value for name, value in found.items() if name != "paths"}))
    return 0


def _flat(values: Json, prefix: str = "") -> list[tuple[str, object]]:
    """Rows with dotted names, as in config.toml."""
    rows: list[tuple[str, object]] = []
    for name, value in values.items():
        if isinstance(value, dict) and value:
            rows += _flat(value, f"{prefix}{name}.")
        elif value is not None:
            rows.append((prefix + name, value if value != {} else "-"))
    return rows


def options(parser: Parser) -> None:
    parser.add_argument("what", nargs="?", metavar="path", help="print only the path of the file; needs no daemon")


COMMAND = Command(
    "Show the configuration that the daemon uses, and where its file is.",
    run,
    options,
    """
  semantica config
  $EDITOR "$(semantica config path)"      then `semantica stop`: the next command starts the daemon again""",
)
