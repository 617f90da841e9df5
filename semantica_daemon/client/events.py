"""`semantica events`: what has happened, or what happens, one line each."""

import json

from semantica_daemon.client import ids, words
from semantica_daemon.client.connection import CallRefused, Client, gap
from semantica_daemon.client.parser import Command, Namespace, Parser, of
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.terminal import Terminal

LOOK_BACK = 1000
MOST = 50
PAGE = 1000
LONGEST = 200
LEVELS = ("debug", "info", "warn", "error")


def events(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        asked: Json = {}
        if arguments.job is not None:
            asked["job_id"] = ids.resolve(client, terminal.where, arguments.job)
        if arguments.type:
            asked["event_types"] = arguments.type
        if arguments.follow:
            _follow(client, terminal, arguments, asked)
            return 0
        since = _since(client, arguments)
        told = stored(client, asked, since, arguments.since is not None)
        known: dict[str, Json] = {}
        found = [event for event in told if _wanted(client, arguments, event, known)]
        for event in found if arguments.since is not None else found[-arguments.lines :]:
            _tell(terminal, event)
    return 0


def _since(client: Client, arguments: Namespace) -> int:
    """Without a place to begin: all of one job, else the newest of the stream."""
    if arguments.since is not None or arguments.job is not None:
        return int(arguments.since or 0)
    newest = client.call("admin.health")["parts"]["feed"]["sequence"]
    return max(0, int(newest) - LOOK_BACK)


def stored(client: Client, asked: Json, since: int, name_gaps: bool = False) -> list[Json]:
    """Everything after that sequence, page by page."""
    found: list[Json] = []
    epoch: Json = {}
    while True:
        page = client.call("event.list", **asked, **epoch, since=since, limit=PAGE)
        found += ([gap(page["gap"])] if page["gap"] and name_gaps else []) + page["events"]
        if page["next_sequence"] == since:
            return found
        since, epoch = page["next_sequence"], {"epoch": page["epoch"]}


def _wanted(client: Client, arguments: Namespace, event: Json, known: dict[str, Json]) -> bool:
    """What event.list does not filter by itself; of the queue and the tag only the job knows."""
    if event["event_type"] == "stream.gap":
        return True
    if arguments.level and event["level"] not in arguments.level:
        return False
    if arguments.queue is None and arguments.tag is None:
        return True
    if event["job_id"] is None:
        return arguments.tag is None and (event["payload"] or {}).get("queue") == arguments.queue
    job = _job(client, event["job_id"], known)
    return arguments.queue in (None, job.get("queue")) and arguments.tag in (None, job.get("user_tag"))


def _job(client: Client, job_id: str, known: dict[str, Json]) -> Json:
    """Nothing is known of one that is pruned, though its events may still be kept."""
    if job_id not in known:
        try:
            known[job_id] = client.call("job.get", job_id=job_id)
        except CallRefused:
            known[job_id] = {}
    return known[job_id]


def _follow(client: Client, terminal: Terminal, arguments: Namespace, asked: Json) -> None:
    named = {"queue": arguments.queue, "user_tag": arguments.tag, "since": arguments.since, "levels": arguments.level}
    asked |= {name: value for name, value in named.items() if value not in (None, [])}
    for event in client.subscribe(**asked):
        _tell(terminal, event)


def _tell(terminal: Terminal, event: Json) -> None:
    if terminal.as_json:
        terminal.document(event, lines=True)
    elif terminal.quiet:
        if event["job_id"] is not None:
            terminal.data(event["job_id"])
    else:
        job = ids.short(event["job_id"]) if event["job_id"] else "-"
        terminal.data(f"{event['sequence']:>6}  {job:<8}  {event['event_type']:<17}  {text(event)}")
    terminal.flush()


def text(event: Json) -> str:
    """When, and in its own words."""
    level = "" if event["level"] in ("info", "debug") else f"{event['level']}: "
    said = " ".join(filter(None, (event["message"], _facts(event["payload"]))))
    return words.clean(f"{words.moment(event['timestamp_at'])}  {level}{said}").rstrip()


def _facts(payload: object) -> str:
    if not payload:
        return ""
    if not isinstance(payload, dict):
        return json.dumps(payload, ensure_ascii=False)[:LONGEST]
    return " ".join(f"{name}={_value(name, value)}" for name, value in payload.items())[:LONGEST]


def _value(name: str, value: object) -> str:
    if name.endswith("_at") and isinstance(value, int):
        return words.moment(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def options(parser: Parser) -> None:
    add = parser.add_argument
    add("-f", "--follow", action="store_true", help="as they happen, until Ctrl-C")
    add("--since", type=of(sequence), metavar="N", help="all after sequence N; 0 is the beginning of what is kept")
    add("-n", "--lines", type=of(sequence), default=MOST, metavar="N",
        help=f"without --since: at most so many of the newest {LOOK_BACK} ({MOST})")  # fmt: skip
    add("--job", type=of(ids.check), metavar="ID", help="of this job")
    add("-Q", "--queue", help="of jobs in this queue")
    add("-t", "--tag", help="of jobs with this tag")
    add("--type", action="append", metavar="TYPE", help="job.failed, job.log … (again: or that one)")
    add("--level", action="append", choices=LEVELS, help="of this level (again: or of that one)")


def sequence(text: str) -> int:
    if not text.isdecimal():
        raise ValueError(f"{text!r} is no number")
    return int(text)


EVENTS = Command(
    "What has happened to jobs, queues and the daemon, one line each.",
    events,
    options,
    """
  semantica events
  semantica events -f --level error --level warn
  semantica events --job @last
  semantica events -f --since 0 --json | jq .event_type

With --json: one event a line; what retention has removed is named by one of type stream.gap.""",
)
