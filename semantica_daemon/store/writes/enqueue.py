"""job.enqueue, job.enqueue_many and job.plan: find what is known, ask the planner, carry it out."""

from typing import Any

from msgspec import Struct

from semantica_daemon.errors import IdempotencyConflict, QueueFull
from semantica_daemon.model import state
from semantica_daemon.model.job import Ack, Forecast, JobSpec
from semantica_daemon.model.planner import Arrival, Lane, Live, Plan, plan
from semantica_daemon.store import transition
from semantica_daemon.store.tx import StopRun, Tx

LIVE_IN_LANE = "finished_at IS NULL AND subject_key <> '' AND supersede <> 'none'"
KEY = "SELECT job_id, spec_hash, ended FROM idempotency WHERE idempotency_key = :key AND expires_at > :now"
KEEP_KEY = """
INSERT OR REPLACE INTO idempotency (idempotency_key, job_id, spec_hash, expires_at)
VALUES (:key, :job_id, :spec_hash, :expires_at)
"""
FORGET_KEYS = """
DELETE FROM idempotency
WHERE idempotency_key IN (SELECT idempotency_key FROM idempotency WHERE expires_at <= :now ORDER BY expires_at LIMIT 2)
"""
BY_ID = "SELECT queue, state, generation, subject_key FROM jobs WHERE id = :job_id"
LANE = """
SELECT generation, job_id, numbered_by, interrupts, ended
FROM lanes
WHERE subject_key = :subject_key AND job_type = :job_type
"""
KNOWN = """
SELECT id
FROM jobs INDEXED BY idx_jobs_lane_generation
WHERE subject_key <> '' AND supersede <> 'none' AND retry_of IS NULL
  AND subject_key = :subject_key AND job_type = :job_type AND generation = :generation
"""
LIVE_OF_LANE = f"""
SELECT id, job_type, state, generation, stop_state IS NOT NULL, queue
FROM jobs INDEXED BY idx_jobs_lane_live
WHERE {LIVE_IN_LANE} AND subject_key = :subject_key AND job_type = :job_type
"""
LIVE_OF_SUBJECT = f"""
SELECT id, job_type, state, generation, stop_state IS NOT NULL, queue
FROM jobs INDEXED BY idx_jobs_lane_live
WHERE {LIVE_IN_LANE} AND subject_key = :subject_key
"""
KEEP_LANE = """
INSERT INTO lanes (subject_key, job_type, generation, job_id, numbered_by, interrupts)
VALUES (:subject_key, :job_type, :generation, :job_id, :numbered_by, :interrupts)
ON CONFLICT (subject_key, job_type) DO UPDATE
SET generation = excluded.generation, job_id = excluded.job_id, numbered_by = excluded.numbered_by,
    ended = NULL, interrupts = lanes.interrupts + excluded.interrupts
"""
OUTDATE = "UPDATE jobs SET stale = 1, superseded_by = :by, updated_at = :now WHERE id = :job_id AND state = 'RUNNING'"
INTERRUPT = """
UPDATE jobs
SET stale = 1, superseded_by = :by, updated_at = :now, cancel_requested_at = :now, stop_state = 'SUPERSEDED'
WHERE id = :job_id AND state = 'RUNNING' AND stop_state IS NULL
RETURNING run_id
"""


class Admitted(Struct, frozen=True, gc=False):
    """A spec that was checked against the handlers, with its payload as it is stored."""

    spec: JobSpec
    mode: str
    payload: str
    spec_hash: str | None


class Acks(Struct, frozen=True):
    jobs: list[Ack]


class Decided(Struct, frozen=True, gc=False):
    """What an enqueue will do: `existing` is the answer when the job is already known."""

    existing: Ack | None = None
    plan: Plan | None = None
    lane: Lane | None = None
    live: dict[str, Live] = {}
    on_running: str = "finish"

    @property
    def lane_busy(self) -> bool:
        return any(job.state == state.RUNNING for job in self.live.values())

    def grows(self, queue: str) -> bool:
        """Whether it adds to the waiting jobs of that queue; one it supersedes there makes way for it."""
        if self.existing is not None or (self.plan and self.plan.stale):
            return False
        return not (self.plan and any(self.live[job_id].queue == queue for job_id in self.plan.supersede))


def enqueue(tx: Tx, job: Admitted) -> Ack:
    decided = decide(tx, job)
    if decided.existing is not None:
        return decided.existing
    return _carry_out(tx, job, decided)


