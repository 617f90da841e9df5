"""`semantica emit`: emits an event that jobs wait for."""

from semantica_daemon import prose
from semantica_daemon.cli import start_options
from semantica_daemon.cli.command import Command
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.parser import Namespace, Parser
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.exit_codes import USAGE


def run(arguments: Namespace, terminal: Terminal) -> int:
    """Returns 0 also when no job waits for the event: a hook that emits must not fail for that."""
    key, value = _event(arguments.event) if arguments.value is None else (arguments.event, arguments.value)
    with terminal.client() as client:
        found = client.call("event.emit", key=key, **({} if value is None else {"value": value}))
    if terminal.as_json:
        terminal.print_json(found)
        return 0
    for job_id in found["matched"]:
        terminal.print(job_id)
    count = len(found["matched"])
    text = f"{prose.count(count, 'job')} {'was' if count == 1 else 'were'}" if count else "no job was"
    terminal.note(f"{text} waiting for it")
    return 0


def _event(text: str) -> tuple[str, str | None]:
    try:
        return start_options.event(text)
    except ValueError as error:
        raise CommandFailed(f"emit: {error}", USAGE) from None


def options(parser: Parser) -> None:
    parser.add_argument("event", metavar="KEY[=VALUE]", help="the event")
    parser.add_argument("value", nargs="?", metavar="VALUE", help="instead of =VALUE; KEY may then contain a =")


COMMAND = Command(
    "Emit an event: jobs that wait for it by `--on-event` go on. Prints their ids. Jobs added later do not see it.",
    run,
    options,
    """
  semantica emit git:commit=main
  semantica emit deploy:done
  semantica emit file:saved "$PWD/a.py"

A job that waits for KEY accepts every value; one that waits for KEY=VALUE only that one.
docs/scheduling.md has git hooks and shell snippets that emit events.""",
    "KEY[=VALUE]\n       semantica emit KEY VALUE",
)
