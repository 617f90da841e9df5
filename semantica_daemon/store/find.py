"""Finds jobs by a whole id or a unique prefix, and the live jobs that a selection names."""

from typing import Any

from semantica_daemon.errors import AmbiguousId, JobNotFound
from semantica_daemon.store.counts import INDEX_OF_LIVE
from semantica_daemon.store.tx import Tx

BY_PREFIX = "SELECT number, id, state FROM jobs WHERE id >= :id AND id < :id || 'g' ORDER BY id LIMIT 11"


def _jobs(index: str, where: str) -> str:
    return f"""
SELECT number, id, state
FROM jobs INDEXED BY {index}
WHERE {where}
"""


LIVE_BY = {
    "user_tag": _jobs("idx_jobs_tag_live", "user_tag = :value AND finished_at IS NULL"),
    "chain_group_id": _jobs("idx_jobs_group_live", "chain_group_id = :value AND finished_at IS NULL"),
    "subject_key": _jobs("idx_jobs_subject_live", "subject_key = :value AND subject_key <> '' AND finished_at IS NULL"),
    "queue": "UNION ALL".join(
        _jobs(index, f"state = '{state}' AND queue = :value") for state, index in INDEX_OF_LIVE.items()
    ),
}


def the_one(rows: list[Any], prefix: str, id_at: int = 1) -> Any:
    """The single row that a query by prefix has found; raises JobNotFound or AmbiguousId."""
    if not rows:
        raise JobNotFound(f"no job {prefix}", "job.list shows what there is", job_id=prefix)
    if len(rows) > 1:
        raise AmbiguousId(
            f"{prefix} begins the id of more than one job", "give more characters", matches=[row[id_at] for row in rows]
        )
    return rows[0]


def job(tx: Tx, prefix: str) -> tuple[int, str, str]:
    """(number, id, state)"""
    found: tuple[int, str, str] = the_one(tx.execute(BY_PREFIX, {"id": prefix.lower()}).fetchall(), prefix)
    return found


def live(tx: Tx, field: str, value: str, most: int) -> list[tuple[int, str, str]]:
    return tx.execute(LIVE_BY[field] + "LIMIT :most", {"value": value, "most": most}).fetchall()
