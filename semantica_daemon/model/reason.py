"""Why a job is where it is: one plain sentence, typed reasons, and when it may start, decided on values alone.

`store/standing` reads what it needs, `engine/explain` adds what the machine says.
"""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

from semantica_daemon.model import state
from semantica_daemon.model.words import length
from semantica_daemon.wire.job_view import Condition
from semantica_daemon.wire.reason import Explanation, Reason


class UnderWay(Struct, frozen=True):
    job_id: str
    queue: str
    started_at: int


class Standing(Struct, frozen=True, kw_only=True):
    """A job and what stands around it: its queue, its lane, its schedule."""

    job_id: str
    state: str
    queue: str
    started_at: int | None
    finished_at: int | None
    scheduled_at: int | None
    attempts: int
    max_attempts: int
    claim_attempts: int
    wait_for_idle: int
    require_charging: int
    wait_for_event: str | None
    event_met_at: int | None
    debounce_ms: int | None
    cancel_requested_at: int | None
    stale: int
    superseded_by: str | None
    error_code: str | None
    error_message: str | None
    conditions: tuple[Condition, ...] = ()
    ahead: int | None = None
    running: tuple[UnderWay, ...] = ()
    paused: bool = False
    all_paused: bool = False
    resume_at: int | None = None
    lane_runs: str | None = None
    earlier: str | None = None
    slots: int = 1
    max_slots: int = 1
    recent_run_ms: int | None = None


class Seen(Struct, frozen=True):
    """What the machine says, as far as the job asks for it: is it so, and in which words."""

    idle: bool | None = None
    idle_for_ms: int | None = None
    idle_ms: int = 0
    idle_detail: str = ""
    charging: bool | None = None
    power_detail: str = ""


def explain(job: Standing, seen: Seen, now: int, clock_time: Callable[[int], str]) -> Explanation:
    """`clock_time` says an instant as the user's clock would."""
    if job.state == state.SCHEDULED:
        reasons = [*_time(job, now, clock_time), *_events(job), *_machine(job, seen), *_turn(job)]
        reasons = reasons or [Reason("time", "due now: it joins its queue", at=now)]
    elif job.state == state.QUEUED:
        reasons = [*_paused(job, clock_time), *_lane(job), *_ahead(job)]
    else:
        reasons = [_running(job, now) if job.state == state.RUNNING else _ended(job)]
    summary = "; ".join(reason.message for reason in reasons)
    position = job.ahead if job.state == state.QUEUED else None
    start = _estimate(job, seen, reasons, now)
    return Explanation(job.job_id, job.state, summary, reasons, position, start, job.claim_attempts)


def _time(job: Standing, now: int, clock_time: Callable[[int], str]) -> list[Reason]:
    at = job.scheduled_at
    if at is None or at <= now:
        return []
    left = length(at - now)
    if job.attempts:
        message = f"retry {job.attempts} of {max(1, job.max_attempts - 1)} in {left}"
        return [Reason("retry", message, at=at, attempt=job.attempts + 1, max_attempts=job.max_attempts)]
    if job.debounce_ms is not None and at - now <= job.debounce_ms:
        return [Reason("debounce", f"its subject has to be quiet for {left} more", at=at)]
    return [Reason("time", f"scheduled for {clock_time(at)}, in {left}", at=at)]


def _events(job: Standing) -> list[Reason]:
    reasons = []
    if job.wait_for_event is not None and job.event_met_at is None:
        reasons.append(Reason("event", f"waits for {job.wait_for_event}", key=job.wait_for_event))
    for one in job.conditions:
        if one.met_at is None:
            reasons.append(Reason("condition", f"waits for {one.key}={one.value}", key=one.key, value=one.value))
    return reasons


def _machine(job: Standing, seen: Seen) -> list[Reason]:
    reasons = []
    if job.wait_for_idle and not seen.idle:
        if seen.idle_for_ms is None:
            message = f"not {'known to be ' if seen.idle is None else ''}idle: {seen.idle_detail}"
        else:
            message = f"idle for {length(seen.idle_for_ms)} of {length(seen.idle_ms)}"
        reasons.append(Reason("idle", message, idle_for_ms=seen.idle_for_ms, idle_ms=seen.idle_ms))
    if job.require_charging and not seen.charging:
        reasons.append(Reason("power", seen.power_detail))
    return reasons


def _turn(job: Standing) -> list[Reason]:
    if job.earlier is None:
        return []
    return [Reason("turn", f"job {job.earlier[:8]} of the same schedule has not ended", job_id=job.earlier)]


def _paused(job: Standing, clock_time: Callable[[int], str]) -> list[Reason]:
    if not job.paused:
        return []
    until = f" until {clock_time(job.resume_at)}" if job.resume_at is not None else ""
    if job.all_paused:
        return [Reason("paused", f"every queue is paused{until}", at=job.resume_at)]
    return [Reason("paused", f"queue {job.queue} is paused{until}", at=job.resume_at, queue=job.queue)]


