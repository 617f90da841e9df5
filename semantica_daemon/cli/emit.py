"""`semantica emit`: emits an event that jobs wait for."""

from semantica_daemon import prose
from semantica_daemon.cli import job_options
from semantica_daemon.cli.command import Any, Command, Option, Terminal
from semantica_daemon.cli.errors import CommandFailed


def run(arguments: Any, terminal: Terminal) -> None:
    """Succeeds also when no job waits for the event: a hook that emits must not fail for that."""
    key, value = _event(arguments.event) if arguments.value is None else (arguments.event, arguments.value)
    found = terminal.call("event.emit", key=key, **({} if value is None else {"value": value}))
    fired = found.get("fired", [])
    terminal.show(found, [*found["matched"], *fired])
    count = len(found["matched"])
    text = f"{prose.count(count, 'job')} {'was' if count == 1 else 'were'}" if count else "no job was"
    added = f", {prose.count(len(fired), 'job')} {'was' if len(fired) == 1 else 'were'} added by it" if fired else ""
    if not terminal.as_json:
        terminal.note(f"{text} waiting for it{added}")


def _event(text: str) -> tuple[str, str | None]:
    try:
        return job_options.event(text)
    except ValueError as error:
        raise CommandFailed(f"emit: {error}") from None


OPTIONS = [
    Option("event KEY[=VALUE]", "the event"),
    Option("value VALUE", "instead of =VALUE; KEY may then contain a =", nargs="?"),
]
COMMAND = Command(
    "Emit an event: jobs that wait for it by `--on-event` go on, and `semantica on` adds jobs. Prints the ids of both. "
    "Jobs added later do not see it.",
    run,
    OPTIONS,
    """
  semantica emit git:commit=main
  semantica emit deploy:done
  semantica emit file:saved "$PWD/a.py"

A job that waits for KEY accepts every value; one that waits for KEY=VALUE only that one.
docs/scheduling.md has git hooks and shell snippets that emit events.""",
    "KEY[=VALUE]\n       semantica emit KEY VALUE",
)
