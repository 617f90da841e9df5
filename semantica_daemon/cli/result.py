"""`semantica result`: called by a job, stores a JSON document as the job's result."""

import json
import sys

from semantica_daemon.cli import run_report
from semantica_daemon.cli.command import Any, Command, Option, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.client.exit_codes import DATA


def run(arguments: Any, terminal: Terminal) -> None:
    text = sys.stdin.read() if arguments.document == "-" else arguments.document
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        hint = """write it as '{"files": 12}', or a text as '"done"'"""
        raise CommandFailed(f"result: not JSON: {error}", hint, DATA) from None
    run_report.send(terminal, "run.result", result=document)


COMMAND = Command(
    "Store a JSON document as the result of this job; called by the command that the job runs. The last one counts.",
    run,
    [Option("document JSON", "any JSON document; - reads stdin")],
    """
  semantica result '{"files": 12}'
  jq .summary report.json | semantica result -

`semantica show ID` and `semantica wait --json ID` show the result.""",
)
