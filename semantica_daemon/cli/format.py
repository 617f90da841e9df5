"""Instants, sizes, jobs and untrusted text as cells of a table; `prose` has durations and sentences."""

import json
import shlex
import time
from collections.abc import Callable

from semantica_daemon import prose
from semantica_daemon.client.client import WAITING_STATES
from semantica_daemon.client.json_types import Any, Json

LONGEST_JSON = 2000


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


def optional(render: Callable[[Any], str], value: Any) -> str | None:
    """None for None: a pair without a value is not printed."""
    return None if value is None else render(value)


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


def command(job: Json) -> str:
    """Quoted for a shell; empty for a job without a command."""
    argv = (job["payload"] or {}).get("argv") if job["execution_mode"] != "IN_PROCESS" else None
    return shlex.join(map(str, argv)) if argv and isinstance(argv, list) else ""


def took(job: Json) -> str | None:
    """How long a job or a run took, or has taken so far; None for a job that waits, also between two runs."""
    if job["started_at"] is None or job.get("state") in WAITING_STATES:
        return None
    return prose.duration((job["finished_at"] or now()) - job["started_at"])


def short_json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_JSON else text[:LONGEST_JSON] + " …"


def progress(found: Json) -> str:
    """50 %, 3 of 12, compiling, half way: of these what is known."""
    parts = [] if found["percent"] is None else [f"{found['percent']:g} %"]
    if found["items_completed"] is not None:
        parts.append(f"{found['items_completed']} of {found['items_total'] or '?'}")
    return ", ".join([*parts, *(str(found[name]) for name in ("phase", "message") if found[name])])


def short_progress(job: Json) -> str | None:
    """For a column: the percentage, else the items; None when the job has reported nothing."""
    found = job["progress"]
    if found is None:
        return None
    shorter = {**found, "phase": None, "message": None}
    return progress(shorter if found["percent"] is None else {**shorter, "items_completed": None}) or None
