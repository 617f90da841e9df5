"""Durations, lengths and sizes as people write and read them; `times` has instants. Knows nothing of jobs or of the
terminal."""

import re
import time

UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
# Not compiled here: most commands never look at one.
PIECE = r"(\d+(?:\.\d+)?)(ms|[smhdw])"
PLAIN = r"\d+(?:\.\d+)?"
LONGEST_MS = 10**15


def duration(text: str) -> int:
    """In ms: 500ms 10s 5m 2h 1d 1h30m; a plain number is seconds."""
    text = text.strip()
    pieces = re.findall(PIECE, text)
    if re.fullmatch(PLAIN, text):
        found = float(text) * 1000
    elif pieces and "".join(number + unit for number, unit in pieces) == text:
        found = sum(float(number) * UNITS[unit] for number, unit in pieces)
    else:
        raise ValueError(f"{text!r} is no duration: write 500ms, 10s, 5m, 2h, 1d or 1h30m (a plain number is seconds)")
    if found > LONGEST_MS:
        raise ValueError(f"{text!r} is longer than anybody can wait")
    return round(found)


def now() -> int:
    return time.time_ns() // 1_000_000


def length(ms: float) -> str:
    """How long: 340ms, 1.2s, 3m05s, 2h04m, 3d02h."""
    if ms < 1000:
        return f"{max(0, round(ms))}ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f}s"
    seconds = round(ms / 1000)
    for unit, size, small, smaller in (("m", 60, "s", 1), ("h", 3600, "m", 60)):
        if seconds < size * (60 if unit == "m" else 24):
            return f"{seconds // size}{unit}{seconds % size // smaller:02}{small}"
    return f"{seconds // 86_400}d{seconds % 86_400 // 3600:02}h"


def age(at: int | None) -> str:
    """How long ago, in one unit: 3s, 5m, 2h, 4d."""
    if at is None:
        return "-"
    seconds = max(0, now() - at) // 1000
    for unit, size, most in (("s", 1, 60), ("m", 60, 3600), ("h", 3600, 86_400)):
        if seconds < most:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86_400}d"


def moment(at: int | None) -> str:
    """When, in the user's zone: the time of a day that is today, else with its date."""
    if at is None:
        return "-"
    try:
        then, today = time.localtime(at / 1000), time.localtime()
    except (OverflowError, ValueError, OSError):
        return str(at)
    same = (then.tm_year, then.tm_yday) == (today.tm_year, today.tm_yday)
    return time.strftime("%H:%M:%S" if same else "%Y-%m-%d %H:%M:%S", then)


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def clean(text: str) -> str:
    """Somebody else's words on one line of a terminal, without what would move its cursor or change its colours."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text)
