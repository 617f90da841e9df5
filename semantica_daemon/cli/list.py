"""`semantica list`: jobs in a table, newest first; `semantica ls` is the same."""

import os
from itertools import chain

from semantica_daemon.cli import job_table
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.cli.parser import did_you_mean, positive
from semantica_daemon.cli.selection import all_jobs
from semantica_daemon.cli.times import past
from semantica_daemon.client.client import ENDED_STATES, LIVE_STATES, WAITING_STATES, Client

ALL_STATES = (*LIVE_STATES, *ENDED_STATES)
STATE_GROUPS = {
    "LIVE": LIVE_STATES, "WAITING": WAITING_STATES, "ENDED": ENDED_STATES,
    "SKIPPED": tuple(state for state in ENDED_STATES if state.startswith("SKIPPED")),
}  # fmt: skip
DEFAULT_LIMIT = 20


def run(arguments: Any, terminal: Terminal) -> None:
    filters = {one.field: value for one in FILTERS if (value := getattr(arguments, one.dest)) is not None}
    limit = None if arguments.all else arguments.limit or (None if terminal.quiet else DEFAULT_LIMIT)
    with terminal.client() as client:
        if arguments.schedule is not None:
            filters["schedule_id"] = client.call("schedule.get", schedule_id=arguments.schedule)["schedule_id"]
        is_filtered = bool(filters or arguments.held or arguments.archived)
        filters |= {} if "queue" in filters else job_table.HIDDEN
        filters |= {"archived": True} if arguments.archived else job_table.NOT_ARCHIVED
        filters |= {"held": True} if arguments.held else {}
        if arguments.watch:
            return _watch(client, terminal, filters, limit, is_filtered)
        _show(client, terminal, all_jobs(client, filters, limit), is_filtered)


def _show(client: Client, terminal: Terminal, page: Json, is_filtered: bool, stays: bool = False) -> None:
    items = page["items"]
    starts = {} if terminal.as_json or terminal.quiet else job_table.starts_of(client, items)
    nothing = "no job matches" if is_filtered else "no job yet; `semantica run -- COMMAND` adds one"
    terminal.show(page, [job["job_id"] for job in items], lambda: job_table.draw(items, starts, nothing, stays))
    if page["next_cursor"] is not None and not (terminal.as_json or terminal.quiet or stays):
        terminal.note(f"the newest {len(items)}; --all shows the rest")


def _watch(client: Client, terminal: Terminal, filters: Json, limit: int | None, is_filtered: bool) -> None:
    """Shows the jobs, and again after each event that changes them, until Ctrl-C."""
    queues = filters.get("queue") or []
    of_events = {"queue": queues[0]} if len(queues) == 1 else {}
    of_events |= {"user_tag": filters["user_tag"]} if "user_tag" in filters else {}
    shown: Json = {}
    with client.subscribe(**of_events) as events:
        for _ in chain([None], events):
            events.drain()  # one query is enough for all of them
            page = all_jobs(client, filters, limit)
            if page == shown:
                continue
            shown = page
            if terminal.as_json:
                terminal.print_json(page, lines=True)
            else:
                terminal.clear()
                _show(client, terminal, page, is_filtered, stays=True)
            terminal.flush()


def states(text: str) -> list[str]:
    found: list[str] = []
    for word in text.upper().split(","):
        if word not in STATE_GROUPS and word not in ALL_STATES:
            known = ", ".join(ALL_STATES).lower()
            near = did_you_mean(word.lower(), [one.lower() for one in (*ALL_STATES, *STATE_GROUPS)])
            raise ValueError(f"{word.lower()!r} is not a state: {near or f'{known}; or live, waiting, ended, skipped'}")
        found += STATE_GROUPS.get(word, (word,))
    return found


STATES = Option("--state S[,S…]", "running, queued, failed …; or live, waiting, ended, skipped", states, "state")
FAILED = Option("--failed", "the same as --state failed", dest="state", action="store_const", const=["FAILED"])
FILTERS = [
    STATES,
    Option("-Q, --queue QUEUE", "in this queue (repeat for more)", field="queue", action="append"),
    Option("--type TYPE", "of this job type (repeat for more)", field="job_type", action="append"),
    Option("-t, --tag TAG", "with this tag", field="user_tag"),
    Option("-g, --group GROUP", "of this group", field="chain_group_id"),
    Option("-s, --subject SUBJECT", "about this subject", field="subject_key"),
    Option("--newest-wins PATH", "added with --newest-wins for this file", os.path.realpath, "subject_key"),
    Option("--schedule NAME", "made by this schedule", field="schedule_id"),
    Option("--grep TEXT", "with this text in the command, type, subject or tag, in any case", field="contains"),
    Option("--since WHEN", "added after this: 2h (ago), 14:30, monday 9:00, 2026-05-01", past, "created_after"),
]  # fmt: skip
OPTIONS = [
    FAILED,
    *FILTERS,
    Option("--held", "that are held"),
    Option("--archived", "that are archived; all other listings leave them out"),
    Option("-n, --limit N", f"at most this many, the newest ({DEFAULT_LIMIT}; with -q all)", positive),
    Option("-a, --all", "all of them"),
    Option("-w, --watch", "show them again whenever one of them changes, until Ctrl-C"),
]  # fmt: skip
COMMAND = Command(
    "List jobs, newest first.",
    run,
    OPTIONS,
    """
  semantica list --state live
  semantica list --watch --state live
  semantica list --failed --since 2h
  semantica list --schedule backup --grep tar -Q build -n 5
  semantica list -q -t nightly | xargs semantica cancel

With --json: the result of job.list, {"items": […], "next_cursor": …}; with --watch one line for each change.""",
)
