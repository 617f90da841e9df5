"""When a new job may start: the rule for times, delays, conditions and debounce, on values alone."""

from msgspec import Struct
from msgspec.structs import asdict

from semantica_daemon import prose
from semantica_daemon.model import state
from semantica_daemon.model.admission import AdmittedJob
from semantica_daemon.model.job import JOB_END
from semantica_daemon.model.reason import MOST_AWAITED, AwaitedJob, awaited_reasons
from semantica_daemon.wire.job import IMMEDIATE, JobSpec
from semantica_daemon.wire.reason import Reason


class Start(Struct, frozen=True, gc=False):
    """How a job begins. `at`: its time, if it has one; `is_delay`: counted from now, not a time of day. `unmet`: the
    number of gates that must open before it may start. `postponed_since`: when the current debounce began."""

    state: str
    at: int | None = None
    is_delay: bool = False
    unmet: int = 0
    postponed_since: int | None = None
    warnings: tuple[str, ...] = ()


AT_ONCE = Start(state.QUEUED)


def start(spec: JobSpec, now: int, postponed_since: int | None, unmet: int) -> Start:
    """`postponed_since`: of the job that this one replaces in its lane. `unmet`: the number of its closed gates."""
    schedule = spec.schedule
    if schedule is IMMEDIATE and spec.debounce_ms is None and spec.deadline is None and not unmet:
        return AT_ONCE
    since = None if spec.debounce_ms is None else now if postponed_since is None else postponed_since
    at, is_delay = _time(spec, now, since)
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
    """The instant at which the debounce ends if no further job arrives, at most `max_wait_ms` after `since`."""
    quiet = now + debounce_ms
    return quiet if max_wait_ms is None else min(quiet, since + max_wait_ms)


def _warnings(spec: JobSpec, now: int, start_at: int | None) -> tuple[str, ...]:
    warnings = []
    at = spec.schedule.scheduled_at
    if at is not None and at <= now:
        waits = spec.schedule.has_conditions or spec.schedule.delay_ms or spec.debounce_ms
        warnings.append(f"the scheduled time is in the past: {'it does not delay it' if waits else 'it runs now'}")
    if spec.deadline is not None and spec.deadline <= now:
        warnings.append("the deadline has passed already: it will not run")
    elif spec.deadline is not None and start_at is not None and spec.deadline <= start_at:
        warnings.append("the deadline comes before its time: it will not run")
    return tuple(warnings)


def start_reasons(job: AdmittedJob, begins: Start, now: int, lane_busy: bool) -> list[Reason]:
    """What holds the new job back, as job.plan reports it."""
    if begins.state == state.SUPERSEDED:
        return [Reason("superseded")]
    place = Reason("worker" if job.mode is None else "slots")
    if begins.state == state.QUEUED:
        return [Reason("lane") if lane_busy else place]
    schedule = job.spec.schedule
    reasons = [Reason("time", at=begins.at)] if begins.at is not None and begins.at > now else []
    reasons += [Reason("held")] if job.spec.hold else []
    awaited = [AwaitedJob(other, gate.value) for gate in job.gates if not gate.is_open and (other := gate.awaited_job)]
    reasons += awaited_reasons(awaited[:MOST_AWAITED], len(awaited[MOST_AWAITED:]))
    if schedule.wait_for_event is not None and not schedule.wait_for_event.startswith(JOB_END):
        reasons.append(Reason("event", key=schedule.wait_for_event))
    conditions = (schedule.conditions or {}).items()
    reasons += [Reason("condition", key=key, value=value) for key, value in conditions if not key.startswith(JOB_END)]
    reasons += [Reason("idle")] if schedule.wait_for_idle else []
    reasons += [Reason("power")] if schedule.require_charging else []
    return [*reasons, place]


def epoch_text(at: int) -> str:
    """An instant for callers whose zone is not known."""
    return f"at {at} (epoch ms)"


def starts_when(reasons: list[Reason], now: int) -> str:
    """The reasons as one sentence."""
    return prose.start([asdict(reason) for reason in reasons], now, epoch_text)


def too_late(winner: str, subject: str) -> str:
    return f"not run: job {prose.short_id(winner)} was added for a newer version of {subject}"


def group_stopped(group: str, failed: str) -> str:
    return f"group {group} was stopped when job {prose.short_id(failed)} failed; this job runs all the same"
