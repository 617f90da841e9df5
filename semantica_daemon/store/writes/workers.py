"""worker.register, and what every call of a worker means for its row. `worker_claim` and `worker_runs` have the
others."""

from semantica_daemon.errors import WorkerNotFound
from semantica_daemon.store.tx import Tx
from semantica_daemon.wire.worker import DEFAULT_LEASE_MS, RegisterParams, RegisterResult

FORGET_AFTER_MS = 86_400_000
INSERT = """
INSERT INTO workers (worker_id, name, pid, started_at, last_heartbeat, lease_ms)
VALUES (:worker_id, :name, :pid, :now, :now, :lease_ms)
"""
FORGET = """
DELETE FROM workers
WHERE worker_id IN (
  SELECT worker_id
  FROM workers INDEXED BY idx_workers_heartbeat
  WHERE last_heartbeat < :before AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.worker_id = workers.worker_id)
  ORDER BY last_heartbeat
  LIMIT 10
)
"""
TOUCH = "UPDATE workers SET last_heartbeat = ? WHERE worker_id = ? AND left_at IS NULL"
KNOWN = "SELECT 1 FROM workers WHERE worker_id = ? AND left_at IS NULL"


def register(tx: Tx, params: RegisterParams) -> RegisterResult:
    """Also forgets some workers that have been silent for a day, so that the table does not grow without bound."""
    tx.execute(FORGET, {"before": tx.now - FORGET_AFTER_MS})
    worker_id = tx.ids.job()
    values = {"worker_id": worker_id, "name": params.name, "pid": params.pid, "now": tx.now}
    tx.execute(INSERT, {**values, "lease_ms": DEFAULT_LEASE_MS})
    facts = {"worker_id": worker_id, "pid": params.pid}
    tx.announce("worker.registered", f"worker {params.name} has registered", facts)
    return RegisterResult(worker_id)


def touch(tx: Tx, worker_id: str) -> None:
    """Notes that the worker has called; raises WorkerNotFound, changing nothing, if there is no such worker."""
    if not tx.execute(TOUCH, (tx.now, worker_id)).rowcount:
        raise not_found(worker_id)


def check_known(tx: Tx, worker_id: str) -> None:
    if tx.execute(KNOWN, (worker_id,)).fetchone() is None:
        raise not_found(worker_id)


def not_found(worker_id: str) -> WorkerNotFound:
    hint = "call worker.register; a worker that has left, or was silent for a day, is forgotten"
    return WorkerNotFound(f"no worker {worker_id}", hint, worker_id=worker_id)
