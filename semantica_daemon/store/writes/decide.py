"""Decides what an enqueue will do: reads what is stored about the key, the lane and the queue, and calls the planner.

`enqueue` carries the decision out; job.plan returns the decision without storing it.
"""

from typing import Any, Literal

from msgspec import Struct

from semantica_daemon.errors import IdempotencyConflict, QueueFull, TooManySlots
from semantica_daemon.model import state
from semantica_daemon.model.admission import AdmittedJob
from semantica_daemon.model.planner import Lane, Live, Plan, kept, plan, plan_retry
from semantica_daemon.store import gates
from semantica_daemon.store.tx import Tx
from semantica_daemon.wire.job import Ack, JobSpec

KEY = "SELECT job_id, spec_hash, ended FROM idempotency WHERE idempotency_key = :key AND expires_at > :now"
BY_ID = "SELECT queue, state, generation, subject_key FROM jobs WHERE id = :job_id"
LANE = """
SELECT generation, job_id, numbered_by, ended, appends
FROM lanes
WHERE subject_key = :subject_key AND job_type = :job_type
"""
KNOWN = """
SELECT id
FROM jobs INDEXED BY idx_jobs_lane_generation
WHERE subject_key <> '' AND supersede <> 'none' AND retry_of IS NULL
  AND subject_key = :subject_key AND job_type = :job_type AND generation = :generation
"""
LIVE_OF_SUBJECT = """
SELECT number, id, jobs.job_type, state, jobs.generation, stop_state IS NOT NULL, queue, coalesce(interrupts, 0),
  postponed_since
FROM jobs INDEXED BY idx_jobs_subject_live
LEFT JOIN lanes ON lanes.subject_key = jobs.subject_key AND lanes.job_type = jobs.job_type
WHERE finished_at IS NULL AND jobs.subject_key <> '' AND jobs.subject_key = :subject_key
"""
# Without append jobs, of which a lane may have any number: no other job does anything to them.
LIVE_OF_LANE = LIVE_OF_SUBJECT + "AND jobs.job_type = :job_type AND supersede IN ('keep', 'lane', 'subject')"
LIVE_TO_KEEP = LIVE_OF_LANE.replace(
    "postponed_since", "postponed_since, stale, run_count > 0, coalesce(json_extract(spec, '$.gather'), 0)", 1
)
OLDEST_APPENDED = """
SELECT number, id, job_type, state, generation
FROM jobs INDEXED BY idx_jobs_subject_live
WHERE finished_at IS NULL AND subject_key <> '' AND subject_key = :subject_key AND job_type = :job_type
  AND supersede = 'append' AND state <> 'RUNNING' AND stale = 0
ORDER BY number
LIMIT 1
"""
ANY_OF_LANE = LIVE_OF_LANE.replace("'keep',", "'append', 'keep',") + " LIMIT 1"
LIVE_OF_SUBJECT += "AND supersede IN ('keep', 'lane', 'subject')"
SAME_GENERATION = """
SELECT number, id, job_type, state, generation
FROM jobs INDEXED BY idx_jobs_subject_generation
WHERE subject_key <> '' AND subject_key = :subject_key AND generation = :generation AND job_type = :job_type
  AND supersede = 'append' AND finished_at IS NULL
"""
APPENDS_IN_ROOM = """
SELECT 1
FROM jobs INDEXED BY idx_jobs_subject_live
WHERE finished_at IS NULL AND subject_key <> '' AND subject_key = :subject_key AND job_type = :job_type
  AND supersede = 'append' AND (state <> 'SCHEDULED' OR started_at IS NOT NULL)
LIMIT 1
"""
TAKES_ROOM = (state.RUNNING, state.QUEUED)


class EnqueueDecision(Struct, frozen=True, gc=False):
    """`existing`: the reply, when the job exists already; otherwise `plan` has the changes to make. `repeats`: the
    id of the ended job that this one is a retry of. `kept`: the waiting job that is kept instead of this one.
    `appended`: the job comes after the others of its lane, and is never stale. `lane_taken`: by jobs that are not in
    `live`."""

    plan: Plan
    on_running: str = "finish"
    existing: Ack | None = None
    by_key: bool = False
    in_lane: bool = False
    lane: Lane | None = None
    live: dict[str, Live] = {}
    repeats: str | None = None
    kept: Live | None = None
    appended: bool = False
    lane_taken: bool = False

    def lane_busy(self, job_type: str) -> bool:
        """Whether another job has the room of the lane, or waits for it before this one."""
        if self.lane_taken:
            return True
        in_lane = (job for job in self.live.values() if job.job_type == job_type)
        return any(job.state in TAKES_ROOM and job.job_id not in self.plan.supersede for job in in_lane)

    @property
    def is_newest(self) -> bool:
        """Whether the job, which is in a lane, becomes the newest of it."""
        return self.lane is None or self.plan.generation >= self.lane.generation

    @property
    def is_behind(self) -> bool:
        """Whether the job repeats a generation that is not the newest of its lane."""
        return self.repeats is not None and self.in_lane and not self.is_newest and not self.appended

    def postponed_since(self, job_type: str) -> int | None:
        """When the debounce of the lane began, taken from the jobs that this one replaces."""
        replaced = (self.live[job_id] for job_id in self.plan.supersede)
        since = (job.postponed_since for job in replaced if job.job_type == job_type)
        return min((at for at in since if at is not None), default=None)

    @property
    def winner(self) -> str | None:
        """The id of the newer job that already superseded this one."""
        return self.lane.job_id if self.plan.stale and self.lane else None

    def grows(self, queue: str) -> bool:
        """Whether the job adds to the waiting jobs of that queue; False when it supersedes one of them."""
        if self.existing is not None or self.plan.stale:
            return False
        return not any(self.live[job_id].queue == queue for job_id in self.plan.supersede)


