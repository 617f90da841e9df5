"""Cron expressions in a time zone: whether one is sound, and the instants at which it fires.

cronsim walks the clock on the wall, which knows no zone; zoneinfo says which instants that is; here is how the two
meet when clocks are changed (given a zone, cronsim 2.8 fires some twice and loses others on such days). What a
schedule does with an occurrence is in `schedule`.
"""

import difflib
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from semantica_daemon.errors import InvalidParams

ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
FIELDS = (
    ("second", "0-59"),
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of month", "1-31, L (the last) or LW (the last weekday)"),
    ("month", "1-12 or JAN-DEC"),
    ("day of week", "0-7 or SUN-SAT, 5L (the last Friday) or 1#2 (the second Monday)"),
)
EXAMPLE = 'like "30 3 * * 1-5": minute, hour, day of month, month, day of week; seconds may stand in front; or "@daily"'
# 5-5/2 is 5; cronsim takes it for 5/2, which is 5 and all that follow.
RANGE_OF_ONE = re.compile(r"\b(\w+)-\1/[1-9]\d*", re.IGNORECASE | re.ASCII)
MOST_CHARACTERS = 256
MOST_OF_A_ZONE = 64
MACHINES_OWN = ("localtime", "posixrules")
OTHER_CLOCKS = ("right/", "posix/")

