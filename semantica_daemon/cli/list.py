"""`semantica list`: jobs in a table, newest first; `semantica ls` is the same."""

from semantica_daemon import prose
from semantica_daemon.cli import format, job_text, tables
from semantica_daemon.cli.command import Command
from semantica_daemon.cli.parser import Namespace, Parser, positive, type_of
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.client import ENDED_STATES, Client
from semantica_daemon.client.json_types import Json

LIVE = ("RUNNING", "QUEUED", "SCHEDULED")
STATE_GROUPS = {"LIVE": LIVE, "WAITING": LIVE[1:], "ENDED": ENDED_STATES, "SKIPPED": ENDED_STATES[4:]}
COLUMNS = ("id", "state", "queue", "type", "what", "age", "took", "exit")
DEFAULT_LIMIT, PAGE = 20, 200
LONGEST_TYPE = 20
FILTERS = {"queue": "queue", "type": "job_type", "tag": "user_tag", "group": "chain_group_id", "subject": "subject_key"}


def run(arguments: Namespace, terminal: Terminal) -> int:
    filters = {field: value for name, field in FILTERS.items() if (value := getattr(arguments, name)) is not None}
    if arguments.state:
        filters["state"] = arguments.state
    limit = None if arguments.all else arguments.limit or (None if terminal.quiet else DEFAULT_LIMIT)
    with terminal.client() as client:
        page = _all_pages(client, filters, limit)
    if terminal.as_json:
        terminal.print_json(page)
    elif terminal.quiet:
        for job in page["items"]:
            terminal.print(job["job_id"])
    elif page["items"]:
        print_jobs(page["items"])
        if page["next_cursor"] is not None:
            terminal.note(f"the newest {len(page['items'])}; --all shows the rest")
    else:
        terminal.note("no job matches" if filters else "no job yet; `semantica run -- COMMAND` adds one")
    return 0


def _all_pages(client: Client, filters: Json, limit: int | None) -> Json:
    """The results of job.list joined to one page."""
    items: list[Json] = []
    cursor: Json = {}
    while True:
        wanted = PAGE if limit is None else min(PAGE, limit - len(items))
        page = client.call("job.list", **filters, **cursor, limit=wanted)
        items += page["items"]
        cursor = {"cursor": page["next_cursor"]}
        if page["next_cursor"] is None or (limit is not None and len(items) >= limit):
            return {"items": items, "next_cursor": page["next_cursor"]}


def print_jobs(jobs: list[Json]) -> None:
    tables.table(COLUMNS, [_row(job) for job in jobs], "what")


def _row(job: Json) -> list[object]:
    code = "-" if job["exit_code"] is None else job["exit_code"]
    kind = job["job_type"] if len(job["job_type"]) <= LONGEST_TYPE else job["job_type"][: LONGEST_TYPE - 1] + "…"
    cells = (job["state"], job["queue"], kind, job_text.what(job), format.age(job["created_at"]))
    return [prose.short_id(job["job_id"]), *cells, job_text.took(job), code]


def states(text: str) -> list[str]:
    found: list[str] = []
    for word in text.upper().split(","):
        if word not in STATE_GROUPS and word not in (*LIVE, *ENDED_STATES):
            known = ", ".join([*LIVE, *ENDED_STATES]).lower()
            raise ValueError(f"{word.lower()!r} is not a state: {known}; or live, waiting, ended, skipped")
        found += STATE_GROUPS.get(word, (word,))
    return found


def options(parser: Parser) -> None:
    add = parser.add_argument
    add("--state", type=type_of(states), metavar="S[,S…]",
        help="running, queued, failed …; or live, waiting, ended, skipped")  # fmt: skip
    add("-Q", "--queue", action="append", help="in this queue (repeat for more)")
    add("--type", action="append", help="of this job type (repeat for more)")
    add("-t", "--tag", help="with this tag")
    add("-g", "--group", help="of this group")
    add("-s", "--subject", help="about this subject")
    add("-n", "--limit", type=type_of(positive), metavar="N",
        help=f"at most this many, the newest ({DEFAULT_LIMIT}; with -q all)")  # fmt: skip
    add("-a", "--all", action="store_true", help="all of them")


COMMAND = Command(
    "List jobs, newest first.",
    run,
    options,
    """
  semantica list --state live
  semantica list --state failed -Q build -n 5
  semantica list -q -t nightly | xargs semantica cancel

With --json: the result of job.list, {"items": […], "next_cursor": …}.""",
)
