"""When a new job may start: the rule for times, delays, conditions and debounce, on values alone."""

from msgspec import Struct

from semantica_daemon.model import state
from semantica_daemon.wire.job import IMMEDIATE, JobSpec


class Start(Struct, frozen=True, gc=False):
    """How a job begins. `at`: its time, if it has one; `is_delay`: counted from now, not a time of day. `unmet`: how
    many things must happen once before it may start. `postponed_since`: since when its lane has had no rest."""

    state: str
    at: int | None = None
    is_delay: bool = False
    unmet: int = 0
    postponed_since: int | None = None
    warnings: tuple[str, ...] = ()


def start(spec: JobSpec, now: int, postponed_since: int | None, awaits_turn: bool) -> Start:
    """`postponed_since`: of the job in its lane that it replaces."""
    schedule = spec.schedule
    if schedule is IMMEDIATE and spec.debounce_ms is None and spec.deadline is None and not awaits_turn:
        return Start(state.QUEUED)
    since = None if spec.debounce_ms is None else now if postponed_since is None else postponed_since
    at, is_delay = _time(spec, now, since)
    unmet = (schedule.wait_for_event is not None) + len(schedule.conditions or ()) + awaits_turn
    waits = unmet or schedule.wait_for_idle or schedule.require_charging or (at is not None and at > now)
    return Start(state.SCHEDULED if waits else state.QUEUED, at, is_delay, unmet, since, _warnings(spec, now, at))


def _time(spec: JobSpec, now: int, since: int | None) -> tuple[int | None, bool]:
    """The latest of the times it is given, and whether that is a delay."""
    times: list[tuple[int, bool]] = []
    if spec.schedule.scheduled_at is not None:
        times.append((spec.schedule.scheduled_at, False))
    if spec.schedule.delay_ms is not None:
        times.append((now + spec.schedule.delay_ms, True))
    if spec.debounce_ms is not None and since is not None:
        times.append((quiet_at(now, since, spec.debounce_ms, spec.max_wait_ms), True))
    return max(times, default=(None, False))


def quiet_at(now: int, since: int, debounce_ms: int, max_wait_ms: int | None) -> int:
    """When the lane has been quiet long enough, should nothing more arrive; or has been busy for too long."""
    quiet = now + debounce_ms
    return quiet if max_wait_ms is None else min(quiet, since + max_wait_ms)


def _warnings(spec: JobSpec, now: int, start_at: int | None) -> tuple[str, ...]:
    warnings = []
    at = spec.schedule.scheduled_at
    if at is not None and at <= now:
        waits = spec.schedule.has_conditions or spec.schedule.delay_ms or spec.debounce_ms
        warnings.append(f"scheduled_at is in the past: {'it does not delay it' if waits else 'it runs now'}")
    if spec.deadline is not None and spec.deadline <= now:
        warnings.append("the deadline has passed already: it will not run")
    elif spec.deadline is not None and start_at is not None and spec.deadline <= start_at:
        warnings.append("the deadline comes before its time: it will not run")
    return tuple(warnings)


def starts_when(spec: JobSpec, begins: Start, now: int, lane_busy: bool) -> str:
    """The rest of a sentence: it starts …"""
    if begins.state == state.SUPERSEDED:
        return "never: a newer generation of its lane is already known"
    if begins.state == state.QUEUED:
        return "when the running job of its lane has ended" if lane_busy else "when a slot is free"
    schedule = spec.schedule
    waits = [f"event {schedule.wait_for_event}" if schedule.wait_for_event is not None else ""]
    waits += [f"{key} is {value}" for key, value in (schedule.conditions or {}).items()]
    waits += ["the machine is idle" if schedule.wait_for_idle else ""]
    waits += ["it is on mains" if schedule.require_charging else ""]
    after = " and ".join(wait for wait in waits if wait)
    time = f"at {begins.at} (epoch ms)" if begins.at is not None and begins.at > now else ""
    return ", ".join(filter(None, [time, after and f"when {after}", "when a slot is free"]))