EPOCH = datetime(1970, 1, 1)
SECOND = timedelta(seconds=1)
DAY = 86_400
HORIZON = 50 * 366 * DAY  # where cronsim gives up as well
# Any 28 years without a turn of the century hold every kind of year: what doesn't fire from here on never does.
SURVEY_FROM = (datetime(2030, 1, 1) - EPOCH) // timedelta(milliseconds=1)
# Within what datetime can hold, in every zone.
EARLIEST, LATEST = ((datetime(year, 1, 1) - EPOCH) // SECOND for year in (2, 9999))


def check(expression: str, zone: str) -> None:
    """Raises InvalidParams for what cannot be read, what can never fire, and an unknown zone."""
    _zone(zone)
    if next_after(expression, zone, SURVEY_FROM) is None:
        raise _never_fires(expression)


def next_after(expression: str, zone: str, after: int) -> int | None:
    """The first occurrence strictly after that instant; None when there is none in fifty years."""
    return next(occurrences(expression, zone, after), None)


def occurrences(expression: str, zone: str, after: int) -> Iterator[int]:
    """All that are strictly after that instant, ascending, as they are asked for."""
    return (found * 1000 for found in _seconds(expression, zone, max(after // 1000, EARLIEST), back=False))


def occurrences_back(expression: str, zone: str, until: int) -> Iterator[int]:
    """All that are at or before that instant, descending, as they are asked for."""
    return (found * 1000 for found in _seconds(expression, zone, min(until // 1000, LATEST), back=True))


def _seconds(expression: str, zone: str, start: int, back: bool) -> Iterator[int]:
    """As Debian's cron. A fixed time (five fields, neither minute nor hour begins with `*`) is kept once whatever the
    clock does; everything else fires whenever the clock shows it: twice in an hour that repeats, never in one that is
    left out. All inside here are seconds: of instants since the epoch, of walls what the clock shows at them.
    """
    fields = _fields(expression)
    fixed = len(fields) == 5 and not any(field.startswith("*") for field in fields[:2])
    rule = _at_fixed_times if fixed else _as_shown
    found = rule(" ".join(fields), _zone(zone), start, back)
    return takewhile(lambda at: EARLIEST <= at <= LATEST, found)


def _at_fixed_times(fields: str, zone: ZoneInfo, start: int, back: bool) -> Iterator[int]:
    """Walls that come to the same instant are one occurrence. Going back, a later wall may be an earlier instant."""
    offset = _offset(zone, start)
    last = start + 1 if back else start
    for wall in _walls(fields, start + (max(offset, _offset(zone, start - DAY)) if back else offset), back):
        found = _kept_at(zone, wall)
        if (found < last) if back else (found > last):
            yield found
            last = found


def _kept_at(zone: ZoneInfo, wall: int) -> int:
    """The first instant that shows this; right after the gap if none does."""
    shown = (EPOCH + wall * SECOND).replace(tzinfo=zone)
    offset = (shown.utcoffset() or timedelta()) // SECOND
    found = wall - offset
    return found if _offset(zone, found) == offset else _change(zone, found - DAY, found)


def _as_shown(fields: str, zone: ZoneInfo, start: int, back: bool) -> Iterator[int]:
    """Stretch by stretch: walls are instants by the offset of `start` until that changes, then by the next one."""
    last, wall_from = start, start + _offset(zone, start)
    while abs(start - last) < HORIZON:
        offset, edge = _offset(zone, start), None
        for wall in _walls(fields, wall_from, back):
            edge = _edge(zone, start, wall - offset)
            if edge is not None:
                break
            last = start = wall - offset
            yield start
        if edge is None:
            return
        start = edge - 1 if back else edge
        wall_from = edge - 1 + _offset(zone, start)


def _edge(zone: ZoneInfo, start: int, end: int) -> int | None:
    """A change of the offset on the way. What begins and ends with the same offset may still have gone past an hour
    that repeats, but only within a day of either end.
    """
    day = DAY if end > start else -DAY
    stops = (start, end) if abs(end - start) <= DAY else (start, start + day, end - day, end)
    for here, there in pairwise(stops):
        if _offset(zone, here) != _offset(zone, there):
            return _change(zone, min(here, there), max(here, there))
    return None


def _change(zone: ZoneInfo, low: int, high: int) -> int:
    """The first second of the offset that holds at `high`; at `low` it is another."""
    offset = _offset(zone, high)
    while high - low > 1:
        middle = (low + high) // 2
        if _offset(zone, middle) == offset:
            high = middle
        else:
            low = middle
    return high


def _offset(zone: ZoneInfo, at: int) -> int:
    moment = datetime.fromtimestamp(min(max(at, EARLIEST), LATEST), zone)
    return (moment.utcoffset() or timedelta()) // SECOND


def _walls(fields: str, start: int, back: bool) -> Iterator[int]:
    """What the clock shows at each match after `start`, or back from it."""
    try:
        first = EPOCH + timedelta(seconds=start + 1 if back else start)
        for shown in CronSim(fields, first, reverse=back):
            yield (shown - EPOCH) // SECOND
    except CronSimError:
        raise _refused(fields) from None
    except OverflowError:
        return  # the calendar ends with the year 9999


def _fields(expression: str) -> list[str]:
    if len(expression) > MOST_CHARACTERS:
        raise _bad_cron(f"cron expression is longer than {MOST_CHARACTERS} characters", f"shorten it, {EXAMPLE}")
    fields = expression.split()
    if not fields:
        raise _bad_cron("cron expression is empty", f"give one {EXAMPLE}")
    if fields[0].startswith("@"):
        found = ALIASES.get(expression.strip().lower())
        if found is None:
            raise _bad_cron(f"{expression!r} isn't known", f"use one of {', '.join(ALIASES)}, or five fields")
        return found.split()
    if len(fields) not in (5, 6):
        raise _bad_cron(f"cron expression has {len(fields)} fields, not five or six", f"write it {EXAMPLE}")
    return [RANGE_OF_ONE.sub(r"\1", field) for field in fields]


def _refused(expression: str) -> InvalidParams:
    """Which field cronsim means: the one that it refuses by itself. If there is none, they don't go together."""
    fields = expression.split()
    for place, field in enumerate(fields, start=len(FIELDS) - len(fields)):
        alone = ["*"] * len(FIELDS)
        alone[place] = field
        try:
            CronSim(" ".join(alone), EPOCH)
        except CronSimError:
            name, values = FIELDS[place]
            hint = f"{name} is {values}; *, lists (1,3), ranges (1-5) and steps (*/2) of them"
            return _bad_cron(f"{name} cannot be {field!r}", hint)
    return _never_fires(expression)


def _never_fires(expression: str) -> InvalidParams:
    hint = "there is no such day, or the zone's clock never shows that time; check day, month and day of week"
    return _bad_cron(f"cron expression {expression!r} can never fire", hint)


def _bad_cron(message: str, hint: str) -> InvalidParams:
    return InvalidParams(f"{message} - at `$.cron_expression`", hint, path="$.cron_expression")


def _zone(name: str) -> ZoneInfo:
    """The machine's own zone has no name, and right/ counts leap seconds, which our instants don't."""
    if len(name) <= MOST_OF_A_ZONE and name not in MACHINES_OWN and not name.startswith(OTHER_CLOCKS):
        try:
            return ZoneInfo(name)
        except (LookupError, ValueError, OSError):
            pass
    shown = name[:MOST_OF_A_ZONE]
    near = difflib.get_close_matches(shown.lower(), _zone_names(), n=1)
    hint = f"did you mean {_zone_names()[near[0]]}?" if near else "use a name like Europe/Berlin or UTC"
    raise InvalidParams(f"time zone {shown!r} isn't known - at `$.timezone`", hint, path="$.timezone")


@lru_cache(maxsize=1)
def _zone_names() -> dict[str, str]:
    """By their names in lower case."""
    return {name.lower(): name for name in sorted(available_timezones()) if name not in MACHINES_OWN}
