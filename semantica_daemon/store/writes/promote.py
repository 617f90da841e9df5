"""What has become due: SCHEDULED jobs join their queue, late ones are skipped, paused queues resume."""

from msgspec import Struct

from semantica_daemon.model import state
from semantica_daemon.store import transition
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes import queues

DUE = """
SELECT id
FROM jobs INDEXED BY idx_jobs_due
WHERE state = 'SCHEDULED' AND scheduled_at IS NOT NULL AND scheduled_at <= :now
ORDER BY scheduled_at, rowid
LIMIT :most
"""
EXPIRED = """
SELECT id
FROM jobs INDEXED BY idx_jobs_expires
WHERE state = 'QUEUED' AND expires_at IS NOT NULL AND expires_at <= :now
LIMIT :most
"""
PAST_DEADLINE = """
SELECT id, state
FROM jobs INDEXED BY idx_jobs_deadline
WHERE state IN ('QUEUED', 'SCHEDULED') AND deadline IS NOT NULL AND deadline <= :now
LIMIT :most
"""
RESUMING = "SELECT queue FROM queues WHERE resume_at IS NOT NULL AND resume_at <= :now"
NEXT_DUE = """
SELECT min(at)
FROM (
  SELECT min(scheduled_at) AS at
  FROM jobs INDEXED BY idx_jobs_due
  WHERE state = 'SCHEDULED' AND scheduled_at IS NOT NULL
  UNION ALL
  SELECT min(expires_at)
  FROM jobs INDEXED BY idx_jobs_expires
  WHERE state = 'QUEUED' AND expires_at IS NOT NULL
  UNION ALL
  SELECT min(deadline)
  FROM jobs INDEXED BY idx_jobs_deadline
  WHERE state IN ('QUEUED', 'SCHEDULED') AND deadline IS NOT NULL
  UNION ALL
  SELECT min(resume_at) FROM queues WHERE resume_at IS NOT NULL
)
"""


class Promote(Struct, frozen=True):
    most: int = 200


def promote(tx: Tx, request: Promote) -> int | None:
    """Handles up to `most` of each kind; the answer is the next instant at which anything is due (maybe now)."""
    bound = {"now": tx.now, "most": request.most}
    for job_id, origin in tx.execute(PAST_DEADLINE, bound).fetchall():
        transition.end_waiting(tx, job_id, origin, state.SKIPPED_DEADLINE)
    for (job_id,) in tx.execute(EXPIRED, bound).fetchall():
        transition.end_waiting(tx, job_id, state.QUEUED, state.SKIPPED_TTL)
    for (job_id,) in tx.execute(DUE, bound).fetchall():
        transition.promote(tx, job_id)
    for (queue,) in tx.execute(RESUMING, {"now": tx.now}).fetchall():
        queues.end_pause(tx, queue)
    due: int | None = tx.execute(NEXT_DUE).fetchone()[0]
    return due
