"""When a schedule fires, in the words of the command line: `--every`, and the column `when` of its list."""

from semantica_daemon.cli import times
from semantica_daemon.cli.command import Json

SHORTCUTS = ("hourly", "daily", "weekly", "monthly", "yearly")
GROUPS = {"daily": "*", "day": "*", "weekdays": "1-5", "weekday": "1-5", "weekends": "0,6", "weekend": "0,6"}
NUMBERS_OF_FIELDS = (5, 6)
FORMATS = "write 10m, '90 minutes', 'daily 02:00', 'weekdays 9:00', 'monday 4pm', '*/5 * * * *', @daily or @reboot"
UNITS = {names.split()[0]: ms for ms, names in reversed(times.NAMES_OF_UNITS.items())}  # the largest first


def check(text: str) -> str:
    """The text as it was given, for hints, if `fields` understands it."""
    fields(text)
    return text


def fields(text: str) -> Json:
    """Returns the parameters of schedule.put: an interval, or a cron expression. The daemon checks the expression."""
    words = " ".join(text.lower().split()).removeprefix("every ")
    if words.startswith("@"):
        return {"cron_expression": text.strip()}
    if words in SHORTCUTS:
        return {"cron_expression": f"@{words}"}
    if found := _day_and_time(words):
        return {"cron_expression": found}
    try:
        if not words.replace(".", "").isdecimal():  # 10 of what?
            return {"every_ms": times.duration(words)}
    except ValueError:
        count = len(words.split())
        if count in NUMBERS_OF_FIELDS and not words[0].isalpha():
            return {"cron_expression": text.strip()}
        if "*" in words:
            raise ValueError(f"{text!r}: it has {count} fields, 5 are needed, or 6 with seconds first") from None
    raise ValueError(f"{text!r} is not a schedule: {FORMATS}")


def _day_and_time(words: str) -> str | None:
    """The cron expression of `daily 02:00`, `weekdays at 9:00`, `monday 4pm` or `mon,thu noon`; else None."""
    days, _, rest = words.removeprefix("weekly ").partition(" ")
    numbers = [GROUPS[days]] if days in GROUPS else [times.number_of_day(day) for day in days.split(",")]
    clock = times.clock(rest.removeprefix("at ")) if rest else None
    if clock is None or None in numbers:
        return None
    hour, minute, second = clock
    return f"{f'{second} ' if second else ''}{minute} {hour} * * {','.join(map(str, numbers))}"


def when(one: Json) -> str:
    """`every 10m`, `on git:commit=main`, or the cron expression."""
    if one["every_ms"] is not None:
        return f"every {interval(one['every_ms'])}"
    if one["on_event"] is not None:
        return f"on {event(one)}"
    return str(one["cron_expression"])


def when_with_jitter(one: Json) -> str:
    """`0 2 * * * + up to 10m`."""
    return f"{when(one)} + {jitter(one)}" if one["jitter_ms"] else when(one)


def jitter(one: Json) -> str | None:
    return f"up to {interval(one['jitter_ms'])}" if one["jitter_ms"] else None


def event(one: Json) -> str:
    return str(one["on_event"]) if one["event_value"] is None else f"{one['on_event']}={one['event_value']}"


def interval(ms: int) -> str:
    """1h30m, 10m, 1w."""
    text = ""
    for unit, size in UNITS.items():
        if ms >= size:
            text += f"{ms // size}{unit}"
            ms %= size
    return text or "0s"
