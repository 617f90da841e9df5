"""Jobs as rows of a table, for `list` and `status`: which columns are shown, and when each waiting job starts."""

from collections.abc import Mapping

from semantica_daemon import prose
from semantica_daemon.cli import format, tables
from semantica_daemon.cli.fast_add import job_type_of
from semantica_daemon.client.client import WAITING_STATES, Client
from semantica_daemon.client.errors import CallRefused
from semantica_daemon.client.json_types import Json

MOST_EXPLAINED = 50
HIDDEN: Json = {"except_queue": ["semantica.doctor"]}  # the filter of job.list unless a queue is asked for
NOT_ARCHIVED: Json = {"archived": False}
# Shown only when a row has a value there.
OPTIONAL = ("type", "subject", "tag", "progress", "starts", "took", "exit")
# Left out in this order when the terminal is too narrow; an id is never cut.
LEAST_IMPORTANT = ("type", "subject", "took", "queue", "progress", "tag", "age", "added", "ended", "starts", "exit")

Starts = Mapping[str, str]  # by job id


def starts_of(client: Client, jobs: list[Json]) -> Starts:
    """When each waiting job starts or what it waits for; of many, only the first."""
    waiting = [job["job_id"] for job in jobs if job["state"] in WAITING_STATES]
    found: dict[str, str] = {}
    for job_id in waiting[:MOST_EXPLAINED]:
        try:
            explained = client.call("job.explain", job_id=job_id)
        except CallRefused:  # pruned meanwhile
            continue
        if explained["state"] in WAITING_STATES:
            found[job_id] = prose.short_start(explained["reasons"], format.instant)
    return found


def draw(jobs: list[Json], starts: Starts, nothing: str = "", stays: bool = False, ended: bool = False) -> None:
    """`nothing` is noted without jobs. `stays`: the table stays on the screen, so it has no ages. `ended`: it shows
    when each job has ended instead of its age."""
    cells = _columns(starts, stays, ended)
    shown = {
        name: cell
        for name, cell in cells.items()
        if name not in OPTIONAL or any(tables.value_of(job, cell) is not None for job in jobs)
    }
    tables.table(shown, jobs, "what", nothing, LEAST_IMPORTANT)


def _columns(starts: Starts, stays: bool, ended: bool) -> tables.Columns:
    age: tables.Columns = {"age": lambda job: format.age(job["created_at"])}
    added: tables.Columns = {"added": lambda job: format.instant(job["created_at"])}
    end: tables.Columns = {"ended": lambda job: f"{format.age(job['finished_at'])} ago"}
    return {
        "id": lambda job: prose.short_id(job["job_id"]),
        "state": "state",
        "queue": "queue",
        "type": _type,
        "what": _what,
        "subject": "subject_key",
        "tag": "user_tag",
        "progress": format.short_progress,
        "starts": lambda job: starts.get(job["job_id"]),
        **(end if ended else added if stays else age),
        "took": lambda job: None if stays and job["finished_at"] is None else format.took(job),
        "exit": "exit_code",
    }


def _what(job: Json) -> str:
    """The command, or the type of a job without one."""
    return format.command(job) or str(job["job_type"])


def _type(job: Json) -> str | None:
    """The type, if it is not the one that `add` makes from the command: there is one for a job without a subject, and
    one for a job with a subject."""
    argv = (job["payload"] or {}).get("argv") if format.command(job) else None
    usual = [job_type_of([str(word) for word in argv], subject) for subject in (None, "")] if argv else []
    return None if not argv or job["job_type"] in usual else job["job_type"]
