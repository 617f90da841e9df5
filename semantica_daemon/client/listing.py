"""`semantica list` and `semantica status`: jobs in a table, and one screen of everything."""

from semantica_daemon import VERSION
from semantica_daemon.client import draw, ids, showing, words
from semantica_daemon.client.connection import ENDS, Client
from semantica_daemon.client.parser import Command, Namespace, Parser, of
from semantica_daemon.client.queues import COLUMNS as QUEUE_COLUMNS
from semantica_daemon.client.queues import row as queue_row
from semantica_daemon.client.shapes import Any, Json
from semantica_daemon.client.terminal import Terminal

LIVE = ("RUNNING", "QUEUED", "SCHEDULED")
GROUPS = {"LIVE": LIVE, "WAITING": ("QUEUED", "SCHEDULED"), "ENDED": ENDS, "SKIPPED": ENDS[4:]}
COLUMNS = ("id", "state", "queue", "type", "what", "age", "took", "exit")
MOST, PAGE = 20, 200
LONGEST_TYPE = 20
FILTERS = {"queue": "queue", "type": "job_type", "tag": "user_tag", "group": "chain_group_id", "subject": "subject_key"}


def states(text: str) -> list[str]:
    found: list[str] = []
    for word in text.upper().split(","):
        if word not in GROUPS and word not in (*LIVE, *ENDS):
            known = ", ".join([*LIVE, *ENDS]).lower()
            raise ValueError(f"{word.lower()!r} is no state: {known}; or live, waiting, ended, skipped")
        found += GROUPS.get(word, (word,))
    return found


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise ValueError(f"{text!r} is no number of jobs")
    return int(text)


def options(parser: Parser) -> None:
    add = parser.add_argument
    add(
        "--state", type=of(states), metavar="S[,S…]", help="running, queued, failed …; or live, waiting, ended, skipped"
    )
    add("-Q", "--queue", action="append", help="of this queue (again: or of that one)")
    add("--type", action="append", help="of this job type (again: or of that one)")
    add("-t", "--tag", help="with this tag")
    add("-g", "--group", help="of this group")
    add("-s", "--subject", help="about this subject")
    add("-n", "--limit", type=of(positive), metavar="N", help=f"at most so many, the newest ({MOST}; with -q all)")
    add("-a", "--all", action="store_true", help="all there are")


def list_jobs(arguments: Namespace, terminal: Terminal) -> int:
    asked = {field: value for name, field in FILTERS.items() if (value := getattr(arguments, name)) is not None}
    if arguments.state:
        asked["state"] = arguments.state
    with terminal.client() as client:
        found = pages(client, asked, None if arguments.all else arguments.limit or (None if terminal.quiet else MOST))
    if terminal.as_json:
        terminal.document(found)
    elif terminal.quiet:
        for job in found["items"]:
            terminal.data(job["job_id"])
    elif found["items"]:
        jobs(found["items"])
        if found["next_cursor"] is not None:
            terminal.chat(f"the newest {len(found['items'])}; --all shows the rest")
    else:
        terminal.chat("no such job" if asked else "no job yet; `semantica run -- COMMAND` makes one")
    return 0


def pages(client: Client, asked: Json, limit: int | None) -> Json:
    """As one page, however many it takes."""
    items: list[Json] = []
    cursor: Json = {}
    while True:
        want = PAGE if limit is None else min(PAGE, limit - len(items))
        page = client.call("job.list", **asked, **cursor, limit=want)
        items += page["items"]
        cursor = {"cursor": page["next_cursor"]}
        if page["next_cursor"] is None or (limit is not None and len(items) >= limit):
            return {"items": items, "next_cursor": page["next_cursor"]}


def jobs(items: list[Json]) -> None:
    draw.table(COLUMNS, [row(job) for job in items], "what")


def row(job: Json) -> list[object]:
    code = "-" if job["exit_code"] is None else job["exit_code"]
    kind = job["job_type"] if len(job["job_type"]) <= LONGEST_TYPE else job["job_type"][: LONGEST_TYPE - 1] + "…"
    words_of_it = (job["state"], job["queue"], kind, showing.what(job), words.age(job["created_at"]))
    return [ids.short(job["job_id"]), *words_of_it, showing.took(job), code]


def status(arguments: Namespace, terminal: Terminal) -> int:
    if arguments.id is not None:
        return showing.show(arguments, terminal)
    with terminal.client() as client:
        found: Json = {"health": client.call("admin.health"), "system": client.call("admin.stats")["system"]}
        found["queues"] = client.call("queue.list")["queues"]
        found["running"] = client.call("job.list", state=["RUNNING"], limit=MOST)["items"]
        found["waiting"] = client.call("job.list", state=["QUEUED", "SCHEDULED"], sort="oldest", limit=10)["items"]
        found["ended"] = client.call("job.list", state=list(ENDS), limit=10)["items"]
    if terminal.as_json:
        terminal.document(found)
    elif terminal.quiet:
        for job in [*found["running"], *found["waiting"]]:
            terminal.data(job["job_id"])
    else:
        _screen(found, terminal)
    return 0


def _screen(found: Json, terminal: Terminal) -> None:
    health, system = found["health"], found["system"]
    up = f"up {words.length(health['uptime_ms'])}, pid {system['pid']}"
    slots = f"{system['running']} of {system['slots']} slots in use"
    terminal.data(f"semanticad {health['version']}  {health['status']}, {up}, {slots}")
    if health["version"] != VERSION:
        terminal.chat(f"this command is version {VERSION}; `semantica stop` lets the next one start its own daemon")
    draw.heading("queues")
    draw.table(QUEUE_COLUMNS, [queue_row(queue) for queue in found["queues"]])
    for title in ("running", "waiting", "ended"):
        if found[title]:
            draw.heading({"waiting": "waiting, oldest first", "ended": "ended, newest first"}.get(title, title))
            jobs(found[title])


def status_options(parser: Parser) -> None:
    what: Any = of(ids.check)
    parser.add_argument("id", nargs="?", type=what, metavar="ID", help="one job, as `semantica show`")


LIST = Command(
    "Jobs, newest first.",
    list_jobs,
    options,
    """
  semantica list --state live
  semantica list --state failed -Q build -n 5
  semantica list -q -t nightly | xargs semantica cancel

With --json: the answer of job.list, {"items": […], "next_cursor": …}.""",
)
STATUS = Command(
    "The daemon, its queues, what runs and waits, and how the last jobs ended.",
    status,
    status_options,
    """
  semantica status
  semantica status @last

With --json: {"health": …, "system": …, "queues": […], "running": […], "waiting": […], "ended": […]}.""",
)
