"""What tests of external workers do again and again, each through the verb that the daemon would use."""

from typing import Any

from semantica_daemon.model.outcome import Outcome
from semantica_daemon.store.external import Wanted
from semantica_daemon.store.writes import worker_runs
from semantica_daemon.store.writes.worker_claim import ClaimedRun, WorkerClaim, worker_claim
from semantica_daemon.store.writes.worker_runs import EndOfRun, Heartbeat
from semantica_daemon.store.writes.workers import register
from semantica_daemon.wire.job_view import JobView
from semantica_daemon.wire.worker import HeartbeatResult, LeaveResult, RegisterParams, WorkerParams
from tests.builders import Store
from tests.store.steps import GOOD, put

LEASE = 1000
GRACE = 300


def put_external(store: Store, job_type: str = "work", **spec: Any) -> str:
    return put(store, job_type, execution_mode="EXTERNAL", **spec).job_id


def registered(store: Store, name: str = "w") -> str:
    worker_id: str = store.run(register, RegisterParams(name)).worker_id
    return worker_id


def take(
    store: Store,
    worker_id: str,
    most: int = 1,
    queues: list[str] | None = None,
    job_types: list[str] | None = None,
    lease_ms: int = LEASE,
) -> list[ClaimedRun]:
    wanted = Wanted(*(None if names is None else frozenset(names) for names in (queues, job_types)))
    found: list[ClaimedRun] = store.run(worker_claim, WorkerClaim(worker_id, wanted, most, lease_ms))
    return found


def taken_ids(store: Store, worker_id: str, most: int = 100, **wanted: Any) -> list[str]:
    return [claimed.run.job_id for claimed in take(store, worker_id, most, **wanted)]


def begin_external(store: Store, worker_id: str, **spec: Any) -> ClaimedRun:
    """Enqueue, and claim exactly that."""
    job_id = put_external(store, **spec)
    (claimed,) = take(store, worker_id)
    assert claimed.run.job_id == job_id
    return claimed


def beat(store: Store, worker_id: str, *run_ids: str) -> HeartbeatResult:
    """Without run ids, for all runs of the worker."""
    found: HeartbeatResult = store.run(worker_runs.heartbeat, Heartbeat(worker_id, list(run_ids) or None, GRACE))
    return found


def end_external(store: Store, worker_id: str, run_id: str, outcome: Outcome = GOOD) -> JobView:
    job: JobView = store.run(worker_runs.end_of_run, EndOfRun(worker_id, run_id, outcome)).job
    return job


def leave(store: Store, worker_id: str) -> LeaveResult:
    left: LeaveResult = store.run(worker_runs.leave, WorkerParams(worker_id))
    return left