def enqueue_many(tx: Tx, jobs: list[Admitted]) -> Acks:
    """All or nothing: the verb's savepoint takes them back together."""
    return Acks([enqueue(tx, job) for job in jobs])


def forecast(tx: Tx, job: Admitted) -> Forecast:
    """What enqueue would do, stored nowhere."""
    decided = decide(tx, job)
    if decided.existing is not None:
        known = decided.existing
        return Forecast((), (), known.job_id, known.state, "it exists already; nothing new would start")
    planned = decided.plan or Plan(0, "server")
    new_state, at, warnings = _state(tx, job.spec, planned)
    starts = {
        state.SUPERSEDED: "never: a newer generation of its lane is already known",
        state.SCHEDULED: f"at {at} (epoch ms), when a slot is free",
        state.QUEUED: "when the running job of its lane has ended" if decided.lane_busy else "when a slot is free",
    }
    return Forecast(planned.supersede, planned.interrupt, None, new_state, starts[new_state], warnings)


def decide(tx: Tx, job: Admitted) -> Decided:
    spec = job.spec
    if spec.idempotency_key is not None:
        found = _by_key(tx, spec, job.spec_hash)
        if found is not None:
            return Decided(existing=found)
    decided = _plan(tx, spec)
    limit = tx.counts.rules(spec.queue).max_queued or 0
    if decided.grows(spec.queue) and tx.counts.depth(spec.queue) >= limit:
        raise QueueFull(
            f"queue {spec.queue} holds {limit} waiting jobs, its max_queued",
            "try again later, or raise it with queue.configure",
            queue=spec.queue,
        )
    return decided


def _plan(tx: Tx, spec: JobSpec) -> Decided:
    on_running = spec.on_running or tx.counts.rules(spec.queue).on_running or "finish"
    if spec.subject_key is None or spec.supersede == "none":
        return Decided(on_running=on_running)
    where = {"subject_key": spec.subject_key, "job_type": spec.job_type}
    row = tx.execute(LANE, where).fetchone()
    lane = Lane(*row) if row else None
    whole = spec.supersede == "subject"
    rows = tx.execute(LIVE_OF_SUBJECT if whole else LIVE_OF_LANE, where).fetchall()
    arrival = Arrival(spec.job_type, spec.generation, whole, on_running, spec.max_interrupts)
    live = [Live(*columns) for columns in rows]
    planned = plan(arrival, lane, live)
    if lane and planned.generation <= lane.generation:
        known = tx.execute(KNOWN, {**where, "generation": planned.generation}).fetchone()
        if known or planned.generation == lane.generation:
            found = _ack_of(tx, known[0]) if known else None
            return Decided(existing=found or _ack_of_pruned(lane.job_id, spec, lane.ended, lane.generation))
    return Decided(None, planned, lane, {one.job_id: one for one in live}, on_running)


def _by_key(tx: Tx, spec: JobSpec, spec_hash: str | None) -> Ack | None:
    row = tx.execute(KEY, {"key": spec.idempotency_key, "now": tx.now}).fetchone()
    if row is None:
        return None
    job_id, kept, ended = row
    if kept != spec_hash:
        raise IdempotencyConflict(
            f"idempotency_key {spec.idempotency_key} was used for another spec",
            "use a new key for new work",
            job_id=job_id,
        )
    return _ack_of(tx, job_id) or _ack_of_pruned(job_id, spec, ended, spec.generation)


def _ack_of(tx: Tx, job_id: str) -> Ack | None:
    row = tx.execute(BY_ID, {"job_id": job_id}).fetchone()
    if row is None:
        return None
    queue, current, generation, subject_key = row
    return Ack(job_id, queue, current, generation if subject_key else None, existing=True)


def _ack_of_pruned(job_id: str, spec: JobSpec, ended: str | None, generation: int | None) -> Ack:
    """What its lane or its key remembers of a job whose row is gone."""
    return Ack(job_id, spec.queue, ended or state.DONE, generation, existing=True)


