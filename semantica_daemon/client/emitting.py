"""`semantica emit`: something has happened that jobs may wait for."""

from semantica_daemon.client import waiting, words
from semantica_daemon.client.codes import USAGE
from semantica_daemon.client.parser import Command, Namespace, Parser, of
from semantica_daemon.client.terminal import Failed, Terminal


def emit(arguments: Namespace, terminal: Terminal) -> int:
    """Well done also when nobody waits: it stands in hooks, which must not fail for that."""
    key, value = arguments.event
    if arguments.value is not None and value is not None:
        raise Failed(f"emit: {key} is given two values", USAGE, "write KEY=VALUE, or KEY VALUE")
    value = arguments.value if value is None else value
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


def options(parser: Parser) -> None:
    parser.add_argument("event", type=of(waiting.event), metavar="KEY[=VALUE]", help="what has happened")
    parser.add_argument("value", nargs="?", metavar="VALUE", help="instead of =VALUE")


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
