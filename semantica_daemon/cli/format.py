"""Ages, instants, sizes and untrusted text as cells of a table; `prose` has durations and sentences."""

import time

from semantica_daemon import prose


def now() -> int:
    return time.time_ns() // 1_000_000


def age(at: int | None) -> str:
    """The time since then in one unit: 3s, 5m, 2h, 4d."""
    if at is None:
        return "-"
    seconds = max(0, now() - at) // 1000
    for unit, size, most in (("s", 1, 60), ("m", 60, 3600), ("h", 3600, 86_400)):
        if seconds < most:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86_400}d"


def instant(at: int | None) -> str:
    """In the user's zone."""
    return "-" if at is None else prose.instant(at, now())


def instant_and_delay(at: int, since: int) -> str:
    """02:00:00 tomorrow, in 5h12m."""
    return prose.instant(at, since) + (f", in {prose.duration(at - since)}" if at > since else "")


def size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" or count >= 10 else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def clean(text: str) -> str:
    """The text on one line, without characters that move the cursor or change colours."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "\ufffd" for char in text)
