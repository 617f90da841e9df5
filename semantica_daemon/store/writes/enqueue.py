"""job.enqueue, job.enqueue_many and job.plan: `decide` says what to do, here it is done, or told."""

from collections.abc import Iterable

import msgspec

from semantica_daemon.errors import Refusal
from semantica_daemon.model import start, state
from semantica_daemon.model.admission import Admitted
from semantica_daemon.model.planner import Live, Plan
from semantica_daemon.model.reason import rendered
from semantica_daemon.model.start import Start
from semantica_daemon.store import arrival, transition
from semantica_daemon.store.tx import StopRun, Tx
from semantica_daemon.store.writes import templates
from semantica_daemon.store.writes.decide import Decided, decide
from semantica_daemon.wire.job import Ack, Acks, Forecast, JobSpec

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
OUTDATE = """
UPDATE jobs
SET stale = 1, superseded_by = :by, updated_at = :now
WHERE id = :job_id AND state = 'RUNNING' AND stop_state IS NULL
"""
INTERRUPT = """
UPDATE jobs
SET stale = 1, superseded_by = :by, updated_at = :now, cancel_requested_at = :now, stop_state = 'SUPERSEDED'
WHERE id = :job_id AND state = 'RUNNING' AND stop_state IS NULL
RETURNING run_id, subject_key, job_type
"""


def enqueue(tx: Tx, job: Admitted) -> Ack:
    decided = decide(tx, job := templates.filled(tx, job))
    if decided.existing is None:
        return _carry_out(tx, job, decided)
    if job.spec.idempotency_key is not None and not decided.by_key:
        _keep_key(tx, job.spec, decided.existing.job_id, job.spec_hash)
    return decided.existing


def enqueue_many(tx: Tx, jobs: list[Admitted]) -> Acks:
    """All or nothing: the verb's savepoint takes them back together."""
    acks = []
    for number, job in enumerate(jobs):
        try:
            acks.append(enqueue(tx, job))
        except Refusal as refused:
            refused.moved("$", f"$.jobs[{number}]")
            raise
    return Acks(acks)


def forecast(tx: Tx, job: Admitted) -> Forecast:
    """What enqueue would do, stored nowhere."""
    decided = decide(tx, job := templates.filled(tx, job))
    if decided.existing is not None:
        known = decided.existing
        return Forecast((), (), known.job_id, known.state, "it exists already; nothing new would start")
    begins, planned = _begins(tx, job, decided), decided.plan
    reasons = start.start_reasons(job.spec, begins, tx.now, decided.lane_busy(job.spec.job_type))
    return Forecast(
        planned.supersede,
        planned.interrupt,
        None,
        begins.state,
        start.starts_when(reasons, tx.now),
        begins.warnings,
        starts_at=next((reason.at for reason in reasons if reason.kind == "time"), None),
        reasons=[rendered(reason, tx.now, start.epoch_text) for reason in reasons],
    )


def _begins(tx: Tx, job: Admitted, decided: Decided) -> Start:
    since = decided.postponed_since(job.spec.job_type) if job.spec.debounce_ms is not None else None
    found = start.start(job.spec, tx.now, since, job.origin.awaits_turn)
    if decided.plan.stale:
        too_late = "a newer generation of its lane is already known: it will not run"
        warnings = (*job.warnings, *found.warnings, too_late)
        return Start(state.SUPERSEDED, found.at, warnings=warnings)
    if job.warnings:
        return msgspec.structs.replace(found, warnings=job.warnings + found.warnings)
    return found


def _carry_out(tx: Tx, job: Admitted, decided: Decided) -> Ack:
    spec, planned = job.spec, decided.plan
    job_id = tx.ids.job()
    begins = _begins(tx, job, decided)
    _make_way(tx, job_id, planned, decided.live)
    if decided.in_lane and not planned.stale:
        _keep_lane(tx, spec, job_id, planned)
    arrival.insert(tx, _row(tx, job_id, job, decided, begins))
    if spec.schedule.conditions:
        arrival.insert_conditions(tx, job_id, spec.schedule.conditions, begins.state == state.SCHEDULED)
    if job.secrets:
        tx.secrets.append((job_id, job.secrets))
    if spec.idempotency_key is not None:
        _keep_key(tx, spec, job_id, job.spec_hash)
    shown = planned.generation if decided.in_lane else spec.generation
    return Ack(job_id, spec.queue, begins.state, shown, planned.supersede, False, begins.warnings)


