"""The runs of external workers after their claim: heartbeats, their ends, and leases that have run out.

Every end goes through `finish`, like that of any other run.
"""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from semantica_daemon.errors import LeaseLost
from semantica_daemon.model.outcome import GIVEN_BACK, LEASE_LOST, LOST, PAST_DEADLINE, Outcome, timed_out
from semantica_daemon.model.spec import rest_of
from semantica_daemon.store import leases, rows
from semantica_daemon.store.leases import Term
from semantica_daemon.store.run_transition import Running
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes import workers
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.wire.worker import EndedRun, HeartbeatResult, Lease, LeaveResult, WorkerParams

_LEASE = """
SELECT jobs.id, leases.run_id, jobs.attempts, jobs.started_at, jobs.number, jobs.run_count, worker_id,
  lease_ms, ends_at, leases.deadline, stop_at, stop_state, wait_for_idle, require_charging, spec
FROM leases {index}
JOIN jobs ON jobs.number = job_number
WHERE {where}
"""
OF_RUN = _LEASE.format(index="", where="leases.run_id = ?")
OF_TOKEN = _LEASE.format(index="", where="run_token = ?")
OF_WORKER = _LEASE.format(index="INDEXED BY idx_leases_worker", where="worker_id = ?")
EXPIRED = _LEASE.format(index="INDEXED BY idx_leases_expires", where="leases.expires_at <= ? LIMIT ?")
LEAVE = "UPDATE workers SET left_at = ?, last_heartbeat = ? WHERE worker_id = ?"
VIEW = f"SELECT {rows.JOB_COLUMNS} FROM jobs WHERE number = ?"


class StoredLease(Struct, frozen=True):
    """`must_stop`: a cancel, a newer job or the machine ends the run."""

    run: Running
    worker_id: str
    term: Term
    stop_state: str | None
    must_stop: bool
    grace_ms: int | None
    timeout_ms: int | None


class Heartbeat(Struct, frozen=True):
    """`run_ids` None: all runs of the worker. `grace_ms`: of jobs that have none of their own."""

    worker_id: str
    run_ids: list[str] | None
    grace_ms: int


class RunToken(Struct, frozen=True):
    """`grace_ms`: of a job that has none of its own."""

    token: str
    grace_ms: int


class EndOfRun(Struct, frozen=True):
    worker_id: str
    run_id: str
    outcome: Outcome


class GivenBack(Struct, frozen=True):
    """A claim that did not reach its worker."""

    run: Running
    outcome: Outcome


def heartbeat(tx: Tx, request: Heartbeat) -> HeartbeatResult:
    workers.touch(tx, request.worker_id)
    own = {lease.run.run_id: lease for lease in _read(tx, OF_WORKER, request.worker_id)}
    asked = list(own) if request.run_ids is None else list(dict.fromkeys(request.run_ids))
    result = HeartbeatResult([], [run_id for run_id in asked if run_id not in own], [])
    for lease in (own[run_id] for run_id in asked if run_id in own):
        expires_at = renew(tx, lease, request.grace_ms)
        result.leases.append(Lease(lease.run.run_id, expires_at))
        if lease.must_stop:
            result.cancel.append(lease.run.run_id)
    return result


def renew(tx: Tx, lease: StoredLease, grace_ms: int) -> int:
    """Returns when the lease expires. The first heartbeat of a run that must stop begins its grace period, since its
    reply is what the worker learns it by."""
    term = lease.term
    if lease.must_stop and term.stop_at is None:
        own = lease.grace_ms
        term = replace(term, stop_at=tx.now + (grace_ms if own is None else own))
    expires_at = term.expires_at(tx.now)
    tx.execute(leases.RENEW, (expires_at, term.stop_at, lease.run.run_id))
    if lease.must_stop:
        tx.wake_at(expires_at)
    return expires_at


def run_of_token(tx: Tx, token: RunToken) -> Running | None:
    """The run of a worker that reports by this token, with its lease renewed; None: there is none."""
    for lease in _read(tx, OF_TOKEN, token.token):
        renew(tx, lease, token.grace_ms)
        workers.touch(tx, lease.worker_id)
        return lease.run
    return None


def end_of_run(tx: Tx, request: EndOfRun) -> EndedRun:
    """Completes or fails a run. Raises WorkerNotFound or LeaseLost, changing nothing, if it is not the worker's run."""
    workers.check_known(tx, request.worker_id)
    found = [lease for lease in _read(tx, OF_RUN, request.run_id) if lease.worker_id == request.worker_id]
    if not found:
        problem = f"run {request.run_id} is not a run of this worker, or no longer"
        raise LeaseLost(problem, "drop it; another run may do its work", run_id=request.run_id)
    workers.touch(tx, request.worker_id)
    run, outcome = found[0].run, request.outcome
    if outcome.error is not None and found[0].must_stop and found[0].stop_state is None:
        outcome = LOST
    finish(tx, Finish(run, outcome))
    return EndedRun(rows.job_view(tx.execute(VIEW, (run.job_number,)).fetchone()))


def leave(tx: Tx, params: WorkerParams) -> LeaveResult:
    """Its jobs wait for another worker; their attempts are given back."""
    workers.check_known(tx, params.worker_id)
    own = _read(tx, OF_WORKER, params.worker_id)
    for lease in own:
        finish(tx, Finish(lease.run, GIVEN_BACK))
    tx.execute(LEAVE, (tx.now, tx.now, params.worker_id))
    given_back = [lease.run.job_id for lease in own]
    tx.announce("worker.left", f"worker {params.worker_id} has left", {"worker_id": params.worker_id})
    return LeaveResult(params.worker_id, given_back)


def give_back(tx: Tx, request: GivenBack) -> None:
    finish(tx, Finish(request.run, request.outcome))


def end_expired(tx: Tx, most: int) -> None:
    for lease in _read(tx, EXPIRED, tx.now, most):
        finish(tx, Finish(lease.run, _outcome(tx, lease)))


def _outcome(tx: Tx, lease: StoredLease) -> Outcome:
    """Why the lease is over. A cancelled or superseded job ends as such, whatever this returns."""
    term = lease.term
    if term.stop_at is not None:
        return LOST
    if term.deadline is not None and term.deadline <= tx.now:
        return PAST_DEADLINE
    if term.ends_at is not None and term.ends_at <= tx.now:
        return timed_out(lease.timeout_ms or 0)
    return LEASE_LOST


def _read(tx: Tx, statement: str, *values: Any) -> list[StoredLease]:
    return [_lease(tx, row) for row in tx.execute(statement, values).fetchall()]


def _lease(tx: Tx, row: tuple[Any, ...]) -> StoredLease:
    worker_id, lease_ms, ends_at, deadline, stop_at, stop_state, idle, charging, spec = row[6:]
    rest = rest_of(spec)
    lost = rest.stop_when_lost and not tx.facts.meet(idle, charging)
    return StoredLease(
        Running(*row[:6]),
        worker_id,
        Term(lease_ms, ends_at, deadline, stop_at),
        stop_state,
        stop_state is not None or stop_at is not None or lost,
        rest.grace_ms,
        rest.timeout_ms,
    )
