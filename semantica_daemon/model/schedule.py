"""Which times of a schedule become jobs, which are skipped, and when the schedule fires next.

`timetable` computes the times. A schedule keeps the latest time it fired as a watermark, and where the unbroken row of
times before it begins: times that were skipped are not in it. When the wall clock is set, cron's three-hour rule
applies:

| the clock shows                                 | the schedule                                                     |
|-------------------------------------------------|------------------------------------------------------------------|
| a later time: set forward, or after a suspend   | fires or skips the times it missed, by `misfire`                 |
| an earlier time, < 3 h before the watermark     | does not fire again what it fired, and waits for the next time   |
| an earlier time, ≥ 3 h before the watermark     | goes by the new clock at once: the watermark is of a wrong clock |
"""

from collections.abc import Iterator
from itertools import islice, takewhile

from msgspec import Struct

from semantica_daemon.errors import InvalidParams
from semantica_daemon.model import timetable
from semantica_daemon.model.timetable import Timetable

ON_TIME_MS = 30_000
MAX_FIRED = 1000  # of the missed times; older ones are skipped
MAX_FIRED_AT_ONCE = 10  # in one transaction; the rest stay due
MAX_COUNTED = 500
CLOCK_CORRECTION_MS = 3 * 3_600_000


class FiredRange(Struct, frozen=True):
    """All times from `first` to `last` were fired. `last` is the watermark."""

    first: int
    last: int


class Timing(Timetable, frozen=True):
    """The fields of a schedule that decide when it fires."""

    misfire: str
    fired_from: int | None
    fired_to: int | None

    def fired(self, now: int) -> FiredRange | None:
        """None for a watermark that lies three hours or more ahead: the clock that made it was wrong."""
        if self.fired_from is None or self.fired_to is None or self.fired_to >= now + CLOCK_CORRECTION_MS:
            return None
        return FiredRange(self.fired_from, self.fired_to)


class SkippedTimes(Struct, frozen=True):
    """`count` is at most MAX_COUNTED; `more` is true when there were more."""

    count: int
    more: bool
    first_at: int
    last_at: int


class Firing(Struct, frozen=True):
    """The times to fire now, ascending, those to skip, and the schedule afterwards."""

    fire: tuple[int, ...]
    skipped: SkippedTimes | None
    next_trigger_at: int | None
    fired: FiredRange | None


def due(timing: Timing, trigger_at: int, now: int) -> Firing:
    """Fires the newest of the times since `trigger_at` and skips the older ones, as many as `misfire` says."""
    most = MAX_FIRED if timing.misfire == "run_all" else 1
    newest_first = list(islice(_missed(timing, trigger_at, now), most + MAX_COUNTED + 1))
    if timing.misfire == "skip" and newest_first and now - newest_first[0] > ON_TIME_MS:
        most = 0
    fire, skipped = newest_first[:most][::-1], newest_first[most:][::-1]
    fire, left = fire[:MAX_FIRED_AT_ONCE], fire[MAX_FIRED_AT_ONCE:]
    fired = _extend(timing.fired(now), fire, bool(skipped), now)
    next_at = left[0] if left else next_time(timing, now)
    return Firing(tuple(fire), _sum_up(skipped, trigger_at) if skipped else None, next_at, fired)


def next_time(timing: Timing, now: int) -> int | None:
    """By the clock as it is now, without the times that were fired before the clock was set back."""
    at, fired = timetable.next_after(timing, now), timing.fired(now)
    if at is not None and fired is not None and fired.first <= at <= fired.last:
        return timetable.next_after(timing, fired.last)
    return at


def upcoming(table: Timetable, next_at: int | None, count: int) -> list[int]:
    """The next `count` times; only the first when this machine no longer has the time zone."""
    if next_at is None:
        return []
    try:
        return [next_at, *islice(timetable.occurrences(table, next_at), count - 1)]
    except InvalidParams:
        return [next_at]


def _missed(timing: Timing, trigger_at: int, now: int) -> Iterator[int]:
    """The newest first, since only a bounded number is read. `trigger_at` counts even if the rules of the time zone
    have changed and it is no longer a time of the expression.
    """
    until, fired = now, timing.fired(now)
    if fired is not None and fired.first <= now and trigger_at <= fired.last:
        yield from takewhile(lambda at: at > fired.last, timetable.occurrences_back(timing, now))
        until = fired.first - 1
    if trigger_at <= until:
        yield from takewhile(lambda at: at > trigger_at, timetable.occurrences_back(timing, until))
        yield trigger_at


def _sum_up(skipped: list[int], trigger_at: int) -> SkippedTimes:
    """Of more than MAX_COUNTED times only the newest are known, and that `trigger_at` is the first."""
    more = len(skipped) > MAX_COUNTED
    return SkippedTimes(min(len(skipped), MAX_COUNTED), more, trigger_at if more else skipped[0], skipped[-1])


def _extend(fired: FiredRange | None, fire: list[int], gap: bool, now: int) -> FiredRange | None:
    """The range with `fire`. A range that the clock has yet to pass again stays as it is; a gap begins a new one."""
    if fired is not None and (fired.last > now or (not fire and not gap)):
        return fired
    if not fire:
        return None
    return FiredRange(fire[0] if fired is None or gap else fired.first, fire[-1])
