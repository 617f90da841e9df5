"""Cron expressions in a time zone: validates them, and computes the instants at which they fire.

cronsim finds the matching local times, zoneinfo their instants; this module combines the two where a zone changes its
offset (there cronsim 2.8 with a zone fires some times twice and loses others). `schedule` decides which times fire.
"""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import pairwise, takewhile
from zoneinfo import ZoneInfo, available_timezones

from cronsim import CronSim, CronSimError

from semantica_daemon.errors import InvalidParams, did_you_mean

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
# 5-5/2 means 5; cronsim reads it as 5/2, which is 5, 7, 9 and so on.
RANGE_OF_ONE = re.compile(r"\b(\w+)-\1/[1-9]\d*", re.IGNORECASE | re.ASCII)
MAX_EXPRESSION_LENGTH = 256
MAX_ZONE_LENGTH = 64
MACHINE_ZONES = ("localtime", "posixrules")
OTHER_ZONE_TREES = ("right/", "posix/")

EPOCH = datetime(1970, 1, 1)
SECOND = timedelta(seconds=1)
DAY = 86_400
HORIZON = 50 * 366 * DAY  # cronsim gives up there too
# 28 years without a turn of the century hold every kind of year: an expression without a time from here on never fires.
SURVEY_FROM = (datetime(2030, 1, 1) - EPOCH) // timedelta(milliseconds=1)
# The range of datetime, in every zone.
EARLIEST, LATEST = ((datetime(year, 1, 1) - EPOCH) // SECOND for year in (2, 9999))


def check(expression: str, zone: str) -> None:
    """Raises InvalidParams for an invalid expression, one that never fires, and an unknown zone."""
    _zone(zone)
    if next_after(expression, zone, SURVEY_FROM) is None:
        raise _never_fires(expression)


def next_after(expression: str, zone: str, after: int) -> int | None:
    """The first time strictly after `after`; None when there is none in fifty years."""
    return next(occurrences(expression, zone, after), None)


def occurrences(expression: str, zone: str, after: int) -> Iterator[int]:
    """Yields the times strictly after `after`, ascending."""
    return (found * 1000 for found in _seconds(expression, zone, max(after // 1000, EARLIEST), back=False))


def occurrences_back(expression: str, zone: str, until: int) -> Iterator[int]:
    """Yields the times at or before `until`, descending."""
    return (found * 1000 for found in _seconds(expression, zone, min(until // 1000, LATEST), back=True))


def _seconds(expression: str, zone: str, start: int, back: bool) -> Iterator[int]:
    """Follows Debian's cron: a fixed time (neither second, minute nor hour begins with `*`) fires once, also on a day
    on which the offset changes. Any other expression fires whenever the local clock shows it: twice in an hour that
    repeats, never in an hour that is left out. Instants and local times are in seconds from here on.
    """
    fields = _fields(expression)
    fixed = not any(field.startswith("*") for field in fields[:-3])
    rule = _fixed_times if fixed else _shown_times
    found = rule(" ".join(fields), _zone(zone), start, back)
    return takewhile(lambda at: EARLIEST <= at <= LATEST, found)


def _fixed_times(fields: str, zone: ZoneInfo, start: int, back: bool) -> Iterator[int]:
    """Local times of the same instant fire once. Going back, a later local time may be an earlier instant."""
    offset = _offset(zone, start)
    last = start + 1 if back else start
    for local in _local_times(fields, start + (max(offset, _offset(zone, start - DAY)) if back else offset), back):
        found = _instant_of(zone, local)
        if (found < last) if back else (found > last):
            yield found
            last = found


def _instant_of(zone: ZoneInfo, local: int) -> int:
    """The first instant at which the clock shows `local`; the end of the gap if it never does."""
    shown = (EPOCH + local * SECOND).replace(tzinfo=zone)
    offset = (shown.utcoffset() or timedelta()) // SECOND
    found = local - offset
    return found if _offset(zone, found) == offset else _find_change(zone, found - DAY, found)


def _shown_times(fields: str, zone: ZoneInfo, start: int, back: bool) -> Iterator[int]:
    """Converts local times by the offset at `start` until the offset changes, then by the next offset."""
    last, local_from = start, start + _offset(zone, start)
    while abs(start - last) < HORIZON:
        offset, change = _offset(zone, start), None
        for local in _local_times(fields, local_from, back):
            change = _offset_change(zone, start, local - offset)
            if change is not None:
                break
            last = start = local - offset
            yield start
        if change is None:
            return
        start = change - 1 if back else change
        local_from = change - 1 + _offset(zone, start)


def _offset_change(zone: ZoneInfo, start: int, end: int) -> int | None:
    """The first change of the offset between the two, None without one. Even with the same offset at both ends there
    may be an hour that repeats in between, but only within a day of either end.
    """
    day = DAY if end > start else -DAY
    stops = (start, end) if abs(end - start) <= DAY else (start, start + day, end - day, end)
    for here, there in pairwise(stops):
        if _offset(zone, here) != _offset(zone, there):
            return _find_change(zone, min(here, there), max(here, there))
    return None


def _find_change(zone: ZoneInfo, low: int, high: int) -> int:
    """The first second with the offset of `high`. The offset at `low` is another one."""
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


def _local_times(fields: str, start: int, back: bool) -> Iterator[int]:
    """Yields the matching local times after `start`, or at and before it."""
    try:
        first = EPOCH + timedelta(seconds=start + 1 if back else start)
        for shown in CronSim(fields, first, reverse=back):
            yield (shown - EPOCH) // SECOND
    except CronSimError:
        raise _refused(fields) from None
    except OverflowError:
        return  # datetime ends with the year 9999


def _fields(expression: str) -> list[str]:
    if len(expression) > MAX_EXPRESSION_LENGTH:
        raise _bad_cron(f"cron expression is longer than {MAX_EXPRESSION_LENGTH} characters", f"shorten it, {EXAMPLE}")
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
    """Names the field that cronsim refuses by itself. Without one, the fields exclude each other."""
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
    return InvalidParams(message, hint, path="$.cron_expression")


def _zone(name: str) -> ZoneInfo:
    """Refuses the machine's own zone, which has no name, and right/, which counts leap seconds."""
    if len(name) <= MAX_ZONE_LENGTH and name not in MACHINE_ZONES and not name.startswith(OTHER_ZONE_TREES):
        try:
            return ZoneInfo(name)
        except (LookupError, ValueError, OSError):
            pass
    shown = name[:MAX_ZONE_LENGTH]
    hint = did_you_mean(shown, _zone_names()) or "use a name like Europe/Berlin or UTC"
    raise InvalidParams(f"time zone {shown!r} isn't known", hint, path="$.timezone")


@lru_cache(maxsize=1)
def _zone_names() -> list[str]:
    return [name for name in sorted(available_timezones()) if name not in MACHINE_ZONES]
