"""Durations, instants and the time zone as the user writes them on the command line.

`datetime` is imported only when it is needed: most commands never are given an instant.
"""

import os
import re
import time

from semantica_daemon.cli import format
from semantica_daemon.client.json_types import Any

NAMES_OF_UNITS = {
    1: "ms millisecond milliseconds", 1000: "s sec secs second seconds", 60_000: "m min mins minute minutes",
    3_600_000: "h hr hrs hour hours", 86_400_000: "d day days", 604_800_000: "w week weeks",
}  # fmt: skip
UNITS = {name: ms for ms, names in NAMES_OF_UNITS.items() for name in names.split()}
# Not compiled here: most commands never use them.
NUMBER = r"\d+(?:\.\d+)?"
PART = rf"({NUMBER}) ?({'|'.join(sorted(UNITS, key=len, reverse=True))})(?![a-z])"
PARTS = rf"{PART}(?:(?:,| and|, and)? ?{PART})*"
CLOCK = r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?"
CLOCK_OF_12 = r"(1[0-2]|0?[1-9])(?::([0-5]\d))?(?::([0-5]\d))? ?([ap])\.?m\.?"
NAMED_TIMES = {"": (0, 0, 0), "midnight": (0, 0, 0), "noon": (12, 0, 0)}
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
FORMATS = "write 10m or '10 minutes' (from now), 14:30, 4pm, noon, tomorrow 02:00, monday 9:00 or 2031-05-01T14:30"
LONGEST_MS = 10**15
LOCALTIME, TIMEZONE = "/etc/localtime", "/etc/timezone"


def duration(text: str) -> int:
    """Milliseconds, of 500ms 10s 5m 2h 1d 1h30m, '10 minutes', '1 hour 30 minutes'; a plain number is seconds."""
    text = " ".join(text.lower().split())
    if text.startswith("-"):
        raise ValueError("a duration cannot be negative")
    if re.fullmatch(NUMBER, text):
        ms = float(text) * 1000
    elif re.fullmatch(PARTS, text):
        ms = sum(float(number) * UNITS[unit] for number, unit in re.findall(PART, text))
    else:
        raise ValueError(f"{text!r} is not a duration: write 500ms, 10s, 5m, 2h, 1d or 1h30m (a number is seconds)")
    if ms > LONGEST_MS:
        raise ValueError(f"{text!r} is too long")
    return round(ms)


def instant(text: str, now: int | None = None) -> int:
    """Epoch milliseconds, of "now", a duration from now, a time of day (the next one), or a date and time."""
    words = " ".join(text.lower().split())
    now = format.now() if now is None else now
    found = _from_now(words, now) or _time_of_day(words, now) or _date(words)
    if not found:
        raise ValueError(f"{text!r} is not a time: {FORMATS}")
    return max(0, next((at for at in found if at > now), found[0]))


def past(text: str, now: int | None = None) -> int:
    """Epoch milliseconds of an instant that is over: a duration ago, the last such time of day, or a date."""
    now = format.now() if now is None else now
    words = " ".join(text.lower().split()).removesuffix(" ago")
    if re.fullmatch(PARTS, words):
        return max(0, now - duration(words))
    try:
        is_future = words.startswith(("in ", "+", "tomorrow"))
        found = [] if is_future else [instant(words, now - days * UNITS["d"]) for days in (0, 1, 7)]
    except ValueError:
        found = []
    if not any(at <= now for at in found):
        raise ValueError(f"{text!r} is not a time in the past: write 2h (ago), 14:30, monday 9:00 or 2026-05-01")
    return next(at for at in found if at <= now)


def _from_now(words: str, now: int) -> list[int]:
    """A plain number counts as seconds only after `in` or `+`, because it could be an hour or a date as well."""
    if words == "now":
        return [now]
    bare = re.sub(r"^(in |\+ ?)", "", words)
    is_duration = re.fullmatch(PARTS + ("" if bare == words else f"|{NUMBER}"), bare)
    return [now + duration(bare)] if is_duration else []


def _time_of_day(words: str, now: int) -> list[int]:
    """That time on each of the days that can be meant, the nearest first. A day alone means its midnight."""
    from datetime import datetime, timedelta  # noqa: PLC0415

    first, _, rest = words.partition(" ")
    others, _, last = words.rpartition(" ")
    for day, shown_clock in ((first, rest), (last, others), ("", words)):
        days, shown = _days_ahead(day, now), clock(shown_clock)
        if days and shown is not None and words:
            hour, minute, second = shown
            today = datetime.fromtimestamp(now / 1000).replace(hour=hour, minute=minute, second=second)
            today = today.replace(microsecond=0, fold=0)
            return [at for number in days for at in _instants(today + timedelta(number))]
    return []


def clock(text: str) -> tuple[int, int, int] | None:
    """Hour, minute and second, of 14:30, 4pm, 4:30 pm, noon; midnight for no text."""
    if text in NAMED_TIMES:
        return NAMED_TIMES[text]
    if match := re.fullmatch(CLOCK, text):
        return int(match[1]), int(match[2]), int(match[3] or 0)
    if match := re.fullmatch(CLOCK_OF_12, text):
        return int(match[1]) % 12 + 12 * (match[4] == "p"), int(match[2] or 0), int(match[3] or 0)
    return None


def _days_ahead(day: str, now: int) -> tuple[int, ...]:
    """The days that can be meant, as distances from today, the nearest first; none for a word that is not a day."""
    if not day:
        return 0, 1
    if day in ("today", "tomorrow"):
        return (("today", "tomorrow").index(day),)
    number = number_of_day(day)
    if number is None:
        return ()
    days = (number - 1 - time.localtime(now / 1000).tm_wday) % 7
    return days, days + 7


def number_of_day(day: str) -> int | None:
    """1 for monday or mon, 7 for sunday; None for another word."""
    return next((number for number, name in enumerate(DAYS, start=1) if day in (name, name[:3])), None)


def _date(words: str) -> list[int]:
    from datetime import datetime  # noqa: PLC0415

    if words.isdecimal():  # fromisoformat would take it for a date without dashes
        return []
    try:
        return _instants(datetime.fromisoformat(words.upper()))
    except (ValueError, OverflowError, OSError):
        return []


def _instants(date: Any) -> list[int]:
    """Two different ones in the hour that daylight saving repeats. A time in the skipped hour moves forward."""
    return [round(one.timestamp() * 1000) for one in (date, date.replace(fold=1))]


def zone(
    env: "os._Environ[str] | dict[str, str]" = os.environ, localtime: str = LOCALTIME, timezone: str = TIMEZONE
) -> str:
    """The name of the user's time zone: by $TZ, else by the machine's settings, else UTC. The daemon checks it."""
    given = env.get("TZ", localtime).removeprefix(":")
    if not given.startswith("/"):
        return given or "UTC"
    try:
        path = given if "zoneinfo/" in given else os.readlink(localtime)
    except OSError:
        path = ""
    name = path.partition("zoneinfo/")[2].removeprefix("posix/").removeprefix("right/")
    return name or _first_line(timezone) or "UTC"


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip()
    except (OSError, UnicodeDecodeError):
        return ""
