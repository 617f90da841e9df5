"""`semantica paths`: where the files and the socket are. Needs no daemon."""

from semantica_daemon.cli import tables
from semantica_daemon.cli.command import Any, Command, Terminal
from semantica_daemon.paths import printable


def run(arguments: Any, terminal: Terminal) -> None:
    found = {name: printable(path) for name, path in terminal.paths.as_dict().items()}
    terminal.print_json(found) if terminal.as_json else tables.pairs(found.items())


COMMAND = Command(
    "Show where the files and the socket are. Needs no daemon.",
    run,
    examples="""
  semantica paths
  semantica paths --json | jq -r .socket""",
)
