"""Why a job is in its state: typed reasons, decided on values alone, and an estimate of its start.

`store/standing` reads the values, `engine/explain` adds what the machine reports, `prose` renders the reasons.
"""

import heapq
from collections.abc import Callable, Iterable

from msgspec import Struct
from msgspec.structs import asdict, replace

from semantica_daemon import prose
from semantica_daemon.model import state
from semantica_daemon.model.job import JOB_END
from semantica_daemon.model.machine import MachineStatus
from semantica_daemon.model.reservation import Reservation
from semantica_daemon.wire.job_view import Condition
from semantica_daemon.wire.reason import Explanation, Reason

MOST_AHEAD = 1000  # behind more jobs than this a start is not estimated
MOST_AWAITED = 10  # jobs that are named as those it waits for


class UnderWay(Struct, frozen=True):
    job_id: str
    queue: str
    started_at: int
    slots: int = 1


class FullRoom(Struct, frozen=True):
    """A concurrency key or a group that lets no more jobs start. `job_id`: one that holds it."""

    kind: str
    name: str
    running: int
    limit: int
    job_id: str | None = None


class FullRate(Struct, frozen=True):
    """The rate of a queue, or of a key of it, and when it lets the next job start."""

    key: str | None
    at: int


class AwaitedJob(Struct, frozen=True):
    """A job whose end another one waits for. `value`: the state that it has to end in, empty for any end; `state`: the
    one that it is in, None if that is not known."""

    job_id: str
    value: str = state.DONE
    state: str | None = None


class JobSituation(Struct, frozen=True, kw_only=True):
    """A job with the state of its queue, its lane and its schedule."""

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
    is_starting: int = 0
    needed_slots: int = 1
    failed_member: str | None = None
    held_at: int | None = None
    archived_at: int | None = None
    reservation: Reservation | None = None
    rooms: tuple[FullRoom, ...] = ()
    rates: tuple[FullRate, ...] = ()
    is_external: int = 0
    job_type: str = ""
    workers: int = 0
    conditions: tuple[Condition, ...] = ()
    awaited: tuple[AwaitedJob, ...] = ()
    more_awaited: int = 0
    ahead: int | None = None
    running: tuple[UnderWay, ...] = ()
    paused: bool = False
    all_paused: bool = False
    resume_at: int | None = None
    lane_runs: str | None = None
    lane_state: str = "RUNNING"
    lane_ahead: int = 0
    earlier: str | None = None
    failed_parent: str | None = None
    failed_parent_state: str | None = None
    slots: int = 1
    max_slots: int = 1
    recent_run_ms: int | None = None


def explain(job: JobSituation, machine: MachineStatus, now: int, clock: Callable[[int], str]) -> Explanation:
    """`clock` renders an instant in the time zone of the reader."""
    reasons = [rendered(reason, now, clock) for reason in _reasons(job, machine, now)]
    summary = "; ".join(reason.message for reason in reasons)
    position = job.ahead if job.state == state.QUEUED else None
    start = _estimate(job, reasons, now)
    return Explanation(job.job_id, job.state, summary, reasons, position, start, job.claim_attempts)


def rendered(reason: Reason, now: int, clock: Callable[[int], str]) -> Reason:
    """The reason with its message."""
    return replace(reason, message=prose.reason(asdict(reason), now, clock))


def _reasons(job: JobSituation, machine: MachineStatus, now: int) -> list[Reason]:
    if job.state == state.SCHEDULED:
        turn = [] if job.earlier is None else [Reason("turn", job_id=job.earlier)]
        parents = awaited_reasons(job.awaited, job.more_awaited)
        held = [] if job.held_at is None else [Reason("held", since=job.held_at)]
        others = [*held, *_time(job, now), *parents, *_events(job), *_machine(job, machine), *turn]
        return others or [Reason("time", at=now)]
    if job.state == state.QUEUED:
        return _queued(job, now) or [Reason("ahead", ahead=0, queue=job.queue)]
    if job.state == state.RUNNING:
        return [_running(job)]
    return [_ended(job), *([] if job.archived_at is None else [Reason("archived", at=job.archived_at)])]


