"""`semantica group`: groups of jobs, how they are doing, and the rules for them."""

import time

from semantica_daemon import prose
from semantica_daemon.cli import format, tables, times
from semantica_daemon.cli.command import Any, Command, Json, Option, Subcommands, Terminal
from semantica_daemon.cli.parser import positive
from semantica_daemon.client.client import LONG_WAIT_MS, Client
from semantica_daemon.client.exit_codes import TIMED_OUT

PAGE = 200


def _count(*states: str) -> tables.Cell:
    return lambda group: sum(group["counts"].get(state, 0) for state in states) or None


def _rules(group: Json) -> str | None:
    """one at a time, stop; at most 4; None without any."""
    most = group["max_parallel"]
    limit = "one at a time" if group["mode"] == "sequential" else f"at most {most} at once" if most else ""
    on_failure = "" if group["on_failure"] == "skip" else f"{group['on_failure']} on failure"
    return ", ".join(filter(None, (limit, on_failure))) or None


COLUMNS: tables.Columns = {
    "group": "chain_group_id",
    "status": "status",
    "waiting": _count("QUEUED", "SCHEDULED"),
    "running": _count("RUNNING"),
    "done": _count("DONE"),
    "failed": _count("FAILED", "SKIPPED_TTL", "SKIPPED_DEADLINE"),
    "cancelled": _count("CANCELLED"),
    "rules": _rules,
}
JOB_COLUMNS: tables.Columns = {
    "id": lambda job: prose.short_id(job["job_id"]),
    "state": "state",
    "type": "job_type",
    "queue": "queue",
    "started": lambda job: None if job["started_at"] is None else format.instant(job["started_at"]),
    "ended": lambda job: None if job["finished_at"] is None else format.instant(job["finished_at"]),
}


def list_groups(arguments: Any, terminal: Terminal) -> None:
    groups: list[Json] = []
    with terminal.client() as client:
        cursor: Json = {}
        while cursor.get("cursor", "") is not None:
            page = client.call("group.list", live=not arguments.all, limit=PAGE, **cursor)
            groups += page["groups"]
            cursor = {"cursor": page["next_cursor"]}
    nothing = "no group" if arguments.all else "no group has jobs that wait or run; --all shows the others too"
    names = [one["chain_group_id"] for one in groups]
    terminal.show({"groups": groups}, names, lambda: tables.table(COLUMNS, groups, "group", nothing))


def show(arguments: Any, terminal: Terminal) -> None:
    found = terminal.call("group.get", chain_group_id=arguments.name, limit=arguments.limit)
    terminal.show(found, [job["job_id"] for job in found["jobs"]], lambda: _draw(found, terminal))


def _draw(group: Json, terminal: Terminal) -> None:
    counts = ", ".join(f"{number} {state}" for state, number in group["counts"].items())
    by = group["stopped_by"]
    tables.pairs([
        ("group", group["chain_group_id"]),
        ("status", group["status"]),
        ("jobs", counts or "none yet"),
        ("rules", _rules(group)),
        ("created", None if group["created_at"] is None else format.instant(group["created_at"])),
        ("stopped", None if by is None else f"because job {prose.short_id(by)} failed"),
    ])  # fmt: skip
    if group["jobs"]:
        tables.heading("jobs")
        tables.table(JOB_COLUMNS, group["jobs"], "type")
    if group["next_cursor"] is not None:
        terminal.note(f"there are more jobs; `semantica list --group {group['chain_group_id']}` lists all")


def create(arguments: Any, terminal: Terminal) -> None:
    given = {
        "chain_group_id": arguments.name, "mode": "sequential" if arguments.sequential else None,
        "max_parallel": arguments.max_parallel, "on_failure": arguments.on_failure,
    }  # fmt: skip
    done = terminal.call("group.create", **{name: value for name, value in given.items() if value is not None})
    name = done["chain_group_id"]
    terminal.show(done, [name], None if arguments.name is None else lambda: _note_created(terminal, done))