def _lane(job: Standing) -> list[Reason]:
    if job.lane_runs is None:
        return []
    return [Reason("lane", f"job {job.lane_runs[:8]} of the same subject is still running", job_id=job.lane_runs)]


def _ahead(job: Standing) -> list[Reason]:
    reasons = []
    if job.ahead:
        message = f"{job.ahead} ahead in {job.queue}"
        reasons.append(Reason("ahead", message, ahead=job.ahead, queue=job.queue))
    of_queue = sum(run.queue == job.queue for run in job.running)
    if job.slots == 0:
        reasons.append(Reason("slots", f"queue {job.queue} has no slots", queue=job.queue, running=of_queue, slots=0))
    elif of_queue >= job.slots:
        message = f"{of_queue} of {job.slots} slots of {job.queue} are in use"
        reasons.append(Reason("slots", message, queue=job.queue, running=of_queue, slots=job.slots))
    elif len(job.running) >= job.max_slots:
        message = f"{len(job.running)} of {job.max_slots} slots are in use"
        reasons.append(Reason("slots", message, running=len(job.running), slots=job.max_slots))
    if not reasons and not job.paused and job.lane_runs is None:
        reasons.append(Reason("ahead", f"next in {job.queue}", ahead=0, queue=job.queue))
    return reasons


def _running(job: Standing, now: int) -> Reason:
    so_far = length(now - job.started_at) if job.started_at is not None else "a moment"
    attempt: dict[str, Any] = {"attempt": job.attempts, "max_attempts": job.max_attempts}
    if job.cancel_requested_at is not None:
        asked = length(now - job.cancel_requested_at)
        return Reason("stopping", f"runs since {so_far}, and was asked to stop {asked} ago", **attempt)
    stale = "; a newer one of its subject is known" if job.stale else ""
    which = f", attempt {job.attempts} of {job.max_attempts}" if job.max_attempts > 1 else ""
    return Reason("running", f"runs since {so_far}{which}{stale}", **attempt)


def _ended(job: Standing) -> Reason:
    at = job.finished_at
    if job.state == state.DONE:
        took = f" in {length(at - job.started_at)}" if at is not None and job.started_at is not None else ""
        return Reason("done", f"done{took}", at=at)
    if job.state == state.FAILED:
        return Reason("failed", f"failed: {job.error_message or job.error_code}", at=at, code=job.error_code)
    if job.state == state.SUPERSEDED:
        by = job.superseded_by or None
        return Reason("superseded", f"superseded by job {by[:8]}" if by else "superseded", at=at, job_id=by)
    if job.state == state.CANCELLED:
        return Reason("cancelled", "cancelled", at=at)
    why = "waited longer than its ttl_ms" if job.state == state.SKIPPED_TTL else "its deadline passed before it started"
    return Reason("skipped", why, at=at)


def _estimate(job: Standing, seen: Seen, reasons: list[Reason], now: int) -> int | None:
    """By how long runs of its queue take of late; None where nobody can know."""
    if job.state == state.SCHEDULED:
        return _when_due(seen, reasons, now)
    if job.state != state.QUEUED or job.ahead is None or (job.paused and job.resume_at is None):
        return None
    begins = max(now, job.resume_at or 0) if job.paused else now
    own = [run for run in job.running if run.queue == job.queue]
    starts = [_turn_of(job, own, job.slots, begins), _turn_of(job, list(job.running), job.max_slots, begins)]
    if job.lane_runs is not None:
        starts.append(_end_of(job, job.lane_runs, now))
    return None if None in starts else max(start for start in starts if start is not None)


def _turn_of(job: Standing, running: list[UnderWay], slots: int, begins: int) -> int | None:
    """When so many slots come to it, after all that is ahead of it."""
    ahead, took = job.ahead or 0, job.recent_run_ms
    if slots <= 0:
        return None
    if took is None:
        return begins if len(running) + ahead < slots else None
    ends = sorted(max(begins, run.started_at + took) for run in running)[-slots:]
    free = sorted(ends + [begins] * (slots - len(ends)))
    return free[ahead % slots] + took * (ahead // slots)


def _end_of(job: Standing, job_id: str, now: int) -> int | None:
    if job.recent_run_ms is None:
        return None
    return max(now, *(run.started_at + job.recent_run_ms for run in job.running if run.job_id == job_id))


def _when_due(seen: Seen, reasons: list[Reason], now: int) -> int | None:
    at = now
    for reason in reasons:
        if reason.kind in ("time", "retry", "debounce") and reason.at is not None:
            at = max(at, reason.at)
        elif reason.kind == "idle" and seen.idle_for_ms is not None:
            at = max(at, now + seen.idle_ms - seen.idle_for_ms)
        else:
            return None
    return at
