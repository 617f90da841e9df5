"""worker.claim: gives a worker the next EXTERNAL jobs that its filter matches, in the order of all queues together,
each with a lease. `claim` does the same for the slots."""

import msgspec
from msgspec import Struct

from semantica_daemon.store import leases, rows, run_transition
from semantica_daemon.store.external import Wanted, room_of
from semantica_daemon.store.leases import Term
from semantica_daemon.store.run_transition import Running
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes.claim import is_too_late, place_of
from semantica_daemon.store.writes.workers import not_found
from semantica_daemon.wire.job_view import JobView

MOST_BYTES = 4_000_000  # of payloads that one claim returns, but at least one job
POP = """
SELECT number, id, priority, position, deadline, expires_at, created_at
FROM jobs INDEXED BY idx_jobs_blocked
WHERE blocked_by IS NOT NULL AND blocked_by = ?
ORDER BY priority DESC, position ASC, created_at ASC, id
LIMIT 2
"""
USE = """
UPDATE workers
SET last_heartbeat = ?, queues = ?, job_types = ?, lease_ms = ?
WHERE worker_id = ? AND left_at IS NULL
"""
VIEW = f"SELECT {rows.JOB_COLUMNS} FROM jobs WHERE number = ?"


class WorkerClaim(Struct, frozen=True):
    """`is_first`: not a repetition of a call that waits."""

    worker_id: str
    wanted: Wanted
    most: int
    lease_ms: int
    is_first: bool = True


class ClaimedRun(Struct, frozen=True):
    run: Running
    view: JobView
    run_token: str
    lease_expires_at: int


def worker_claim(tx: Tx, request: WorkerClaim) -> list[ClaimedRun]:
    if not request.is_first and tx.external.best(request.wanted, tx.facts, tx.now) is None:
        return []
    _use(tx, request)
    if tx.reservations.active is not None:
        return []
    found: list[ClaimedRun] = []
    size = 0
    while len(found) < request.most and size < MOST_BYTES and (job := _next(tx, request.wanted)) is not None:
        found.append(claimed := _start(tx, *job, request))
        size += memoryview(claimed.view.payload).nbytes
    if tx.counts.has_rates:
        tx.wake_at(tx.external.next_opening(tx.now))
    return found


def _use(tx: Tx, request: WorkerClaim) -> None:
    """Notes the call and its filter in the row of the worker; raises WorkerNotFound, changing nothing, without one."""
    queues, types = (
        None if names is None else msgspec.json.encode(sorted(names)).decode()
        for names in (request.wanted.queues, request.wanted.job_types)
    )
    if not tx.execute(USE, (tx.now, queues, types, request.lease_ms, request.worker_id)).rowcount:
        raise not_found(request.worker_id)


def _next(tx: Tx, wanted: Wanted) -> tuple[int, int] | None:
    """The number and the position of the next job; None: there is none that may start."""
    while (best := tx.external.best(wanted, tx.facts, tx.now)) is not None:
        place, source = best
        found = tx.execute(POP, (room_of(source),)).fetchall()
        if found and place_of(found[0]) == place:
            tx.external.replace(source, place_of(found[1]) if len(found) > 1 else None)
            if not is_too_late(tx, found[0]):
                return found[0][0], place[1]
        else:  # the best job was gone, so another source may come first
            tx.external.replace(source, place_of(found[0]) if found else None)
    return None


def _start(tx: Tx, number: int, position: int, request: WorkerClaim) -> ClaimedRun:
    job = tx.read(number)
    run, spec = run_transition.start_external(tx, job, position, request.worker_id)
    term = Term(request.lease_ms, None if spec.timeout_ms is None else tx.now + spec.timeout_ms, job.deadline)
    token, expires_at = f"w{tx.ids.random.getrandbits(128):032x}", term.expires_at(tx.now)
    values = (run.run_id, request.worker_id, number, token, term.lease_ms, expires_at, term.ends_at, term.deadline)
    tx.execute(leases.INSERT, values)
    tx.wake_at(expires_at)
    view = rows.job_view(tx.execute(VIEW, (number,)).fetchone())
    return ClaimedRun(run, view, token, expires_at)