def _queued(job: JobSituation, now: int) -> list[Reason]:
    beside = [*_lane(job), *_limits(job, now)]
    if job.reservation is not None and job.reservation.job_id == job.job_id:
        return beside  # it needs no slot, and no pause holds it back
    reserved = [] if job.reservation is None else [reserved_reason(job.reservation)]
    paused = [Reason("paused", at=job.resume_at, queue=None if job.all_paused else job.queue)] if job.paused else []
    waits = _workers(job) if job.is_external else _ahead(job)
    return [*reserved, *paused, *beside, *waits]


def reserved_reason(active: Reservation) -> Reason:
    return Reason("reserved", at=active.expires_at, reserved_by=active.reserved_by, job_id=active.job_id)


def _lane(job: JobSituation) -> list[Reason]:
    """The job that has the room of its lane; `ahead` counts the others of the lane that come before it."""
    if job.lane_runs is None:
        return []
    return [Reason("lane", job_id=job.lane_runs, state=job.lane_state, ahead=job.lane_ahead or None)]


def _time(job: JobSituation, now: int) -> list[Reason]:
    at = job.scheduled_at
    if at is None or at <= now:
        return []
    if job.attempts:
        return [Reason("retry", at=at, attempt=job.attempts + 1, max_attempts=job.max_attempts)]
    if job.debounce_ms is not None and at - now <= job.debounce_ms:
        return [Reason("debounce", at=at)]
    return [Reason("time", at=at)]


def _events(job: JobSituation) -> list[Reason]:
    unmet = [Reason("condition", key=one.key, value=one.value) for one in job.conditions if one.met_at is None]
    key = job.wait_for_event
    if key is not None and job.event_met_at is None and not key.startswith(JOB_END):
        unmet.insert(0, Reason("event", key=key))
    return unmet


def awaited_reasons(awaited: Iterable[AwaitedJob], more: int) -> list[Reason]:
    """The jobs whose end is waited for; `more`: those that are not named."""
    reasons = [Reason("parent", job_id=one.job_id, value=one.value or None, state=one.state) for one in awaited]
    return [*reasons, Reason("parents", count=more)] if more else reasons


def _machine(job: JobSituation, machine: MachineStatus) -> list[Reason]:
    reasons, idle, power = [], machine.idle, machine.power
    if job.wait_for_idle and not idle.idle:
        is_busy = idle.source == "load" and idle.idle_for_ms == 0  # for an unknown time
        idle_for_ms, known = None if is_busy else idle.idle_for_ms, idle.idle is not None
        detail = idle.detail or None
        reasons.append(Reason("idle", idle_for_ms=idle_for_ms, idle_ms=machine.idle_ms, known=known, detail=detail))
    if job.require_charging and not power.charging:
        reasons.append(Reason("power", known=power.charging is not None, detail=power.detail or None))
    return reasons


def _ahead(job: JobSituation) -> list[Reason]:
    is_next = not job.ahead or job.lane_runs is not None
    reasons = [] if is_next else [Reason("ahead", ahead=job.ahead, queue=job.queue)]
    of_queue = sum(run.slots for run in job.running if run.queue == job.queue)
    in_all = sum(run.slots for run in job.running)
    needed = job.needed_slots if job.needed_slots > 1 else None
    if of_queue + job.needed_slots > job.slots:
        reasons.append(Reason("slots", queue=job.queue, running=of_queue, slots=job.slots, needed=needed))
    elif in_all + job.needed_slots > job.max_slots:
        reasons.append(Reason("slots", running=in_all, slots=job.max_slots, needed=needed))
    return reasons


def _limits(job: JobSituation, now: int) -> list[Reason]:
    """The key, the group and the rates that have no room for the job."""
    reasons = []
    for room in job.rooms:
        holder = room.job_id if room.limit == 1 else None
        full = Reason(room.kind, job_id=holder, running=room.running, slots=room.limit)
        of_key = replace(full, key=room.name, queue=job.queue)
        reasons.append(of_key if room.kind == "key" else replace(full, group=room.name))
    return reasons + [Reason("rate", key=rate.key, queue=job.queue, at=rate.at) for rate in job.rates if rate.at > now]


def _workers(job: JobSituation) -> list[Reason]:
    """`workers`: those alive that take such jobs."""
    ahead = [Reason("ahead", ahead=job.ahead, queue=job.queue)] if job.ahead and job.workers else []
    return [*ahead, Reason("worker", queue=job.queue, job_type=job.job_type, count=job.workers)]


