"""`semantica paths`: where the files and the socket are. Needs no daemon."""

from semantica_daemon.cli import tables
from semantica_daemon.cli.command import Command
from semantica_daemon.cli.parser import Namespace
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.paths import printable


def run(arguments: Namespace, terminal: Terminal) -> int:
    found = {name: printable(path) for name, path in terminal.paths.as_dict().items()}
    if terminal.as_json:
        terminal.print_json(found)
    else:
        tables.pairs(list(found.items()))
    return 0


COMMAND = Command(
    "Show where the files and the socket are. Needs no daemon.",
    run,
    examples="""
  semantica paths
  semantica paths --json | jq -r .socket""",
)
