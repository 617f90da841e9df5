"""job.enqueue, job.enqueue_many and job.plan. `decide` makes the decision, this module carries it out; job.plan returns
the decision without storing it."""

import msgspec

from semantica_daemon.errors import InvalidParams, Refusal
from semantica_daemon.model import start, state
from semantica_daemon.model.admission import AdmittedJob
from semantica_daemon.model.planner import Lane, Live, Plan
from semantica_daemon.model.reason import rendered, reserved_reason
from semantica_daemon.model.start import Start
from semantica_daemon.store import chains, gather, transition
from semantica_daemon.store.rooms import GROUP
from semantica_daemon.store.tx import StopRun, Tx
from semantica_daemon.store.writes import new_job, templates
from semantica_daemon.store.writes.decide import EnqueueDecision, decide
from semantica_daemon.wire.job import Ack, Acks, Forecast, JobSpec
from semantica_daemon.wire.reason import Reason

KEEP_KEY = """
INSERT OR REPLACE INTO idempotency (idempotency_key, job_id, spec_hash, expires_at)
VALUES (?, ?, ?, ?)
"""
FORGET_KEYS = """
DELETE FROM idempotency
WHERE idempotency_key IN (SELECT idempotency_key FROM idempotency WHERE expires_at <= :now ORDER BY expires_at LIMIT 2)
"""
KEEP_LANE = """
INSERT INTO lanes (subject_key, job_type, generation, job_id, numbered_by)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (subject_key, job_type) DO UPDATE
SET generation = excluded.generation, job_id = excluded.job_id, numbered_by = excluded.numbered_by, ended = NULL
"""
KEEP_APPENDED = """
INSERT INTO lanes (subject_key, job_type, generation, job_id, numbered_by, appends)
VALUES (?, ?, ?, ?, ?, 1)
ON CONFLICT (subject_key, job_type) DO UPDATE
SET generation = excluded.generation, job_id = excluded.job_id, numbered_by = excluded.numbered_by, ended = NULL,
    appends = 1
"""
KEEP_FIRST = "INSERT OR IGNORE INTO job_retries (job_id, first_job_id) VALUES (:job_id, :job_id)"
KEEP_RETRY = """
INSERT INTO job_retries (job_id, first_job_id)
SELECT :job_id, first_job_id
FROM job_retries
WHERE job_id = :retry_of
"""
MARK_STALE = "UPDATE jobs SET stale = 1, superseded_by = :by WHERE id = :job_id"
COUNT_INTERRUPT = """
UPDATE lanes
SET interrupts = interrupts + 1
WHERE subject_key = ? AND job_type = ?
"""
OUTDATE = """
UPDATE jobs
SET stale = 1, superseded_by = ?, updated_at = ?
WHERE number = ? AND state = 'RUNNING' AND stop_state IS NULL
"""
INTERRUPT = """
UPDATE jobs
SET stale = 1, superseded_by = ?, updated_at = ?, cancel_requested_at = ?, stop_state = 'SUPERSEDED'
WHERE number = ? AND state = 'RUNNING' AND stop_state IS NULL
RETURNING run_id, subject_key, job_type
"""


def enqueue(tx: Tx, job: AdmittedJob) -> Ack:
    if job.spec.template_id is not None:
        job = templates.filled(tx, job)
    if job.spec.durable:
        tx.must_sync = True
    decided = decide(tx, job)
    if decided.existing is None:
        return carry_out(tx, job, decided)
    if decided.kept is not None:
        gather.keep(tx, job, decided.kept)
    return join(tx, job, decided.existing, decided.by_key)


def join(tx: Tx, job: AdmittedJob, existing: Ack, by_key: bool) -> Ack:
    """The reply for a job that is known already; `by_key`: by its idempotency key."""
    if job.spec.attach_id is not None:
        tx.attached.append((job.spec.attach_id, None))
    if job.spec.idempotency_key is not None and not by_key:
        _keep_key(tx, job.spec, existing.job_id, job.spec_hash)
    return existing


