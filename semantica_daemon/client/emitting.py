"""`semantica emit`: something has happened that jobs may wait for."""

from semantica_daemon.client import waiting, words
from semantica_daemon.client.codes import USAGE
from semantica_daemon.client.parser import Command, Namespace, Parser
from semantica_daemon.client.terminal import Failed, Terminal


def emit(arguments: Namespace, terminal: Terminal) -> int:
    """Well done also when nobody waits: it stands in hooks, which must not fail for that."""
    key, value = _event(arguments.event) if arguments.value is None else (arguments.event, arguments.value)
    with terminal.client() as client:
        found = client.call("event.emit", key=key, **({} if value is None else {"value": value}))
    if terminal.as_json:
        terminal.document(found)
        return 0
    for job_id in found["matched"]:
        terminal.data(job_id)
    count = len(found["matched"])
    terminal.chat(f"{words.many(count, 'job')} {'was' if count == 1 else 'were'} waiting for it" if count else
                  "no job was waiting for it")  # fmt: skip
    return 0


def _event(text: str) -> tuple[str, str | None]:
    try:
        return waiting.event(text)
    except ValueError as error:
        raise Failed(f"emit: {error}", USAGE) from None


def options(parser: Parser) -> None:
    parser.add_argument("event", metavar="KEY[=VALUE]", help="what has happened")
    parser.add_argument("value", nargs="?", metavar="VALUE", help="instead of =VALUE; KEY may then have a = in it")


EMIT = Command(
    "Tell an event: jobs that wait for it by `--on-event` go on. Prints their ids; jobs of later do not hear it.",
    emit,
    options,
    """
  semantica emit git:commit=main
  semantica emit deploy:done
  semantica emit file:saved "$PWD/a.py"

A job that waits for KEY hears every value; one that waits for KEY=VALUE only that one.
docs/scheduling.md has git hooks and shell snippets that emit.""",
    "KEY[=VALUE]\n       semantica emit KEY VALUE",
)
