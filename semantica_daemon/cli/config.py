"""`semantica config`: the configuration that the daemon uses, the path of its file, and a reload of it."""

import os

from semantica_daemon import prose
from semantica_daemon.cli import tables
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.client.exit_codes import CONFIGURATION
from semantica_daemon.paths import printable

DEFAULT_QUEUE = {"slots": "as daemon.max_slots", "on_running": "finish", "max_queued": 100_000}

NEEDS_RESTART = "these settings need `semantica restart`"


def run(arguments: Any, terminal: Terminal) -> None:
    path = printable(terminal.paths.config)
    if arguments.what == "path":
        return terminal.show({"path": path}, [path])
    if arguments.what not in (None, "reload"):
        hint = "`semantica config`, `semantica config reload` or `semantica config path`"
        raise CommandFailed(f"config: there is no {arguments.what}", hint)
    found = terminal.call("admin.config", reload=arguments.what == "reload")
    file = found["file"]
    if arguments.what == "reload" and file["problem"] is not None:
        raise CommandFailed(file["problem"], "the settings stay as they were; correct the file", CONFIGURATION)
    if terminal.as_json:
        return terminal.print_json(found)
    if arguments.what == "reload":
        return _report_reload(terminal, file)
    path = found.pop("paths", {}).get("config", path)
    terminal.note(path + ("" if os.path.exists(path) else " (no such file: these are the defaults)"))
    found["queues"]["default"] = DEFAULT_QUEUE | {
        name: value for name, value in found["queues"].get("default", {}).items() if value is not None
    }
    tables.pairs(_flat({name: value for name, value in found.items() if name != "file"}))
    for sentence in difference(found):
        terminal.note(sentence)


def difference(config: Json) -> list[str]:
    """Sentences about a file that is newer than the settings in force; also for `status` and `doctor`."""
    file: Json = config.get("file", {})  # an older daemon does not know
    sentences = []
    if file.get("newer"):
        problem = "" if file["problem"] is None else f"; the last time it was refused: {file['problem']}"
        sentences.append(f"the config file has changed since it was read; `semantica config reload` uses it{problem}")
    if file.get("needs_restart"):
        sentences.append(f"{NEEDS_RESTART}: {', '.join(file['needs_restart'])}")
    return sentences


def _report_reload(terminal: Terminal, file: Json) -> None:
    for name in file["changed"]:
        terminal.print(name)
    count = len(file["changed"])
    terminal.note(f"{prose.count(count, 'setting')} changed" if count else "no setting has changed")
    if file["needs_restart"]:
        terminal.note(f"{NEEDS_RESTART}: {', '.join(file['needs_restart'])}")


def _flat(values: Json, prefix: str = "") -> list[tuple[str, object]]:
    """Rows with dotted names, as in config.toml."""
    rows: list[tuple[str, object]] = []
    for name, value in values.items():
        if isinstance(value, dict) and value:
            rows += _flat(value, f"{prefix}{name}.")
        else:
            rows.append((prefix + name, _text(value)))
    return rows


def _text(value: object) -> object:
    if isinstance(value, list):
        value = ", ".join(map(str, value))
    return "-" if value in ({}, "", None) else value


WHAT = Option("what WHAT", "reload: read the file again; path: print only its path, without a daemon", nargs="?")
COMMAND = Command(
    "Show the configuration that the daemon uses, and where its file is; or let the daemon read the file again.",
    run,
    [WHAT],
    """
  semantica config
  $EDITOR "$(semantica config path)"
  semantica config reload                 prints the settings that have changed, and names those that need a restart""",
)
