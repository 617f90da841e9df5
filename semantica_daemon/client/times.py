"""Instants as people write and read them, in the zone of who asks; `words` has durations and lengths. What needs
datetime imports it when it is asked for: most commands never are."""

import os
import re
import time
from collections.abc import Mapping

from semantica_daemon.client import words

CLOCK = r"([01]?\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?"
DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
HOW = "write 10m (from now), 14:30, tomorrow 02:00, monday 9:00 or 2031-05-01T14:30"
LOCALTIME, TIMEZONE = "/etc/localtime", "/etc/timezone"


def instant(text: str, now: int | None = None) -> int:
    """Epoch ms: now, a duration from now, a time of day (the next one, or of a day that is named), a date and time."""
    said = " ".join(text.lower().split())
    for read in (_from_now, _of_a_day, _of_the_calendar):
        if (found := read(said, words.now() if now is None else now)) is not None:
            return max(0, found)
    raise ValueError(f"{text!r} is no time: {HOW}")


def _from_now(said: str, now: int) -> int | None:
    """A plain number could be an hour or a date as well: it takes a sign to be seconds."""
    if said == "now":
        return now
    bare = re.sub(r"^(in |\+ ?)", "", said)
    if re.fullmatch(rf"({words.PIECE})+" + ("" if bare == said else f"|{words.PLAIN}"), bare):
        return now + words.duration(bare)
    return None


def _of_a_day(said: str, now: int) -> int | None:
    found = re.fullmatch(rf"(?:([a-z]+) )?{CLOCK}", said)
    ahead = () if found is None else _days_ahead(found[1], now)
    if found is None or not ahead:
        return None
    clock = [int(part or 0) for part in found.groups()[1:]]
    times = [at for days in ahead for at in _on_day(now, days, *clock)]
    return next((at for at in times if at > now), times[0])


def _days_ahead(day: str | None, now: int) -> tuple[int, ...]:
    """The days that can be meant, the next first; none for a word that is no day."""
    if day is None:
        return 0, 1
    if day in ("today", "tomorrow"):
        return (("today", "tomorrow").index(day),)
    number = next((number for number, name in enumerate(DAYS) if day in (name, name[:3])), None)
    if number is None:
        return ()
    days = (number - time.localtime(now / 1000).tm_wday) % 7
    return days, days + 7


def _on_day(now: int, days: int, hour: int, minute: int, second: int) -> list[int]:
    """Once; twice in the hour that comes twice. In the hour that does not come, as much later as the clock jumps."""
    from datetime import datetime, timedelta  # noqa: PLC0415

    today = datetime.fromtimestamp(now / 1000)
    told = today.replace(hour=hour, minute=minute, second=second, microsecond=0, fold=0) + timedelta(days)
    again = told.replace(fold=1)
    comes_twice = datetime.fromtimestamp(again.timestamp()) == told
    return [round(one.timestamp() * 1000) for one in ([told, again] if comes_twice else [told])]


def _of_the_calendar(said: str, now: int) -> int | None:
    from datetime import datetime  # noqa: PLC0415

    if said.isdecimal():  # a date without dashes, to some
        return None
    try:
        told = datetime.fromisoformat(said.upper())
        times = [round(one.timestamp() * 1000) for one in (told, told.replace(fold=1))]
        return next((at for at in times if at > now), times[0])
    except (ValueError, OverflowError, OSError):
        return None


def when(at: int, now: int) -> str:
    """02:00:00 tomorrow, in 5h12m."""
    return day(at, now) + (f", in {words.length(at - now)}" if at > now else "")


def day(at: int, now: int) -> str:
    """The time of a day that is today or tomorrow, else with its date."""
    then, today = time.localtime(at / 1000), time.localtime(now / 1000)
    noon = time.mktime((today.tm_year, today.tm_mon, today.tm_mday + 1, 12, 0, 0, 0, 0, -1))
    days = {today[:3]: "", time.localtime(noon)[:3]: " tomorrow"}
    return time.strftime("%H:%M:%S" if then[:3] in days else "%Y-%m-%d %H:%M:%S", then) + days.get(then[:3], "")


def zone(env: Mapping[str, str] = os.environ, localtime: str = LOCALTIME, timezone: str = TIMEZONE) -> str:
    """The name of the user's own zone: by $TZ, by the machine's settings, else UTC. The daemon says if it is none."""
    given = env.get("TZ", localtime).removeprefix(":")
    if not given.startswith("/"):
        return given or "UTC"
    try:
        path = given if "zoneinfo/" in given else os.readlink(localtime)
    except OSError:
        path = ""
    name = path.rpartition("zoneinfo/")[2].removeprefix("posix/").removeprefix("right/")
    return (name if "zoneinfo/" in path else "") or _first_line(timezone) or "UTC"


def _first_line(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.readline().strip()
    except (OSError, UnicodeDecodeError):
        return ""
