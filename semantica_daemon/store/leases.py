"""The leases of external workers: a run that a worker has claimed is the worker's while its lease lasts.

A lease never reaches beyond the timeout of the run, the deadline of the job, or the grace period of a run that must
stop, so one instant, `expires_at`, is all that the scheduler watches. `writes/worker_runs` renews and ends them.
"""

from msgspec import Struct

from semantica_daemon.store.tx import Tx

INSERT = """
INSERT INTO leases (run_id, worker_id, job_number, run_token, lease_ms, expires_at, ends_at, deadline)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""
RENEW = "UPDATE leases SET expires_at = ?, stop_at = ? WHERE run_id = ?"
DELETE = "DELETE FROM leases WHERE run_id = ? RETURNING worker_id"
# Heartbeats could not be received while no daemon ran, so each lease begins anew at its start.
RENEW_AT_START = """
UPDATE leases
SET expires_at = max(expires_at, min(
  :now + lease_ms, coalesce(ends_at, 9e18), coalesce(deadline, 9e18), coalesce(stop_at, 9e18)
))
"""
COUNT_RUN = {
    "DONE": "UPDATE workers SET items_processed = items_processed + 1 WHERE worker_id = ?",
    "FAILED": "UPDATE workers SET items_failed = items_failed + 1 WHERE worker_id = ?",
}


class Term(Struct, frozen=True):
    """How long a lease lasts from each heartbeat on, and the instants that it must not reach beyond."""

    lease_ms: int
    ends_at: int | None
    deadline: int | None
    stop_at: int | None = None

    def expires_at(self, now: int) -> int:
        bounds = (now + self.lease_ms, self.ends_at, self.deadline, self.stop_at)
        return min(at for at in bounds if at is not None)


def end(tx: Tx, run_id: str, run_status: str) -> None:
    """Deletes the lease of a run that has ended, and counts the run for its worker."""
    for (worker_id,) in tx.execute(DELETE, (run_id,)).fetchall():
        if run_status in COUNT_RUN:
            tx.execute(COUNT_RUN[run_status], (worker_id,))