NO_LANE = EnqueueDecision(Plan(0, "server"))


def decide(tx: Tx, job: AdmittedJob) -> EnqueueDecision:
    spec = job.spec
    rules = tx.counts.rules(spec.queue)
    if spec.idempotency_key is not None:
        found = _by_key(tx, spec, job.spec_hash)
        if found is not None:
            return EnqueueDecision(Plan(0, "server"), existing=found, by_key=True)
    if spec.slots > 1:
        check_slots(tx, job)
    decided = _plan(tx, spec, spec.on_running or rules.on_running or "finish")
    if tx.counts.depth(spec.queue) >= (rules.max_queued or 0):
        check_room(tx, spec.queue, decided)
    return decided


def decide_retry(tx: Tx, job: AdmittedJob, generation: int, force: bool) -> EnqueueDecision:
    """The retry keeps the generation of the job that it repeats."""
    spec, repeats = job.spec, job.origin.retry_of
    check_slots(tx, job)
    on_running = spec.on_running or "finish"
    decided = EnqueueDecision(Plan(generation, "server"), on_running, repeats=repeats)
    if spec.subject_key is not None and spec.supersede == "append":
        lane = _read_lane(tx, spec)
        same = _live(tx, SAME_GENERATION, {**_names(spec), "generation": generation})
        planned = plan_retry(generation, True, lane, same)
        decided = _appended(tx, spec, planned, lane, repeats)
    elif spec.subject_key is not None and spec.supersede != "none":
        lane, live = _lane(tx, spec, LIVE_OF_LANE)
        planned = plan_retry(generation, force, lane, live)
        jobs, taken = {job.job_id: job for job in live}, _appends_take_room(tx, spec, lane)
        decided = EnqueueDecision(
            planned, on_running, in_lane=True, lane=lane, live=jobs, repeats=repeats, lane_taken=taken
        )
    check_room(tx, spec.queue, decided)
    return decided


def decide_direct(tx: Tx, job: AdmittedJob) -> EnqueueDecision:
    """For a job that starts at once: the limit of its queue does not apply to it, because it does not wait there."""
    spec = job.spec
    found = _by_key(tx, spec, job.spec_hash) if spec.idempotency_key is not None else None
    if found is not None:
        return EnqueueDecision(Plan(0, "server"), existing=found, by_key=True)
    return _plan(tx, spec, spec.on_running or tx.counts.rules(spec.queue).on_running or "finish")


def check_slots(tx: Tx, job: AdmittedJob) -> None:
    """Raises TooManySlots if the job could never start. A queue without slots is closed for a while: its jobs wait."""
    queue, most = job.spec.queue, tx.counts.limits.max_slots
    of_queue = tx.counts.rules(queue).slots or most
    if job.mode is None or job.spec.slots <= min(of_queue, most):
        return
    has = f"queue {queue} has {of_queue}" if of_queue <= most else f"the daemon has {most}"
    hint = f"ask for at most {min(of_queue, most)}, or raise the limit with queue.configure"
    raise TooManySlots(f"the job takes {job.spec.slots} slots, and {has}", hint, path="$.slots", queue=queue)


def check_room(tx: Tx, queue: str, decided: EnqueueDecision) -> None:
    """Raises QueueFull if the queue has no room for the job."""
    limit = tx.counts.rules(queue).max_queued or 0
    if tx.counts.depth(queue) >= limit and decided.grows(queue):
        raise QueueFull(
            f"queue {queue} holds {limit} waiting jobs, which is its limit",
            "try again later, or raise it with queue.configure",
            queue=queue,
        )


