"""The jobs a command is about: ids, or one of tag, group, subject, file, queue and schedule. For `cancel`, `hold`,
`release`, `archive`, `wait` and `logs`."""

import os

from semantica_daemon.cli import ids
from semantica_daemon.cli.command import Any, Json, Option
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.client import LIVE_STATES, Client
from semantica_daemon.client.exit_codes import DATA

PAGE = 200
MOST_IDS = 1000
ONE_OF = "give ids, or one of --tag, --group, --subject, --newest-wins, --queue, --schedule"
IDS = Option("id ID", "ids, prefixes of ids, or @last (default)", ids.check, nargs="*")


def selectors(kind: str) -> dict[str, Option]:
    """The options that select all jobs of this kind, each with the phrase about the jobs it selects."""
    every = f"every {kind} job"
    return {
        "has tag": Option("-t, --tag TAG", f"{every} with this tag", field="user_tag"),
        "is in group": Option("-g, --group GROUP", f"{every} of this group", field="chain_group_id"),
        "is about": Option("-s, --subject SUBJECT", f"{every} about this subject", field="subject_key"),
        "is about the file": Option("--newest-wins PATH", f"{every} added with --newest-wins for this file",
                                    os.path.realpath, "subject_key"),
        "is in queue": Option("-Q, --queue QUEUE", f"{every} of this queue", field="queue"),
        "was made by schedule": Option("--schedule NAME", f"{every} made by this schedule", field="schedule_id"),
    }  # fmt: skip


SELECTORS = selectors("live")


def given(client: Client, command: str, arguments: Any) -> tuple[Json, str]:
    """The field that selects jobs with its value, and a phrase about these jobs; nothing when ids or nothing is given.
    Raises CommandFailed for more than one selection."""
    chosen = [(phrase, one) for phrase, one in SELECTORS.items() if getattr(arguments, one.dest) is not None]
    if len(chosen) + bool(arguments.id) > 1:
        raise CommandFailed(f"{command}: {len(chosen) + bool(arguments.id)} selections at once", ONE_OF)
    if not chosen:
        return {}, "was named"
    [(phrase, one)] = chosen
    value = shown = getattr(arguments, one.dest)
    if one.field == "schedule_id":
        value = client.call("schedule.get", schedule_id=value)["schedule_id"]
    return {one.field: value}, f"{phrase} {shown}"


def params(client: Client, terminal: Terminal, command: str, arguments: Any) -> tuple[Json, str]:
    """The parameters that select the jobs of a call, and a phrase about these jobs."""
    found, phrase = given(client, command, arguments)
    if arguments.id:
        found["job_ids"] = [ids.resolve(client, terminal.paths, text) for text in arguments.id]
    if not found:
        raise CommandFailed(f"{command}: no jobs are selected", ONE_OF)
    if len(found.get("job_ids", ())) > MOST_IDS:
        raise CommandFailed(f"{command}: more than {MOST_IDS} ids at once", "use a tag, or xargs -n 1000")
    return found, phrase


def job_ids(client: Client, terminal: Terminal, command: str, arguments: Any) -> list[str]:
    """The ids that are given, @last without any; for another selection its live jobs in the order of arrival, or when
    all have ended, the newest one."""
    found, phrase = given(client, command, arguments)
    if not found:
        return [ids.resolve(client, terminal.paths, text) for text in arguments.id or [ids.LAST]]
    filters = {name: [value] if name == "queue" else value for name, value in found.items()}
    live = all_jobs(client, {**filters, "state": list(LIVE_STATES), "sort": "oldest"})["items"]
    jobs = live or all_jobs(client, filters, 1)["items"]
    if not jobs:
        raise CommandFailed(f"{command}: no job {phrase}", "`semantica list` shows the jobs", DATA)
    return [job["job_id"] for job in jobs]


def all_jobs(client: Client, filters: Json, limit: int | None = None) -> Json:
    """The results of job.list joined to one page of at most `limit` jobs."""
    items: list[Json] = []
    cursor: Json = {}
    while True:
        wanted = PAGE if limit is None else min(PAGE, limit - len(items))
        page = client.call("job.list", **filters, **cursor, limit=wanted)
        items += page["items"]
        cursor = {"cursor": page["next_cursor"]}
        if page["next_cursor"] is None or (limit is not None and len(items) >= limit):
            return {"items": items, "next_cursor": page["next_cursor"]}
