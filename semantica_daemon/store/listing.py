"""The query of job.list: pages of jobs in the order of arrival, which is that of their numbers, or of their ends.

A filter with an index of its own uses it; a filter on state or queue runs one statement per state.
"""

from collections.abc import Iterable
from typing import Any

from aiosqlite import Connection
from msgspec.json import encode

from semantica_daemon.errors import InvalidParams
from semantica_daemon.model.state import QUEUED, STATES
from semantica_daemon.store import rows
from semantica_daemon.store.counts import INDEX_OF_LIVE
from semantica_daemon.wire.job import JobPage, ListParams

LIST = (
    f"SELECT {rows.LISTED_COLUMNS}, number FROM jobs {{index}} WHERE {{where}} ORDER BY number {{order}} LIMIT :limit"
)
# The index of a state has the numbers of each queue in order: merges the queues, and reads one row ahead in each.
MERGE_QUEUES = f"""
WITH RECURSIVE merged(name, at) AS (
  SELECT queue_counts.queue, ({{next}} AND queue = queue_counts.queue AND number {{after}} :cursor {{one}})
  FROM queue_counts
  WHERE {{queues}}
  UNION ALL
  SELECT name, ({{next}} AND queue = name AND number {{after}} at {{one}})
  FROM merged
  WHERE at IS NOT NULL
  ORDER BY 2 {{order}} NULLS LAST
  LIMIT :limit
)
SELECT {rows.LISTED_COLUMNS}, number
FROM merged
CROSS JOIN jobs ON number = at
"""
ENDED = f"""
SELECT {rows.LISTED_COLUMNS}, finished_at, number
FROM jobs INDEXED BY idx_jobs_gc
WHERE finished_at IS NOT NULL AND (finished_at, number) < (:ended_at, :cursor) AND {{where}}
ORDER BY finished_at DESC, number DESC
LIMIT :limit
"""
# What job.list searches for a text.
TEXT = """job_type || char(10) || subject_key || char(10) || coalesce(user_tag, '') || char(10) || coalesce(
  (SELECT group_concat(value, ' ') FROM json_each(jobs.payload, '$.argv')), jobs.payload, ''
)"""
# The condition of each filter; the value of a filter that is a list is bound as JSON.
CONDITIONS = {
    "state": "state IN (SELECT value FROM json_each(:state))",
    "queue": "queue IN (SELECT value FROM json_each(:queue))",
    "except_queue": "queue NOT IN (SELECT value FROM json_each(:except_queue))",
    "job_type": "job_type IN (SELECT value FROM json_each(:job_type))",
    "user_tag": "user_tag = :user_tag",
    "chain_group_id": "chain_group_id = :chain_group_id",
    "subject_key": "subject_key <> '' AND subject_key = :subject_key",
    "subject_prefix": "subject_key <> '' AND subject_key BETWEEN :subject_prefix AND :subject_prefix || char(1114111)",
    "schedule_id": "schedule_id = :schedule_id",
    "held": "(held_at IS NOT NULL AND finished_at IS NULL) = :held",
    "archived": "(archived_at IS NOT NULL) = :archived",
    "contains": f"instr(lower({TEXT}), lower(:contains)) > 0",
    "created_after": "created_at > :created_after",
    "created_before": "created_at < :created_before",
}
INDEX_OF = {
    "user_tag": "idx_jobs_user_tag",
    "chain_group_id": "idx_jobs_group",
    "subject_key": "idx_jobs_subject_generation",
    "subject_prefix": "idx_jobs_subject_generation",
}


async def jobs(db: Connection, params: ListParams) -> JobPage:
    filters = {name: value for name in CONDITIONS if (value := getattr(params, name)) not in (None, [])}
    bound = {name: encode(value).decode() if isinstance(value, list) else value for name, value in filters.items()}
    bound["limit"] = params.limit + 1
    if params.sort == "ended":
        return await _ended(db, params, filters, bound)
    newest_first = params.sort == "newest"
    bound["cursor"] = _cursor(params.cursor, newest_first)
    found: list[Any] = []
    await db.execute("BEGIN")
    try:
        for state in _states(filters):
            found += await db.execute_fetchall(statement(filters, state, newest_first), bound)
    finally:
        await db.execute("ROLLBACK")
    found.sort(key=lambda row: row[-1], reverse=newest_first)
    page = found[: params.limit]
    next_cursor = str(page[-1][-1]) if len(found) > params.limit else None
    return JobPage([rows.listed(row[:-1]) for row in page], next_cursor)


async def _ended(db: Connection, params: ListParams, filters: dict[str, Any], bound: dict[str, Any]) -> JobPage:
    ended_at, dot, number = (params.cursor or "").partition(".")
    bound |= {"ended_at": _cursor(ended_at or None, True), "cursor": _cursor(number if dot else None, True)}
    found = list(await db.execute_fetchall(ended_statement(filters), bound))
    page = found[: params.limit]
    next_cursor = f"{page[-1][-2]}.{page[-1][-1]}" if len(found) > params.limit else None
    return JobPage([rows.listed(row[:-2]) for row in page], next_cursor)


def ended_statement(filters: dict[str, Any]) -> str:
    """The query of the jobs that have ended, the last one first."""
    return ENDED.format(where=" AND ".join([CONDITIONS[name] for name in filters] or ["1"]))


def statement(filters: dict[str, Any], state: str | None, newest_first: bool) -> str:
    """The query of the jobs of one state; None: of all states."""
    order, after = ("DESC", "<") if newest_first else ("ASC", ">")
    conditions = {name: CONDITIONS[name] for name in filters}
    if state is None:
        index = next((f"INDEXED BY {index}" for name, index in INDEX_OF.items() if name in filters), "NOT INDEXED")
    elif state in INDEX_OF_LIVE:
        index, conditions["state"] = f"INDEXED BY {INDEX_OF_LIVE[state]}", f"state = '{state}'"
    else:
        index = "INDEXED BY idx_jobs_state_queue"
        conditions["state"] = f"state = '{state}' AND finished_at IS NOT NULL"
    if state in (None, QUEUED):  # the index of QUEUED is in the order of the claim: its rows are sorted
        where = " AND ".join([*conditions.values(), f"number {after} :cursor"])
        return LIST.format(index=index, where=where, order=order)
    queues = " AND ".join(conditions.pop(name, "1") for name in ("queue", "except_queue"))
    following = f"SELECT number FROM jobs {index} WHERE {' AND '.join(conditions.values())}"
    one = f"ORDER BY number {order} LIMIT 1"
    return MERGE_QUEUES.format(next=following, queues=queues, one=one, after=after, order=order)


def _states(filters: dict[str, Any]) -> Iterable[str | None]:
    """The states to query one by one; None is a single query, for a filter with an index of its own or none at all."""
    if INDEX_OF.keys() & filters.keys() or not ({"state", "queue"} & filters.keys()):
        return [None]
    return dict.fromkeys(filters.get("state", STATES))


def _cursor(text: str | None, newest_first: bool) -> int:
    """The number of the last job of the page before; without a page before, a number beyond all jobs."""
    return 2**63 - 1 if text is None and newest_first else number_of(text)


def number_of(cursor: str | None) -> int:
    """The number in a cursor; 0 for the first page."""
    text = "0" if cursor is None else cursor
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidParams("not a cursor of this list", "pass next_cursor as it came", path="$.cursor")
    return int(text)