def _running(job: JobSituation) -> Reason:
    """`starting`: its slot is taken, its process is not there yet."""
    kind = "starting" if job.is_starting else "running"
    return Reason(
        kind if job.cancel_requested_at is None else "stopping",
        started_at=job.started_at,
        requested_at=job.cancel_requested_at,
        attempt=job.attempts,
        max_attempts=job.max_attempts,
        stale=True if job.stale else None,
    )


def _ended(job: JobSituation) -> Reason:
    at = job.finished_at
    if job.state == state.DONE:
        return Reason("done", at=at, started_at=job.started_at)
    if job.state == state.FAILED:
        return Reason("failed", at=at, code=job.error_code, error=job.error_message)
    if job.state == state.SUPERSEDED:
        return Reason("superseded", at=at, job_id=job.superseded_by or None)
    if job.state == state.CANCELLED and job.failed_member is not None:
        return Reason("stopped", at=at, job_id=job.failed_member)
    if job.state == state.CANCELLED:
        return Reason("cancelled", at=at, job_id=job.failed_parent, value=job.failed_parent_state)
    return Reason("skipped", at=at, limit="ttl" if job.state == state.SKIPPED_TTL else "deadline")


def _estimate(job: JobSituation, reasons: list[Reason], now: int) -> int | None:
    """The start of the job by the recent run times of its queue and by the runs under way; None when it cannot be
    estimated."""
    if job.state == state.SCHEDULED:
        return _when_due(reasons, now)
    is_unknown = job.is_external or job.ahead is None or job.rooms
    if job.state != state.QUEUED or is_unknown or (job.paused and job.resume_at is None):
        return None
    begins = max(now, job.resume_at or 0) if job.paused else now
    if job.reservation is not None and job.reservation.job_id != job.job_id:
        begins = max(begins, job.reservation.expires_at)
    own = [run for run in job.running if run.queue == job.queue]
    took = None if job.recent_run_ms is None else max(job.recent_run_ms, *(now - run.started_at for run in own), 0)
    starts = [
        _turn_of(job, _ends_of(own, job, now), job.slots, begins, took),
        _turn_of(job, _ends_of(job.running, job, now), job.max_slots, begins, took),
        *(max(now, rate.at) for rate in job.rates),
    ]
    if job.lane_runs is not None:
        starts.append(_turn_in_lane(job, now, took))
    return None if None in starts else max(start for start in starts if start is not None)


def _turn_in_lane(job: JobSituation, now: int, took: int | None) -> int | None:
    """When the jobs of its lane that come before it will have ended, one after the other."""
    if took is None or job.lane_state == state.SCHEDULED:
        return None
    ends = [_end_of(run, job, now) for run in job.running if run.job_id == job.lane_runs]
    return max([now, *ends]) + took * (job.lane_ahead + (job.lane_state == state.QUEUED))


def _turn_of(job: JobSituation, ends: list[int], slots: int, begins: int, took: int | None) -> int | None:
    """When enough of `slots` become free for the job, after the jobs ahead of it. `ends`: of the runs under way;
    `took`: how long a run is expected to take."""
    ahead, needed = job.ahead or 0, job.needed_slots
    if slots <= 0 or needed > slots or ahead > MOST_AHEAD:
        return None
    if took is None:
        return begins if len(ends) + ahead + needed <= slots else None
    free = sorted([max(begins, end) for end in ends] + [begins] * (slots - len(ends)))[-slots:]
    for _ in range(ahead):
        heapq.heapreplace(free, free[0] + took)
    return sorted(free)[max(needed, 1) - 1]


def _ends_of(runs: Iterable[UnderWay], job: JobSituation, now: int) -> list[int]:
    """One for each slot that is in use."""
    return [_end_of(run, job, now) for run in runs for _ in range(run.slots)]


def _end_of(run: UnderWay, job: JobSituation, now: int) -> int:
    """The expected end of a run. One that has lasted longer than usual is expected to last as long again."""
    usual, elapsed = job.recent_run_ms or 0, max(0, now - run.started_at)
    return run.started_at + usual if elapsed <= usual else now + elapsed


def _when_due(reasons: list[Reason], now: int) -> int | None:
    at = now
    for reason in reasons:
        if reason.kind in ("time", "retry", "debounce") and reason.at is not None:
            at = max(at, reason.at)
        elif reason.kind == "idle" and reason.idle_for_ms is not None:
            at = max(at, now + (reason.idle_ms or 0) - reason.idle_for_ms)
        else:
            return None
    return at