def enqueue_many(tx: Tx, jobs: list[AdmittedJob]) -> Acks:
    """All or nothing: when one is refused, the whole command is rolled back."""
    acks: list[Ack] = []
    for number, job in enumerate(jobs):
        try:
            acks.append(enqueue(tx, _with_references(job, acks)))
        except Refusal as refused:
            refused.moved("$", f"$.jobs[{number}]")
            raise
    return Acks(acks)


def _with_references(job: AdmittedJob, earlier: list[Ack]) -> AdmittedJob:
    """The job with its references (`#0`) replaced by the ids of the jobs that were stored before it."""
    spec = job.spec
    if not any(name.startswith("#") for name in spec.parent_names):
        return job
    first = None if spec.parent_job_id is None else _referenced(spec.parent_job_id, earlier, "$.parent_job_id")
    given = spec.parents or ()
    parents = [_referenced(name, earlier, f"$.parents[{number}]") for number, name in enumerate(given)]
    return msgspec.structs.replace(job, spec=msgspec.structs.replace(spec, parent_job_id=first, parents=parents))


def _referenced(name: str, earlier: list[Ack], path: str) -> str:
    if not name.startswith("#"):
        return name
    if int(name[1:]) >= len(earlier):
        problem = f"{name} is not an earlier job of this call"
        raise InvalidParams(problem, "put a job after its parents; a job cannot wait for itself", path=path)
    return earlier[int(name[1:])].job_id


def forecast(tx: Tx, job: AdmittedJob) -> Forecast:
    """Returns what enqueue would do, and stores nothing."""
    decided = decide(tx, job := templates.filled(tx, job))
    if decided.existing is not None:
        known = decided.existing
        found = "it exists already" if decided.kept is None else "a job of its subject waits already, and is kept"
        return Forecast((), (), known.job_id, known.state, f"{found}; nothing new would start")
    planned = decided.plan
    job = chains.with_gates(tx, job, planned)
    begins = _begins(tx, job, decided)
    reasons = start.start_reasons(job, begins, tx.now, decided.lane_busy(job.spec.job_type))
    if tx.reservations.active is not None and begins.state == state.QUEUED:
        reasons.insert(0, reserved_reason(tx.reservations.active))
    if begins.state == state.QUEUED:
        reasons[:0] = _full_room(tx, job.spec)
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


def _full_room(tx: Tx, spec: JobSpec) -> list[Reason]:
    """The key, group or rate that would keep the job from starting now."""
    found = tx.rooms.full_room(spec.queue, spec.concurrency_key, spec.chain_group_id, tx.now)
    if found is None:
        opens_at = tx.rooms.queue_opens_at(spec.queue, tx.now)
        return [] if opens_at is None else [Reason("rate", queue=spec.queue, at=opens_at)]
    room, opens_at = found
    running, is_group = tx.rooms.running(room), room[0] == GROUP
    if is_group:
        return [Reason("group", group=room[1], running=running, slots=tx.rooms.policy(room[1]).limit)]
    if opens_at is not None:
        return [Reason("rate", queue=spec.queue, key=room[1], at=opens_at)]
    limit = tx.rooms.key_rule(spec.queue, room[1]).limit
    return [Reason("key", queue=spec.queue, key=room[1], running=running, slots=limit)]


def _begins(tx: Tx, job: AdmittedJob, decided: EnqueueDecision) -> Start:
    since = decided.postponed_since(job.spec.job_type) if job.spec.debounce_ms is not None else None
    found = start.start(job.spec, tx.now, since, job.unmet if job.gates else 0)
    if decided.plan.stale:
        too_late = start.too_late(decided.winner or "", job.spec.subject_key or "")
        found = Start(state.SUPERSEDED, found.at, warnings=(*found.warnings, too_late))
    group = job.spec.chain_group_id
    if group is not None and (by := tx.rooms.stopped_by(group)) is not None:
        found = msgspec.structs.replace(found, warnings=(*found.warnings, start.group_stopped(group, by)))
    if job.warnings:
        found = msgspec.structs.replace(found, warnings=job.warnings + found.warnings)
    return found


