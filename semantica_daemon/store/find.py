"""Finds a job by its whole id or a unique prefix; `selected` finds the jobs of a selection."""

from typing import Any

from semantica_daemon.errors import AmbiguousId, JobNotFound
from semantica_daemon.store.tx import Tx

BY_PREFIX = "SELECT number, id, state FROM jobs WHERE id >= :id AND id < :id || 'g' ORDER BY id LIMIT 11"


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
