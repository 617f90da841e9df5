"""`semantica events`: what has happened, or happens now, one line each."""

import json

from semantica_daemon import prose
from semantica_daemon.cli import format, ids
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import CallRefused
from semantica_daemon.client.subscription import gap_event

LOOK_BACK = 1000
DEFAULT_LINES = 50
PAGE = 1000
LONGEST_FACTS = 200


def run(arguments: Any, terminal: Terminal) -> None:
    with terminal.client() as client:
        filters: Json = {}
        if arguments.job is not None:
            filters["job_id"] = ids.resolve(client, terminal.paths, arguments.job)
        if arguments.type:
            filters["event_types"] = arguments.type
        if arguments.follow:
            return _follow(client, terminal, arguments, filters)
        since = _since(client, arguments)
        jobs: dict[str, Json] = {}
        every = stored(client, filters, since, arguments.since is not None)
        found = [event for event in every if _is_wanted(client, arguments, event, jobs)]
        for event in found if arguments.since is not None else found[-arguments.lines :]:
            _print_event(terminal, event)


def _since(client: Client, arguments: Any) -> int:
    """Without --since: everything about one job, else the newest of the stream."""
    if arguments.since is not None or arguments.job is not None:
        return int(arguments.since or 0)
    newest = client.call("admin.health")["parts"]["feed"]["sequence"]
    return max(0, int(newest) - LOOK_BACK)


def stored(client: Client, filters: Json, since: int, name_gaps: bool = False) -> list[Json]:
    """All stored events after that sequence; `name_gaps` adds an event for each gap."""
    found: list[Json] = []
    epoch: Json = {}
    while True:
        page = client.call("event.list", **filters, **epoch, since=since, limit=PAGE)
        found += ([gap_event(page["gap"])] if page["gap"] and name_gaps else []) + page["events"]
        if page["next_sequence"] == since:
            return found
        since, epoch = page["next_sequence"], {"epoch": page["epoch"]}


def _is_wanted(client: Client, arguments: Any, event: Json, jobs: dict[str, Json]) -> bool:
    """The filters that event.list does not have. The queue and the tag are those of the event's job."""
    if event["event_type"] == "stream.gap":
        return True
    if arguments.level and event["level"] not in arguments.level:
        return False
    if arguments.queue is None and arguments.tag is None:
        return True
    if event["job_id"] is None:
        return arguments.tag is None and (event["payload"] or {}).get("queue") == arguments.queue
    job = _job(client, event["job_id"], jobs)
    return arguments.queue in (None, job.get("queue")) and arguments.tag in (None, job.get("user_tag"))


def _job(client: Client, job_id: str, jobs: dict[str, Json]) -> Json:
    """Empty for a job that is pruned while its events are still kept."""
    if job_id not in jobs:
        try:
            jobs[job_id] = client.call("job.get", job_id=job_id)
        except CallRefused:
            jobs[job_id] = {}
    return jobs[job_id]


def _follow(client: Client, terminal: Terminal, arguments: Any, filters: Json) -> None:
    more = {"queue": arguments.queue, "user_tag": arguments.tag, "since": arguments.since, "levels": arguments.level}
    filters |= {name: value for name, value in more.items() if value not in (None, [])}
    for event in client.subscribe(**filters):
        _print_event(terminal, event)


def _print_event(terminal: Terminal, event: Json) -> None:
    if terminal.as_json:
        terminal.print_json(event, lines=True)
    elif terminal.quiet:
        if event["job_id"] is not None:
            terminal.print(event["job_id"])
    else:
        job = prose.short_id(event["job_id"]) if event["job_id"] else "-"
        terminal.print(f"{event['sequence']:>6}  {job:<8}  {event['event_type']:<17}  {text(event)}")
    terminal.flush()


def text(event: Json) -> str:
    """Its time, message and payload."""
    level = "" if event["level"] in ("info", "debug") else f"{event['level']}: "
    message = " ".join(filter(None, (event["message"], _facts(event["payload"]))))
    return format.clean(f"{format.instant(event['timestamp_at'])}  {level}{message}").rstrip()


def _facts(payload: Json | None) -> str:
    return " ".join(f"{name}={_value(name, value)}" for name, value in (payload or {}).items())[:LONGEST_FACTS]


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
    Option("-n, --lines N", f"without --since: at most this many of the newest {LOOK_BACK} ({DEFAULT_LINES})",
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