def carry_out(tx: Tx, job: AdmittedJob, decided: EnqueueDecision) -> Ack:
    spec, planned = job.spec, decided.plan
    job_id = tx.ids.job()
    if decided.repeats is not None:
        job = _as_retry(tx, job, job_id, decided.repeats)
    job = chains.with_gates(tx, job, planned)
    begins = _begins(tx, job, decided)
    if decided.live:
        job = _make_way(tx, job_id, job, planned, decided.live)
    if decided.in_lane and decided.is_newest:
        lane = (spec.subject_key, spec.job_type, planned.generation, job_id, planned.numbered_by)
        tx.execute(KEEP_APPENDED if decided.appended else KEEP_LANE, lane)
    new_job.insert(tx, job_id, job, decided, begins)
    if decided.lane is not None and (planned.stale or decided.is_behind):
        _note_newest(tx, job_id, job, decided.lane)
    if job.secrets:
        tx.secrets.append((job_id, job.secrets, ()))
    if spec.attach_id is not None:
        tx.attached.append((spec.attach_id, job_id))
    if spec.idempotency_key is not None:
        _keep_key(tx, spec, job_id, job.spec_hash)
    shown = planned.generation if decided.in_lane else spec.generation
    return Ack(job_id, spec.queue, begins.state, shown, planned.supersede, False, begins.warnings)


def _note_newest(tx: Tx, job_id: str, job: AdmittedJob, lane: Lane) -> None:
    """The job is of an older generation: it is ended already, so that the newest gathers its payload, or runs as a
    retry all the same."""
    if job.origin.retry_of is not None:
        tx.execute(MARK_STALE, {"job_id": job_id, "by": lane.job_id})
    elif job.spec.gather:
        gather.add_late(tx, job.payload, lane.job_id)


def _as_retry(tx: Tx, job: AdmittedJob, job_id: str, repeats: str) -> AdmittedJob:
    """The job with the id of the job that it repeats, with which it is stored among the retries of the first job."""
    tx.execute(KEEP_FIRST, {"job_id": repeats})
    tx.execute(KEEP_RETRY, {"job_id": job_id, "retry_of": repeats})
    return msgspec.structs.replace(job, origin=msgspec.structs.replace(job.origin, retry_of=repeats))


def _make_way(tx: Tx, by: str, job: AdmittedJob, planned: Plan, live: dict[str, Live]) -> AdmittedJob:
    """Ends or outdates the older jobs. Returns the new one, with their payloads if it gathers them."""
    for job_id in planned.supersede:
        transition.end_waiting(tx, tx.read(live[job_id].number), state.SUPERSEDED, by)
    for job_id in planned.outdate:
        outdate(tx, live[job_id].number, by)
    for job_id in planned.interrupt:
        interrupt(tx, live[job_id].number, by)
    if not job.spec.gather:
        return job
    payload = gather.with_superseded(tx, job.payload, (live[job_id] for job_id in planned.supersede))
    return msgspec.structs.replace(job, payload=payload)


def outdate(tx: Tx, number: int, by: str) -> None:
    """Marks a running job: it runs to its end, but is not retried."""
    tx.execute(OUTDATE, (by, tx.now, number))


def interrupt(tx: Tx, number: int, by: str) -> bool:
    """Stops a running job; it ends SUPERSEDED. Returns False, changing nothing, if it is being stopped already."""
    stopped = tx.execute(INTERRUPT, (by, tx.now, tx.now, number)).fetchall()
    for run_id, *lane in stopped:
        tx.stops.append(StopRun(run_id, "supersede"))
        tx.execute(COUNT_INTERRUPT, lane)
    return bool(stopped)


def _keep_key(tx: Tx, spec: JobSpec, job_id: str, spec_hash: str | None) -> None:
    """Stores the idempotency key, and deletes two expired ones, so that the table does not grow without bound."""
    tx.execute(FORGET_KEYS, {"now": tx.now})
    tx.execute(KEEP_KEY, (spec.idempotency_key, job_id, spec_hash or "", tx.now + spec.idempotency_ttl_ms))
