"""The query of what a job sees of its parents when it starts: how they ended, and their results."""

from aiosqlite import Connection

from semantica_daemon.store.rows import raw
from semantica_daemon.wire.job_view import ParentResult

LARGEST_RESULTS = 64_000_000  # bytes of all results together; the results after them are left out
# Sums up the sizes first, so that no more results are loaded than are returned.
RESULTS = """
WITH sized AS (
  SELECT ordinal, parent_id, sum(coalesce(length(CAST(result_summary AS BLOB)), 0)) OVER (ORDER BY ordinal) AS bytes
  FROM job_parents
  JOIN jobs ON jobs.id = parent_id
  WHERE job_id = :job_id
)
SELECT id, state, iif(bytes <= :most, result_summary, NULL), bytes > :most AND result_summary IS NOT NULL
FROM sized
JOIN jobs ON jobs.id = parent_id
ORDER BY ordinal
"""


async def results(db: Connection, job_id: str, most: int = LARGEST_RESULTS) -> list[ParentResult]:
    """The parents of the job that are still stored, the first one first."""
    rows = await db.execute_fetchall(RESULTS, {"job_id": job_id, "most": most})
    return [ParentResult(parent_id, ended, raw(text), bool(cut)) for parent_id, ended, text, cut in rows]
