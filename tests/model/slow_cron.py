"""A slow reference for cron: checks every minute, or second, of a period of UTC by plain rules.

The rules are those of Debian's cron(8) where the offset of a zone changes, implemented independently of cronsim:

- A fixed time (neither second, minute nor hour begins with a star) that the clock leaves out runs in the first minute,
  or second, after the gap; several that fall into one gap run there once. One that the clock shows twice runs the first
  time only.
- Everything else runs by the clock: whenever the clock shows it, twice in what repeats, never in what is left out.
- If day of month or day of week begins with a star, both must match; otherwise one is enough.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import NamedTuple
from zoneinfo import ZoneInfo

from semantica_daemon.model import cron

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
RANGES = ((0, 59), (0, 59), (0, 23), (1, 31), (1, 12), (0, 7))


class Tick(NamedTuple):
    """The local time at an instant, whether the clock showed it before, and the local times it left out just before."""

    at: int
    wall: datetime
    again: bool
    left_out: tuple[datetime, ...]


class Cron(NamedTuple):
    """The values of each field, seconds first."""

    values: tuple[frozenset[int], ...]
    both_days: bool
    fixed: bool

    def shows(self, wall: datetime) -> bool:
        second, minute, hour, day, month, weekday = self.values
        if not (wall.minute in minute and wall.hour in hour and wall.second in second and wall.month in month):
            return False
        days = (wall.day in day, wall.isoweekday() % 7 in weekday)
        return all(days) if self.both_days else any(days)

    def fires(self, tick: Tick) -> bool:
        if not self.fixed:
            return self.shows(tick.wall)
        return (self.shows(tick.wall) and not tick.again) or any(self.shows(wall) for wall in tick.left_out)


def instant(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(milliseconds=1)


@lru_cache
def stretch(zone: str, first: datetime, length: timedelta, step: timedelta) -> tuple[Tick, ...]:
    """`first` lies in UTC, before any hour that repeats."""
    ticks: list[Tick] = []
    seen: set[datetime] = set()
    for count in range(length // step):
        moment = first + count * step
        wall = moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None)
        left_out = []
        missing = ticks[-1].wall + step if ticks else wall
        while missing < wall:
            left_out.append(missing)
            missing += step
        ticks.append(Tick(instant(moment), wall, wall in seen, tuple(left_out)))
        seen.add(wall)
    return tuple(ticks)


def read(expression: str) -> Cron:
    fields = expression.split()
    fixed = all(field[0] != "*" for field in fields[:-3])
    if len(fields) == 5:
        fields = ["0", *fields]
    values = [_values(field, *bounds) for field, bounds in zip(fields, RANGES, strict=True)]
    values[5] = frozenset(day % 7 for day in values[5])
    return Cron(tuple(values), fields[3][0] == "*" or fields[5][0] == "*", fixed)


def _values(field: str, low: int, high: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        body, _, step = part.partition("/")
        start, _, end = (f"{low}-{high}" if body == "*" else body).partition("-")
        found.update(range(int(start), int(end or (high if step else start)) + 1, int(step or 1)))
    return frozenset(found)


def firings(expression: str, ticks: tuple[Tick, ...]) -> list[int]:
    cron = read(expression)
    return [tick.at for tick in ticks if cron.fires(tick)]


def last_until(expression: str, zone: str, until: int) -> int | None:
    """The newest time at or before `until`, by the code under test."""
    return next(cron.occurrences_back(expression, zone, until), None)
