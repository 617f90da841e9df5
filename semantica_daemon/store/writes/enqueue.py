"""job.enqueue, job.enqueue_many and job.plan: `decide` says what to do, here it is done, or told."""

from msgspec import Struct

from semantica_daemon.model import state
from semantica_daemon.model.job import Ack, Forecast, JobSpec
from semantica_daemon.model.planner import Live, Plan
from semantica_daemon.store import transition
from semantica_daemon.store.tx import StopRun, Tx
from semantica_daemon.store.writes.decide import Admitted, Decided, decide

KEEP_KEY = """
INSERT OR REPLACE INTO idempotency (idempotency_key, job_id, spec_hash, expires_at)
VALUES (:key, :job_id, :spec_hash, :expires_at)
"""
FORGET_KEYS = """
DELETE FROM idempotency
WHERE idempotency_key IN (SELECT idempotency_key FROM idempotency WHERE expires_at <= :now ORDER BY expires_at LIMIT 2)
"""
KEEP_LANE = """
INSERT INTO lanes (subject_key, job_type, generation, job_id, numbered_by)
VALUES (:subject_key, :job_type, :generation, :job_id, :numbered_by)
ON CONFLICT (subject_key, job_type) DO UPDATE
SET generation = excluded.generation, job_id = excluded.job_id, numbered_by = excluded.numbered_by, ended = NULL
"""
COUNT_INTERRUPT = """
UPDATE lanes
SET interrupts = interrupts + 1
WHERE subject_key = :subject_key AND job_type = :job_type
"""
OUTDATE = "UPDATE jobs SET stale = 1, superseded_by = :by, updated_at = :now WHERE id = :job_id AND state = 'RUNNING'"
INTERRUPT = """
UPDATE jobs
SET stale = 1, superseded_by = :by, updated_at = :now, cancel_requested_at = :now, stop_state = 'SUPERSEDED'
WHERE id = :job_id AND state = 'RUNNING' AND stop_state IS NULL
RETURNING run_id, subject_key, job_type
"""


class Acks(Struct, frozen=True):
    jobs: list[Ack]


class Start(Struct, frozen=True, gc=False):
    """How a new job begins: its state, when it is due if it has a time, and what its caller should know."""

    state: str
    at: int | None
    warnings: tuple[str, ...]


def enqueue(tx: Tx, job: Admitted) -> Ack:
    decided = decide(tx, job)
    if decided.existing is None:
        return _carry_out(tx, job, decided)
    if job.spec.idempotency_key is not None and not decided.by_key:
        _keep_key(tx, job.spec, decided.existing.job_id, job.spec_hash)
    return decided.existing


def enqueue_many(tx: Tx, jobs: list[Admitted]) -> Acks:
    """All or nothing: the verb's savepoint takes them back together."""
    return Acks([enqueue(tx, job) for job in jobs])


def forecast(tx: Tx, job: Admitted) -> Forecast:
    """What enqueue would do, stored nowhere."""
    decided = decide(tx, job)
    if decided.existing is not None:
        known = decided.existing
        return Forecast((), (), known.job_id, known.state, "it exists already; nothing new would start")
    start = _start(tx, job, decided.plan)
    busy = decided.lane_busy(job.spec.job_type)
    when = {
        state.SUPERSEDED: "never: a newer generation of its lane is already known",
        state.SCHEDULED: f"at {start.at} (epoch ms), when a slot is free",
        state.QUEUED: "when the running job of its lane has ended" if busy else "when a slot is free",
    }
    planned = decided.plan
    return Forecast(planned.supersede, planned.interrupt, None, start.state, when[start.state], start.warnings)


def _start(tx: Tx, job: Admitted, planned: Plan) -> Start:
    spec, schedule = job.spec, job.spec.schedule
    at = schedule.scheduled_at if schedule.delay_ms is None else tx.now + schedule.delay_ms
    warnings = [*job.warnings]
    if schedule.type == "AT" and at is not None and at <= tx.now:
        warnings.append("scheduled_at is in the past: it runs now")
    if spec.deadline is not None and spec.deadline <= tx.now:
        warnings.append("the deadline has passed already: it will not run")
    if planned.stale:
        warnings.append("a newer generation of its lane is already known: it will not run")
        return Start(state.SUPERSEDED, at, tuple(warnings))
    waits = at is not None and at > tx.now
    return Start(state.SCHEDULED if waits else state.QUEUED, at, tuple(warnings))


