"""One job of a schedule at a time, where it says so (overlap 'queue'): who waits for its turn, and who is next."""

from semantica_daemon.store.tx import Tx

HAS_LIVE = """
SELECT 1
FROM jobs INDEXED BY idx_jobs_schedule_live
WHERE finished_at IS NULL AND schedule_id IS NOT NULL AND schedule_id = :schedule_id
LIMIT 1
"""
NEXT_TURN = """
UPDATE jobs
SET awaits_turn = 0, unmet = unmet - 1, updated_at = :now
WHERE rowid = (
  SELECT rowid
  FROM jobs INDEXED BY idx_jobs_schedule_live
  WHERE finished_at IS NULL AND schedule_id IS NOT NULL AND schedule_id = :schedule_id AND awaits_turn = 1
    AND NOT EXISTS (
      SELECT 1
      FROM jobs AS other INDEXED BY idx_jobs_schedule_live
      WHERE finished_at IS NULL AND schedule_id IS NOT NULL AND schedule_id = :schedule_id AND awaits_turn = 0
    )
  ORDER BY rowid
  LIMIT 1
)
RETURNING unmet
"""


def is_taken(tx: Tx, schedule_id: str) -> bool:
    """Whether an earlier job of the schedule is still live."""
    return tx.execute(HAS_LIVE, {"schedule_id": schedule_id}).fetchone() is not None


def pass_on(tx: Tx, schedule_id: str | None, awaits_turn: int) -> None:
    """A job has ended. One that was still waiting for its turn had none to pass on."""
    if schedule_id is None or awaits_turn:
        return
    for (unmet,) in tx.execute(NEXT_TURN, {"schedule_id": schedule_id, "now": tx.now}).fetchall():
        if not unmet:
            tx.wake_at(tx.now)
