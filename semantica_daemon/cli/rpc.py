"""`semantica rpc METHOD [JSON]`: calls any method and prints its result."""

import sys

from semantica_daemon.cli.command import Any, Command, Option, Terminal
from semantica_daemon.cli.payload import parse_object


def run(arguments: Any, terminal: Terminal) -> None:
    text = sys.stdin.read() if arguments.params == "-" else arguments.params
    params = {} if text is None else parse_object(text, "the parameters")
    terminal.print_json(terminal.call(arguments.method, **params))


OPTIONS = [
    Option("method METHOD", "`semantica rpc rpc.discover` lists them"),
    Option("params JSON", "an object with its parameters; - reads stdin", nargs="?"),
]
COMMAND = Command(
    "Call any method of the daemon; prints its result as JSON.",
    run,
    OPTIONS,
    """
  semantica rpc admin.health
  semantica rpc job.list '{"state": ["FAILED"], "limit": 5}'
  jq -n '{job_type: "semantica.noop"}' | semantica rpc job.enqueue -""",
)