def _state(tx: Tx, spec: JobSpec, planned: Plan) -> tuple[str, int | None, tuple[str, ...]]:
    """The new job's state, when it is due if that is later, and what its caller should know."""
    schedule = spec.schedule
    at = schedule.scheduled_at if schedule.delay_ms is None else tx.now + schedule.delay_ms
    warnings = []
    if schedule.type == "AT" and at is not None and at <= tx.now:
        warnings.append("scheduled_at is in the past: it runs now")
    if spec.deadline is not None and spec.deadline <= tx.now:
        warnings.append("the deadline has passed already: it will not run")
    if planned.stale:
        return state.SUPERSEDED, at, (*warnings, "a newer generation of its lane is already known: it will not run")
    waits = at is not None and at > tx.now
    return (state.SCHEDULED if waits else state.QUEUED), at, tuple(warnings)


def _carry_out(tx: Tx, job: Admitted, decided: Decided) -> Ack:
    spec = job.spec
    job_id = tx.ids.job()
    planned = decided.plan or Plan(spec.generation or 0, "server")
    new_state, at, warnings = _state(tx, spec, planned)
    _make_way(tx, job_id, planned, decided.live)
    if decided.plan and not planned.stale:
        _keep_lane(tx, spec, job_id, planned)
    winner = decided.lane.job_id if planned.stale and decided.lane else None
    transition.insert(tx, _row(tx, job, (job_id, new_state, at, winner), (planned.generation, decided.on_running)))
    if spec.idempotency_key is not None:
        _keep_key(tx, spec, job_id, job.spec_hash)
    shown = planned.generation if spec.subject_key else None
    return Ack(job_id, spec.queue, new_state, shown, planned.supersede, False, warnings)


def _make_way(tx: Tx, by: str, planned: Plan, live: dict[str, Live]) -> None:
    for job_id in planned.supersede:
        transition.end_waiting(tx, job_id, live[job_id].state, state.SUPERSEDED, by)
    for job_id in planned.outdate:
        tx.execute(OUTDATE, {"job_id": job_id, "by": by, "now": tx.now})
    for job_id in planned.interrupt:
        for (run_id,) in tx.execute(INTERRUPT, {"job_id": job_id, "by": by, "now": tx.now}).fetchall():
            tx.stops.append(StopRun(run_id, "supersede"))


def _keep_lane(tx: Tx, spec: JobSpec, job_id: str, planned: Plan) -> None:
    values = {"subject_key": spec.subject_key, "job_type": spec.job_type, "generation": planned.generation}
    values |= {"job_id": job_id, "numbered_by": planned.numbered_by, "interrupts": 1 if planned.interrupt else 0}
    tx.execute(KEEP_LANE, values)


def _keep_key(tx: Tx, spec: JobSpec, job_id: str, spec_hash: str | None) -> None:
    """Each new key also forgets two that have expired, so that the table stays as small as its keys are young."""
    tx.execute(FORGET_KEYS, {"now": tx.now})
    values = {"key": spec.idempotency_key, "job_id": job_id, "spec_hash": spec_hash}
    tx.execute(KEEP_KEY, {**values, "expires_at": tx.now + spec.idempotency_ttl_ms})


def _row(
    tx: Tx, job: Admitted, fresh: tuple[str, str, int | None, str | None], lane: tuple[int, Any]
) -> transition.NewJob:
    spec = job.spec
    job_id, new_state, at, winner = fresh
    generation, on_running = lane
    queued = new_state == state.QUEUED
    return transition.NewJob(
        id=job_id, trace_id=spec.trace, queue=spec.queue, job_type=spec.job_type,
        subject_key=spec.subject_key or "", generation=generation, priority=spec.priority, state=new_state,
        created_at=tx.now, updated_at=tx.now, finished_at=tx.now if new_state == state.SUPERSEDED else None,
        execution_mode=job.mode, payload=job.payload,
        max_attempts=spec.max_attempts, backoff_factor=spec.backoff_factor, backoff_base_ms=spec.backoff_base_ms,
        deadline=spec.deadline, ttl_ms=spec.ttl_ms, timeout_ms=spec.timeout_ms, grace_ms=spec.grace_ms,
        on_interrupt=spec.on_interrupt, schedule_type=spec.schedule.type, scheduled_at=at,
        schedule_delay_ms=spec.schedule.delay_ms, chain_group_id=spec.chain_group_id, user_tag=spec.user_tag,
        supersede=spec.supersede, on_running=on_running, max_interrupts=spec.max_interrupts, superseded_by=winner,
        position=tx.next_position() if queued else 0, queued_at=tx.now if queued else None,
        expires_at=tx.now + spec.ttl_ms if queued and spec.ttl_ms is not None else None,
        idempotency_key=spec.idempotency_key, spec_hash=job.spec_hash,
    )  # fmt: skip
