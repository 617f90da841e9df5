"""`semantica events`: what has happened, or happens now, one line each."""

import json
import re
from collections.abc import Iterable

from semantica_daemon import prose
from semantica_daemon.cli import format, ids
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.client.client import Client
from semantica_daemon.client.results import Event
from semantica_daemon.client.subscription import gap_event

DEFAULT_LINES = 50
PAGE = 1000
LONGEST_FACTS = 200


def run(arguments: Any, terminal: Terminal) -> None:
    with terminal.client() as client:
        filters = _filters(client, arguments, terminal)
        if arguments.follow:
            since = {} if arguments.since is None else {"since": arguments.since}
            found: Iterable[Event] = client.subscribe(**filters, **since)
        elif arguments.since is not None:
            found = stored(client, filters, arguments.since, name_gaps=True)
        else:
            found = _newest(client, filters, arguments.lines)
        for event in found:
            _print_event(terminal, event)
        if not (found or terminal.as_json):
            terminal.note("no event matches")


def _filters(client: Client, arguments: Any, terminal: Terminal) -> Json:
    job_id = None if arguments.job is None else ids.resolve(client, terminal.paths, arguments.job)
    given = {"job_id": job_id, "queue": arguments.queue, "user_tag": arguments.tag}
    given |= {"event_types": arguments.type, "levels": arguments.level}
    return {name: value for name, value in given.items() if value is not None}


def _newest(client: Client, filters: Json, most: int) -> list[Event]:
    """The newest events that match, oldest first."""
    found: list[Event] = []
    before: Json = {}
    while len(found) < most:
        limit = min(PAGE, most - len(found))
        page = client.call("event.list", **filters, **before, sort="newest", limit=limit)["events"]
        if not page:
            break
        found += page
        before = {"before": page[-1]["sequence"]}
    return found[::-1]


def stored(client: Client, filters: Json, since: int, name_gaps: bool = False) -> list[Event]:
    """All stored events after that sequence; `name_gaps` adds an event for each gap."""
    found: list[Event] = []
    epoch: Json = {}
    while True:
        page = client.call("event.list", **filters, **epoch, since=since, limit=PAGE)
        found += ([gap_event(page["gap"])] if page["gap"] and name_gaps else []) + page["events"]
        if page["next_sequence"] == since:
            return found
        since, epoch = page["next_sequence"], {"epoch": page["epoch"]}


def _print_event(terminal: Terminal, event: Event) -> None:
    if terminal.as_json:
        terminal.print_json(event, lines=True)
    elif terminal.quiet:
        if event["job_id"] is not None:
            terminal.print(event["job_id"])
    else:
        job = prose.short_id(event["job_id"]) if event["job_id"] else "-"
        terminal.print(f"{event['sequence']:>6}  {job:<8}  {event['event_type']:<17}  {text(event)}")
    terminal.flush()


def text(event: Event) -> str:
    """Its time, its message, and what the payload has beyond the message."""
    level = "" if event["level"] in ("info", "debug") else f"{event['level']}: "
    message = " ".join(filter(None, (event["message"], _facts(event["payload"], event["message"]))))
    if event["event_type"] == "job.progress":
        message = format.progress(event["payload"])
    return format.clean(f"{format.instant(event['timestamp_at'])}  {level}{message}").rstrip()


def _facts(payload: Json | None, message: str) -> str:
    facts = (payload or {}).items()
    shown = (f"{name}={_value(name, value)}" for name, value in facts if not _is_in(message, value))
    return " ".join(shown)[:LONGEST_FACTS]


def _is_in(message: str, value: object) -> bool:
    """True of a text that the message contains as a word, and of a list of such texts; so of an empty list."""
    if isinstance(value, list):
        return all(_is_in(message, one) for one in value)
    return isinstance(value, str) and re.search(rf"(?<!\w){re.escape(value)}(?!\w)", message) is not None


def _value(name: str, value: object) -> str:
    if name.endswith("_at") and isinstance(value, int):
        return format.instant(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def sequence(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is not a number")
    return int(text)


OPTIONS = [
    Option("-f, --follow", "print events as they happen, until Ctrl-C"),
    Option("--since N", "all events after sequence N; 0 for all", sequence),
    Option("-n, --lines N", f"without --since: at most this many, the newest ({DEFAULT_LINES})",
           sequence, default=DEFAULT_LINES),
    Option("--job ID", "about this job", ids.check),
    Option("-Q, --queue QUEUE", "about jobs in this queue"),
    Option("-t, --tag TAG", "about jobs with this tag"),
    Option("--type TYPE", "job.failed, job.log … (repeat for more)", action="append"),
    Option("--level {debug,info,warn,error}", "of this level (repeat for more)", action="append"),
]  # fmt: skip
COMMAND = Command(
    "Print what has happened to jobs, queues and the daemon, one line each.",
    run,
    OPTIONS,
    """
  semantica events
  semantica events -f --level error --level warn
  semantica events --job @last
  semantica events -f --since 0 --json | jq .event_type

With --json: one event a line; one of type stream.gap stands where the database was replaced.""",
)