def _make_way(tx: Tx, by: str, planned: Plan, live: dict[str, Live]) -> None:
    for job_id in planned.supersede:
        transition.end_waiting(tx, job_id, live[job_id].state, state.SUPERSEDED, by)
    outdate(tx, planned.outdate, by)
    interrupt(tx, planned.interrupt, by)


def outdate(tx: Tx, running: Iterable[str], by: str) -> None:
    """Those end as they will, but are not tried again."""
    for job_id in running:
        tx.execute(OUTDATE, {"job_id": job_id, "by": by, "now": tx.now})


def interrupt(tx: Tx, running: Iterable[str], by: str) -> int:
    """Those are ended, and end SUPERSEDED; how many were not being stopped already."""
    asked = 0
    for job_id in running:
        for run_id, subject_key, job_type in tx.execute(
            INTERRUPT, {"job_id": job_id, "by": by, "now": tx.now}
        ).fetchall():
            tx.stops.append(StopRun(run_id, "supersede"))
            tx.execute(COUNT_INTERRUPT, {"subject_key": subject_key, "job_type": job_type})
            asked += 1
    return asked


def _keep_lane(tx: Tx, spec: JobSpec, job_id: str, planned: Plan) -> None:
    values = {"subject_key": spec.subject_key, "job_type": spec.job_type, "generation": planned.generation}
    tx.execute(KEEP_LANE, {**values, "job_id": job_id, "numbered_by": planned.numbered_by})


def _keep_key(tx: Tx, spec: JobSpec, job_id: str, spec_hash: str | None) -> None:
    """Each new key also forgets two that have expired, so that the table stays as small as its keys are young."""
    tx.execute(FORGET_KEYS, {"now": tx.now})
    values = {"key": spec.idempotency_key, "job_id": job_id, "spec_hash": spec_hash}
    tx.execute(KEEP_KEY, {**values, "expires_at": tx.now + spec.idempotency_ttl_ms})


def _row(tx: Tx, job_id: str, job: Admitted, decided: Decided, begins: Start) -> arrival.NewJob:
    spec, schedule, origin = job.spec, job.spec.schedule, job.origin
    queued = begins.state == state.QUEUED
    return arrival.NewJob(
        id=job_id, trace_id=spec.trace, queue=spec.queue, job_type=spec.job_type, priority=spec.priority,
        subject_key=spec.subject_key or "", generation=decided.plan.generation, state=begins.state,
        created_at=tx.now, updated_at=tx.now, finished_at=tx.now if begins.state == state.SUPERSEDED else None,
        execution_mode=job.mode, payload=job.payload,
        max_attempts=spec.max_attempts, backoff_factor=spec.backoff_factor, backoff_base_ms=spec.backoff_base_ms,
        deadline=spec.deadline, ttl_ms=spec.ttl_ms, timeout_ms=spec.timeout_ms, grace_ms=spec.grace_ms,
        on_interrupt=spec.on_interrupt, schedule_type=schedule.type, scheduled_at=begins.at,
        schedule_delay_ms=schedule.delay_ms, chain_group_id=spec.chain_group_id, user_tag=spec.user_tag,
        supersede=spec.supersede, on_running=decided.on_running, max_interrupts=spec.max_interrupts,
        superseded_by=decided.winner, position=tx.next_position() if queued else 0,
        queued_at=tx.now if queued else None,
        expires_at=tx.now + spec.ttl_ms if queued and spec.ttl_ms is not None else None,
        idempotency_key=spec.idempotency_key, spec_hash=job.spec_hash, env_vars=job.env, leftovers=spec.leftovers,
        wait_for_idle=schedule.wait_for_idle, require_charging=schedule.require_charging,
        wait_for_event=schedule.wait_for_event, unmet=begins.unmet, stop_when_lost=spec.stop_when_lost,
        is_delay=begins.is_delay, debounce_ms=spec.debounce_ms, max_wait_ms=spec.max_wait_ms,
        postponed_since=begins.postponed_since, template_id=origin.template_id, schedule_id=origin.schedule_id,
        awaits_turn=origin.awaits_turn,
    )  # fmt: skip
