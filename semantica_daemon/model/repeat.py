"""What makes a schedule fire, as schedule.put is given it: a cron expression, an interval or an event. `timetable` has
the times that follow from it."""

import hashlib
import re

from msgspec import Struct

from semantica_daemon.errors import InvalidParams
from semantica_daemon.model import cron
from semantica_daemon.model.job import RESERVED_KEYS
from semantica_daemon.model.timetable import REBOOT
from semantica_daemon.wire.schedule import SHORTEST_INTERVAL_MS, PutScheduleParams
from semantica_daemon.wire.types import FAR_FUTURE

KINDS = ("cron_expression", "every_ms", "on_event")
EVERY = re.compile(r"@every\s+((?:\d+(?:ms|[smhdw])\s*)+)")
PART = re.compile(r"(\d+)(ms|[smhdw])")
UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class Repeat(Struct, frozen=True):
    """Exactly one of `cron_expression`, `every_ms` and `on_event` is set."""

    cron_expression: str | None
    timezone: str
    every_ms: int | None
    on_event: str | None
    event_value: str | None


def repeat_of(params: PutScheduleParams) -> Repeat:
    """Checks what is given. `@every 90m` is an interval; `@reboot` stays a cron expression, one without times."""
    given = [name for name in KINDS if getattr(params, name) is not None]
    if len(given) != 1:
        problem = "nothing makes the schedule fire" if not given else f"{given[0]} is given as well"
        hint = "give one of cron_expression, every_ms and on_event"
        raise InvalidParams(problem, hint, path=f"$.{given[1] if given else KINDS[0]}")
    expression, every_ms = params.cron_expression, params.every_ms
    if params.event_value is not None and params.on_event is None:
        raise InvalidParams("a value needs an event", "give on_event", path="$.event_value")
    if params.on_event is not None:
        _check_key(params.on_event)
    shortcut = "" if expression is None else expression.strip().lower()
    if shortcut.startswith("@every"):
        expression, every_ms = None, _interval(shortcut)
    elif shortcut == REBOOT:
        expression = REBOOT
    elif expression is not None:
        cron.check(expression, params.timezone)
    return Repeat(expression, params.timezone, every_ms, params.on_event, params.event_value)


def jitter(schedule_id: str, at: int, jitter_ms: int) -> int:
    """How long the job of that time is delayed. The same every time it is computed, and spread over the range."""
    digest = hashlib.sha256(f"{schedule_id} {at}".encode()).digest()
    return int.from_bytes(digest[:8]) % (jitter_ms + 1)


def _interval(expression: str) -> int:
    found = EVERY.fullmatch(expression)
    every_ms = sum(int(number) * UNITS[unit] for number, unit in PART.findall(found[1])) if found else 0
    if not SHORTEST_INTERVAL_MS <= every_ms <= FAR_FUTURE:
        hint = 'write it like "@every 90m" or "@every 1h30m"; the shortest is 1s'
        raise InvalidParams(f"{expression!r} is no interval", hint, path="$.cron_expression")
    return every_ms


def _check_key(key: str) -> None:
    if key.startswith(RESERVED_KEYS):
        problem = f"only the daemon emits events that begin with {' or '.join(RESERVED_KEYS)}"
        raise InvalidParams(problem, "choose another key, such as git:commit", path="$.on_event")