def _note_created(terminal: Terminal, done: Json) -> None:
    what = "created" if done["created"] else "exists already with these rules"
    terminal.note(f"group {done['chain_group_id']} {what}; `semantica add --group NAME -- …` adds a job to it")


def cancel(arguments: Any, terminal: Terminal) -> None:
    given = {"reason": arguments.reason or "", "wait_ms": 0 if arguments.no_wait else LONG_WAIT_MS}
    done = terminal.call("group.cancel", chain_group_id=arguments.name, **given)
    ended = [*done["cancelled"], *done["cancelling"]]
    left = f"; {prose.count(len(done['cancelling']), 'job')} still running" if done["cancelling"] else ""
    sentence = f"{prose.count(len(done['cancelled']), 'job')} of group {arguments.name} cancelled{left}"
    terminal.show(done, ended, lambda: terminal.note(sentence))


def wait(arguments: Any, terminal: Terminal) -> int:
    """Returns 0 when all jobs are DONE, 1 when they have ended otherwise, 124 when the time is over."""
    until = None if arguments.timeout is None else time.monotonic() + arguments.timeout / 1000
    with terminal.client() as client:
        waited = _wait_until(client, arguments.name, until)
    group = waited["group"]
    counts = ", ".join(f"{number} {state}" for state, number in group["counts"].items())
    sentence = f"group {arguments.name}: {group['status']}" + (f" ({counts})" if counts else ", no jobs yet")
    terminal.show(waited, draw=lambda: terminal.note(sentence))
    if not waited["finished"]:
        return TIMED_OUT
    return 0 if group["status"] == "DONE" else 1


def _wait_until(client: Client, name: str, until: float | None) -> Json:
    while True:
        left = LONG_WAIT_MS if until is None else round((until - time.monotonic()) * 1000)
        waited: Json = client.query("group.wait", chain_group_id=name, timeout_ms=min(max(0, left), LONG_WAIT_MS))
        if waited["finished"] or (until is not None and time.monotonic() >= until):
            return waited


NAME = Option("name GROUP", "which group")
CREATE = [
    Option("name GROUP", "its label, for `semantica add --group` (default: a new one, which is printed)", nargs="?"),
    Option("--sequential", "run its jobs one at a time, in the order of their queue"),
    Option("--max-parallel N", "how many of its jobs run at once (default: as many as there are slots)", positive),
    Option("--on-failure {stop,continue,skip}",
           "when a job fails, cancel those that have not started (stop), only those that need it (skip, the default), "
           "or none: what needs it starts all the same (continue)"),
]  # fmt: skip
COMMAND = Subcommands(
    "Groups of jobs: how they are doing, and the rules for them.",
    {
        "list": Command(
            "List groups with jobs that wait or run.",
            list_groups,
            [Option("-a, --all", "also those whose jobs have all ended")],
            "semantica group list --all",
        ),
        "show": Command(
            "Everything about one group.",
            show,
            [NAME, Option("-n, --limit N", "how many of its jobs are shown (200)", positive, default=200)],
            "semantica group show release",
        ),
        "create": Command(
            "Set the rules of a group. Jobs that are in it already follow them too.",
            create,
            CREATE,
            "semantica group create release --sequential --on-failure stop",
        ),
        "cancel": Command(
            "End all jobs of a group that wait or run.",
            cancel,
            [NAME, Option("--reason TEXT", "kept with the jobs' events"), Option("--no-wait", "return at once")],
            "semantica group cancel release",
        ),
        "wait": Command(
            "Wait until every job of a group has ended: 0 when all are DONE, else 1.",
            wait,
            [NAME, Option("--timeout D", "stop waiting after this, with exit code 124", times.duration)],
            "semantica group wait release --timeout 10m",
        ),
    },
    """
  semantica group create release --sequential --on-failure stop
  semantica add --group release -- make test
  semantica add --group release -- make upload      not before the test has ended; cancelled when it fails
  semantica group wait release""",
)
