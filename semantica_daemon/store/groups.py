"""The queries of groups: the policy, the members and their states. `writes/groups` changes them.

A group is a label of jobs, a row of `groups`, or both. Of a member that was retried only the newest retry counts.
"""

from typing import Any

from aiosqlite import Connection

from semantica_daemon.errors import GroupNotFound
from semantica_daemon.model import group as model
from semantica_daemon.store.listing import number_of
from semantica_daemon.wire.group import (
    GetGroupParams,
    GroupJob,
    GroupPage,
    GroupSummary,
    GroupView,
    ListGroupsParams,
)

POLICY = "SELECT mode, on_failure, max_parallel, created_at, stopped_by FROM groups WHERE chain_group_id = :group"
_MEMBERS = """FROM jobs INDEXED BY idx_jobs_group
WHERE chain_group_id IS NOT NULL AND chain_group_id = :group AND NOT EXISTS (
  SELECT 1
  FROM job_retries AS mine
  CROSS JOIN job_retries AS others ON others.first_job_id = mine.first_job_id
  CROSS JOIN jobs AS newer ON newer.id = others.job_id
  WHERE mine.job_id = jobs.id AND +newer.number > jobs.number AND +newer.chain_group_id = :group
)"""
COUNTS = f"""
SELECT state, count(*)
{_MEMBERS}
GROUP BY state
"""
JOBS = f"""
SELECT id, state, job_type, queue, user_tag, parent_job_id, started_at, finished_at, number
{_MEMBERS} AND number > :cursor
ORDER BY number
LIMIT :limit
"""
IS_LIVE = """
SELECT 1
FROM jobs INDEXED BY idx_jobs_group_live
WHERE finished_at IS NULL AND chain_group_id IS NOT NULL AND chain_group_id = :group
LIMIT 1
"""
EXISTS = """
SELECT 1
FROM groups
WHERE chain_group_id = :group
UNION ALL
SELECT 1
FROM jobs INDEXED BY idx_jobs_group
WHERE chain_group_id IS NOT NULL AND chain_group_id = :group
LIMIT 1
"""
# Steps from label to label, whatever number of jobs each has.
_NEXT_LABEL = """(
    SELECT chain_group_id
    FROM jobs INDEXED BY {index}
    WHERE {where}chain_group_id IS NOT NULL AND chain_group_id > {after}
    ORDER BY chain_group_id
    LIMIT 1
  )"""
_LABELS = """
WITH RECURSIVE labels(label) AS (
  SELECT {first}
  UNION ALL
  SELECT {next} FROM labels WHERE label IS NOT NULL LIMIT :limit
)
"""


def _labels(index: str, where: str) -> str:
    first, following = (_NEXT_LABEL.format(index=index, where=where, after=after) for after in (":cursor", "label"))
    return _LABELS.format(first=first, next=following)


LIVE_LABELS = f"""{_labels("idx_jobs_group_live", "finished_at IS NULL AND ")}
SELECT label FROM labels WHERE label IS NOT NULL
"""
ALL_LABELS = f"""{_labels("idx_jobs_group", "")}
SELECT label FROM labels WHERE label IS NOT NULL
UNION
SELECT * FROM (SELECT chain_group_id FROM groups WHERE chain_group_id > :cursor ORDER BY chain_group_id LIMIT :limit)
ORDER BY 1
LIMIT :limit
"""
NO_POLICY = ("parallel", "skip", None, None, None)


async def get(db: Connection, params: GetGroupParams) -> GroupView:
    values = {"group": params.chain_group_id, "cursor": number_of(params.cursor), "limit": params.limit + 1}
    await db.execute("BEGIN")
    try:
        summary = await _summary(db, params.chain_group_id)
        found = list(await db.execute_fetchall(JOBS, values))
    finally:
        await db.execute("ROLLBACK")
    page = found[: params.limit]
    next_cursor = str(page[-1][-1]) if page and len(found) > params.limit else None
    fields = {name: getattr(summary, name) for name in GroupSummary.__struct_fields__}
    return GroupView(**fields, jobs=[GroupJob(*row[:-1]) for row in page], next_cursor=next_cursor)


async def summary(db: Connection, group: str) -> GroupSummary:
    await db.execute("BEGIN")
    try:
        return await _summary(db, group)
    finally:
        await db.execute("ROLLBACK")


async def listed(db: Connection, params: ListGroupsParams) -> GroupPage:
    values = {"cursor": params.cursor or "", "limit": params.limit + 1}
    await db.execute("BEGIN")
    try:
        rows = list(await db.execute_fetchall(LIVE_LABELS if params.live else ALL_LABELS, values))
        page = [row[0] for row in rows[: params.limit]]
        groups = [await _summary(db, label) for label in page]
    finally:
        await db.execute("ROLLBACK")
    return GroupPage(groups, page[-1] if len(rows) > params.limit else None)


async def check_exists(db: Connection, group: str) -> None:
    if not list(await db.execute_fetchall(EXISTS, {"group": group})):
        raise unknown(group)


async def has_ended(db: Connection, group: str) -> bool:
    """Whether it has jobs, and all of them have ended."""
    if list(await db.execute_fetchall(IS_LIVE, {"group": group})):
        return False
    return model.has_ended(await _counts(db, group))


async def _summary(db: Connection, group: str) -> GroupSummary:
    policy = list(await db.execute_fetchall(POLICY, {"group": group}))
    counts = await _counts(db, group)
    if not policy and not counts:
        raise unknown(group)
    fields: tuple[Any, ...] = tuple(policy[0]) if policy else NO_POLICY
    return GroupSummary(*(group, *fields, model.status(counts), counts))


async def _counts(db: Connection, group: str) -> dict[str, int]:
    return {row[0]: row[1] for row in await db.execute_fetchall(COUNTS, {"group": group})}


def unknown(group: str) -> GroupNotFound:
    hint = "group.list shows what there is; group.create makes one, and so does a job with that label"
    return GroupNotFound(f"there is no group {group}", hint, chain_group_id=group)
