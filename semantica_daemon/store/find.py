"""Finds jobs by a whole id or a unique prefix, and the live jobs that a selection names."""

from typing import Any

from semantica_daemon.errors import AmbiguousId, JobNotFound
from semantica_daemon.store.tx import Tx

BY_ID = "SELECT number, id, state FROM jobs WHERE id = :id"
BY_PREFIX = "SELECT number, id, state FROM jobs WHERE id >= :id AND id < :id || 'g' ORDER BY id LIMIT 3"
LIVE_BY_TAG = """
SELECT number, id, state
FROM jobs INDEXED BY idx_jobs_tag_live
WHERE finished_at IS NULL AND user_tag = :value
LIMIT :most
"""
LIVE_BY_GROUP = """
SELECT number, id, state
FROM jobs INDEXED BY idx_jobs_group_live
WHERE finished_at IS NULL AND chain_group_id = :value
LIMIT :most
"""
LIVE_BY_SUBJECT = """
SELECT number, id, state
FROM jobs INDEXED BY idx_jobs_subject_live
WHERE finished_at IS NULL AND subject_key <> '' AND subject_key = :value
LIMIT :most
"""
LIVE_BY_QUEUE = """
SELECT number, id, state
FROM jobs INDEXED BY idx_jobs_pop
WHERE state = 'QUEUED' AND queue = :value
UNION ALL
SELECT number, id, state
FROM jobs INDEXED BY idx_jobs_scheduled
WHERE state = 'SCHEDULED' AND queue = :value
UNION ALL
SELECT number, id, state
FROM jobs INDEXED BY idx_jobs_running
WHERE state = 'RUNNING' AND queue = :value
LIMIT :most
"""
SELECTORS = {
    "user_tag": LIVE_BY_TAG,
    "chain_group_id": LIVE_BY_GROUP,
    "subject_key": LIVE_BY_SUBJECT,
    "queue": LIVE_BY_QUEUE,
}


def the_one(rows: list[Any], prefix: str, id_at: int = 1) -> Any:
    """The single row of BY_ID or BY_PREFIX; raises JobNotFound or AmbiguousId."""
    if not rows:
        raise JobNotFound(f"no job {prefix}", "job.list shows what there is", job_id=prefix)
    if len(rows) > 1:
        raise AmbiguousId(
            f"{prefix} begins the id of more than one job", "give more characters", matches=[row[id_at] for row in rows]
        )
    return rows[0]


def job(tx: Tx, prefix: str) -> tuple[int, str, str]:
    """(number, id, state)"""
    sql = BY_ID if len(prefix) == 36 else BY_PREFIX
    found: tuple[int, str, str] = the_one(tx.execute(sql, {"id": prefix.lower()}).fetchall(), prefix)
    return found


def live(tx: Tx, field: str, value: str, most: int) -> list[tuple[int, str, str]]:
    return tx.execute(SELECTORS[field], {"value": value, "most": most}).fetchall()
