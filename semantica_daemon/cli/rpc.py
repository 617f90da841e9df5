"""`semantica rpc METHOD [JSON]`: calls any method and prints its result. `main` calls it without argparse if it can."""

import sys

from semantica_daemon.cli.command import Command
from semantica_daemon.cli.json_argument import parse_object
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.json_types import Any


def run(arguments: Any, terminal: Terminal) -> int:
    return call(terminal, arguments.method, arguments.params)


def call(terminal: Terminal, method: str, text: str | None) -> int:
    params = {} if text is None else parse_object(sys.stdin.read() if text == "-" else text, "the parameters")
    with terminal.client() as client:
        terminal.print_json(client.call(method, **params))
    return 0


def options(parser: Any) -> None:
    parser.add_argument("method", metavar="METHOD", help="`semantica rpc rpc.discover` lists them")
    parser.add_argument("params", nargs="?", metavar="JSON", help="an object with its parameters; - reads stdin")


COMMAND = Command(
    "Call any method of the daemon; prints its result as JSON.",
    run,
    options,
    """
  semantica rpc admin.health
  semantica rpc job.list '{"state": ["FAILED"], "limit": 5}'
  jq -n '{job_type: "semantica.noop"}' | semantica rpc job.enqueue -""",
)