def _plan(tx: Tx, spec: JobSpec, on_running: Literal["finish", "cancel"]) -> EnqueueDecision:
    if spec.subject_key is None and on_running == "finish":
        return NO_LANE
    if spec.subject_key is None or spec.supersede == "none":
        return EnqueueDecision(Plan(spec.generation or 0, "server"), on_running)
    if spec.supersede == "append":
        return _plan_append(tx, spec)
    others = LIVE_OF_SUBJECT if spec.supersede == "subject" else LIVE_TO_KEEP
    lane, live = _lane(tx, spec, LIVE_OF_LANE if spec.supersede == "lane" else others)
    if spec.supersede == "keep" and (waiting := _kept(tx, spec, lane, live)) is not None:
        existing = _ack_of(tx, waiting.job_id)
        return EnqueueDecision(Plan(waiting.generation, "server"), on_running, existing, kept=waiting)
    planned = plan(spec, on_running, lane, _append_of_daemon(tx, spec, lane) or live)
    existing = _known(tx, spec, lane, planned.generation) if lane and planned.generation <= lane.generation else None
    jobs, taken = {job.job_id: job for job in live}, _appends_take_room(tx, spec, lane)
    if spec.force and existing is not None:
        existing = _live_again(tx, spec, live) or existing
        if existing.state in state.TERMINAL:
            again = Plan(planned.generation, planned.numbered_by) if planned.stale else planned
            repeated = existing.job_id
            return EnqueueDecision(again, on_running, None, False, True, lane, jobs, repeated, lane_taken=taken)
    return EnqueueDecision(planned, on_running, existing, False, True, lane, jobs, lane_taken=taken)


def _plan_append(tx: Tx, spec: JobSpec) -> EnqueueDecision:
    """Reads no more of the lane than it must, since that may have any number of waiting append jobs."""
    lane = _read_lane(tx, spec)
    is_numbered_by_client = lane is not None and lane.numbered_by == "client"
    live = _live(tx, ANY_OF_LANE, _names(spec)) if is_numbered_by_client else []
    return _appended(tx, spec, plan(spec, "finish", lane, live), lane)


def _appended(tx: Tx, spec: JobSpec, planned: Plan, lane: Lane | None, repeats: str | None = None) -> EnqueueDecision:
    taken = gates.lane_is_taken(tx, spec.subject_key or "", spec.job_type)
    return EnqueueDecision(planned, in_lane=True, lane=lane, repeats=repeats, appended=True, lane_taken=taken)


def _appends_take_room(tx: Tx, spec: JobSpec, lane: Lane | None) -> bool:
    """Whether append jobs have the room of the lane, or wait for it: they come before the new job, whatever that
    supersedes."""
    return bool(lane and lane.appends and tx.execute(APPENDS_IN_ROOM, _names(spec)).fetchone())


def _append_of_daemon(tx: Tx, spec: JobSpec, lane: Lane | None) -> list[Live]:
    """A job of the lane, if one is live and the daemon numbers it: a caller's generation is refused then. Other lanes
    than those with append jobs have all that is needed for that in their live jobs."""
    if spec.generation is None or lane is None or not lane.appends or lane.numbered_by == "client":
        return []
    return _live(tx, ANY_OF_LANE, _names(spec))


def _kept(tx: Tx, spec: JobSpec, lane: Lane | None, live: list[Live]) -> Live | None:
    appended = _live(tx, OLDEST_APPENDED, _names(spec)) if lane and lane.appends and not spec.gather else []
    return kept(spec, [*live, *appended])


def _lane(tx: Tx, spec: JobSpec, live: str) -> tuple[Lane | None, list[Live]]:
    """The lane, if it is known, and the live jobs that the statement `live` finds."""
    where = _names(spec)
    row = tx.execute(LANE, where).fetchone()
    rows = tx.execute(live, where).fetchall()
    return Lane(*row) if row else None, [Live(*columns) for columns in rows]


def _read_lane(tx: Tx, spec: JobSpec) -> Lane | None:
    row = tx.execute(LANE, _names(spec)).fetchone()
    return Lane(*row) if row else None


def _live(tx: Tx, sql: str, where: dict[str, Any]) -> list[Live]:
    return [Live(*columns) for columns in tx.execute(sql, where).fetchall()]


def _names(spec: JobSpec) -> dict[str, Any]:
    return {"subject_key": spec.subject_key, "job_type": spec.job_type}


def _known(tx: Tx, spec: JobSpec, lane: Lane, generation: int) -> Ack | None:
    """The reply for a generation that the lane has already had. The lane row remembers its newest job (its last retry,
    if it has one) even after that was pruned."""
    if generation == lane.generation:
        return _ack_of(tx, lane.job_id) or _ack_of_pruned(lane.job_id, spec, lane.ended, generation)
    where = {"subject_key": spec.subject_key, "job_type": spec.job_type, "generation": generation}
    row = tx.execute(KNOWN, where).fetchone()
    return _ack_of(tx, row[0]) if row else None


def _live_again(tx: Tx, spec: JobSpec, live: list[Live]) -> Ack | None:
    """The reply for a generation that is being repeated already."""
    same = (job.job_id for job in live if job.generation == spec.generation and job.job_type == spec.job_type)
    job_id = next(same, None)
    return _ack_of(tx, job_id) if job_id is not None else None


def _by_key(tx: Tx, spec: JobSpec, spec_hash: str | None) -> Ack | None:
    row = tx.execute(KEY, {"key": spec.idempotency_key, "now": tx.now}).fetchone()
    if row is None:
        return None
    job_id, kept, ended = row
    if kept != spec_hash and spec.idempotency_match == "spec":
        raise IdempotencyConflict(
            f"the idempotency key {spec.idempotency_key} was used for another job",
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
    """The reply for a job whose row was pruned, from what its lane or its key has stored."""
    return Ack(job_id, spec.queue, ended or state.DONE, generation, existing=True)
