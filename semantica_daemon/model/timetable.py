"""The times of a schedule: those of a cron expression, or every so many ms from an anchor. A schedule for an event or
for the start of the machine has none. `schedule` decides which of the times fire."""

from collections.abc import Iterator
from itertools import count

from msgspec import Struct

from semantica_daemon.model import cron

REBOOT = "@reboot"


class Timetable(Struct, frozen=True):
    cron_expression: str | None
    timezone: str
    every_ms: int | None
    anchor_at: int | None


def next_after(table: Timetable, after: int) -> int | None:
    """The first time strictly after `after`; None when there is none."""
    return next(occurrences(table, after), None)


def occurrences(table: Timetable, after: int) -> Iterator[int]:
    """Yields the times strictly after `after`, ascending. The first time of an interval is `anchor_at + every_ms`."""
    if table.every_ms is not None and table.anchor_at is not None:
        intervals = max(0, after - table.anchor_at) // table.every_ms
        return count(table.anchor_at + (intervals + 1) * table.every_ms, table.every_ms)
    if table.cron_expression in (None, REBOOT):
        return iter(())
    return cron.occurrences(str(table.cron_expression), table.timezone, after)


def occurrences_back(table: Timetable, until: int) -> Iterator[int]:
    """Yields the times at or before `until`, descending."""
    if table.every_ms is not None and table.anchor_at is not None:
        intervals = max(0, until - table.anchor_at) // table.every_ms
        return iter(range(table.anchor_at + intervals * table.every_ms, table.anchor_at, -table.every_ms))
    if table.cron_expression in (None, REBOOT):
        return iter(())
    return cron.occurrences_back(str(table.cron_expression), table.timezone, until)