def _carry_out(tx: Tx, job: Admitted, decided: Decided) -> Ack:
    spec, planned = job.spec, decided.plan
    job_id = tx.ids.job()
    start = _start(tx, job, planned)
    _make_way(tx, job_id, planned, decided.live)
    if decided.in_lane and not planned.stale:
        _keep_lane(tx, spec, job_id, planned)
    transition.insert(tx, _row(tx, job_id, job, decided, start))
    if job.secrets:
        tx.secrets.append((job_id, job.secrets))
    if spec.idempotency_key is not None:
        _keep_key(tx, spec, job_id, job.spec_hash)
    shown = planned.generation if decided.in_lane else spec.generation
    return Ack(job_id, spec.queue, start.state, shown, planned.supersede, False, start.warnings)


def _make_way(tx: Tx, by: str, planned: Plan, live: dict[str, Live]) -> None:
    for job_id in planned.supersede:
        transition.end_waiting(tx, job_id, live[job_id].state, state.SUPERSEDED, by)
    for job_id in planned.outdate:
        tx.execute(OUTDATE, {"job_id": job_id, "by": by, "now": tx.now})
    for job_id in planned.interrupt:
        row = tx.execute(INTERRUPT, {"job_id": job_id, "by": by, "now": tx.now}).fetchall()
        for run_id, subject_key, job_type in row:
            tx.stops.append(StopRun(run_id, "supersede"))
            tx.execute(COUNT_INTERRUPT, {"subject_key": subject_key, "job_type": job_type})


def _keep_lane(tx: Tx, spec: JobSpec, job_id: str, planned: Plan) -> None:
    values = {"subject_key": spec.subject_key, "job_type": spec.job_type, "generation": planned.generation}
    tx.execute(KEEP_LANE, {**values, "job_id": job_id, "numbered_by": planned.numbered_by})


def _keep_key(tx: Tx, spec: JobSpec, job_id: str, spec_hash: str | None) -> None:
    """Each new key also forgets two that have expired, so that the table stays as small as its keys are young."""
    tx.execute(FORGET_KEYS, {"now": tx.now})
    values = {"key": spec.idempotency_key, "job_id": job_id, "spec_hash": spec_hash}
    tx.execute(KEEP_KEY, {**values, "expires_at": tx.now + spec.idempotency_ttl_ms})


def _row(tx: Tx, job_id: str, job: Admitted, decided: Decided, start: Start) -> transition.NewJob:
    spec = job.spec
    queued = start.state == state.QUEUED
    return transition.NewJob(
        id=job_id, trace_id=spec.trace, queue=spec.queue, job_type=spec.job_type, priority=spec.priority,
        subject_key=spec.subject_key or "", generation=decided.plan.generation, state=start.state,
        created_at=tx.now, updated_at=tx.now, finished_at=tx.now if start.state == state.SUPERSEDED else None,
        execution_mode=job.mode, payload=job.payload,
        max_attempts=spec.max_attempts, backoff_factor=spec.backoff_factor, backoff_base_ms=spec.backoff_base_ms,
        deadline=spec.deadline, ttl_ms=spec.ttl_ms, timeout_ms=spec.timeout_ms, grace_ms=spec.grace_ms,
        on_interrupt=spec.on_interrupt, schedule_type=spec.schedule.type, scheduled_at=start.at,
        schedule_delay_ms=spec.schedule.delay_ms, chain_group_id=spec.chain_group_id, user_tag=spec.user_tag,
        supersede=spec.supersede, on_running=decided.on_running, max_interrupts=spec.max_interrupts,
        superseded_by=decided.winner, position=tx.next_position() if queued else 0,
        queued_at=tx.now if queued else None,
        expires_at=tx.now + spec.ttl_ms if queued and spec.ttl_ms is not None else None,
        idempotency_key=spec.idempotency_key, spec_hash=job.spec_hash, env_vars=job.env, leftovers=spec.leftovers,
    )  # fmt: skip
