"""The sources for idle, a chain in which the first source that knows wins, and the one for power. `engine/machine`
decides when to query them, `engine/desktop` has the D-Bus sources.

A source runs only when it is queried. It raises SourceUnavailable when it does not know; `Sources.idle` puts the reason
into its answer.
"""

import asyncio
import math
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from msgspec import Struct

from semantica_daemon.clock import Clock
from semantica_daemon.engine.power import read_power, text_of
from semantica_daemon.model.machine import Power

SOURCE_TIMEOUT_S = 1.0
OVER_DBUS = ("mutter", "screensaver", "logind")
NOT_INSTALLED = "dbus-fast is not installed: install semantica-daemon[desktop]"
TERMINALS = ("pts/[0-9]*", "tty[0-9]*")
TTY_TIME_GRANULARITY_MS = 8_000  # the kernel updates the time of input this rarely, to hide typing rhythms
LOW_LOAD_PER_CORE = 0.25  #: the load of a machine without a user
LOAD_SPANS_S = (60, 300, 900)  # the spans of os.getloadavg
HID_IDLE = re.compile(r'"HIDIdleTime"\s*=\s*(\d+)')

Idleness = tuple[int, str]  # milliseconds without input, and how the source knows


class Answer(Struct, frozen=True):
    """The answer of one source: the time without input. None: it does not know, and `detail` is the reason."""

    source: str
    idle_for_ms: int | None
    detail: str


class SourceUnavailable(Exception):
    """A source does not know; the message is the reason."""


class Places(Struct, frozen=True):
    """Directories of the system that the sources read."""

    terminals: Path = Path("/dev")
    seats: Path = Path("/run/systemd/seats")
    supplies: Path = Path("/sys/class/power_supply")


SYSTEM_PLACES = Places()


class Desktop(Protocol):
    """`engine/desktop`, which is imported on first use."""

    async def read(self, source: str) -> Idleness: ...

    async def close(self) -> None: ...


class LowLoad(Struct, frozen=True):
    """`since`: from when on the load has been low, apart from our own runs; `at`: the time of this measurement. Both in
    seconds of the monotonic clock."""

    since: float
    at: float
    own_load: float | None  # load that our own runs may still explain; None: they did not run


class Sources:
    """Answers one query at a time. Between two queries only the connection to a bus stays open."""

    def __init__(
        self,
        clock: Clock,
        running: Callable[[], int],
        environment: Mapping[str, str] = os.environ,
        places: Places = SYSTEM_PLACES,
        platform: str = sys.platform,
    ) -> None:
        """`running`: returns how many runs of our own are under way."""
        self._clock = clock
        self._running = running
        self._environment = environment
        self._places = places
        over_dbus = {source: partial(self._over_dbus, source) for source in OVER_DBUS}
        self._chain: dict[str, Callable[[], Awaitable[Idleness]]] = (
            {"ioreg": self._ioreg} if platform == "darwin" else over_dbus | {"tty": self._tty, "load": self._load}
        )
        self._desktop: Desktop | None = None
        self._low_load: LowLoad | None = None
        self._reading: asyncio.Future[Power] | None = None
        self._one_at_a_time = asyncio.Lock()

    async def idle(self, query_all: bool = False) -> list[Answer]:
        """The answers up to the first source that knows; with `query_all`, those of all sources."""
        answers: list[Answer] = []
        async with self._one_at_a_time:
            for source, read in self._chain.items():
                try:
                    answers.append(Answer(source, *await read()))
                except SourceUnavailable as error:
                    answers.append(Answer(source, None, str(error)))
                if not query_all and answers[-1].idle_for_ms is not None:
                    break
        return answers

    async def power(self) -> Power:
        """Reads the battery in a thread, since that may block. A battery that never answers occupies one thread."""
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(asyncio.to_thread(read_power, self._places.supplies))
        reading = self._reading
        done, _ = await asyncio.wait({reading}, timeout=SOURCE_TIMEOUT_S)
        if not done:
            return Power("psutil", None, f"the battery did not answer within {SOURCE_TIMEOUT_S:.0f} s")
        return reading.result()

    async def close(self) -> None:
        """Closes the connections to the buses; the next query opens them again."""
        async with self._one_at_a_time:
            if self._desktop is not None:
                await self._desktop.close()

    async def _over_dbus(self, source: str) -> Idleness:
        """Imports `engine/desktop` on first use: it is optional, and takes 30 ms and 2.5 MB that most daemons never
        need."""
        if self._desktop is None:
            if find_spec("dbus_fast") is None:
                raise SourceUnavailable(NOT_INSTALLED)
            try:
                module = await asyncio.to_thread(import_module, "semantica_daemon.engine.desktop")
            except ImportError as error:
                raise SourceUnavailable(f"dbus-fast 5 or newer is needed: {error}") from error
            self._desktop = module.Desktop(self._environment, self._clock)
        desktop: Desktop = self._desktop
        return await desktop.read(source)

    async def _tty(self) -> Idleness:
        if seen := display(self._environment, self._places.seats):
            raise SourceUnavailable(f"there is {seen}, and input there does not show on a terminal")
        last = last_input(self._places.terminals, os.getuid())
        if last is None:
            raise SourceUnavailable("you have no terminal open")
        at, name = last
        idle_for_ms = max(0, self._clock.now() - at - TTY_TIME_GRANULARITY_MS)
        return idle_for_ms, f"nothing typed at {name} for {idle_for_ms // 1000} s"

    async def _load(self) -> Idleness:
        seen = display(self._environment, self._places.seats) or next(iter(local_sessions(self._places.seats)), None)
        if seen:
            raise SourceUnavailable(f"there is {seen}, and a user may be there without causing load")
        try:
            averages = os.getloadavg()
        except OSError as error:
            raise SourceUnavailable(f"the load is not known: {error}") from error
        own, cores, now = self._running(), os.cpu_count() or 1, self._clock.monotonic()
        self._low_load = low_load(self._low_load, averages, own, cores, now)
        load = f"load {averages[0]:.2f} on {cores} cores"
        if self._low_load is None:
            return 0, f"the machine is busy ({load}, not from Semantica jobs)"
        return round((now - self._low_load.since) * 1000), f"{load}, {own} Semantica jobs running"

    async def _ioreg(self) -> Idleness:
        program = shutil.which("ioreg", path=self._environment.get("PATH")) or "/usr/sbin/ioreg"
        try:
            output = await asyncio.to_thread(_output, [program, "-c", "IOHIDSystem"])
        except (OSError, subprocess.SubprocessError) as error:
            raise SourceUnavailable(f"ioreg gave no idle time: {error}") from error
        return hid_idle(output)


def low_load(
    before: LowLoad | None, averages: tuple[float, float, float], own: int, cores: int, now: float
) -> LowLoad | None:
    """Since when the load has been low, by the averages and by earlier measurements; None: it is high.

    Our own runs are no sign of a user: while they run, and while the load falls after them, the machine stays idle.
    Otherwise a job that waits for idle would end it, for itself and for the next job.
    """
    if before is not None and now - before.at > LOAD_SPANS_S[-1]:
        before = None
    load, limit = averages[0], own + LOW_LOAD_PER_CORE * cores
    if load <= limit:
        high = next((index for index, average in enumerate(averages) if average > limit), len(averages))
        proven = LOAD_SPANS_S[high - 1]
        seen = before.since if before is not None and now - before.at <= proven else now
        return LowLoad(min(seen, now - proven), now, math.inf if own else None)
    if before is not None and (own or (before.own_load is not None and load <= before.own_load)):
        return LowLoad(before.since, now, math.inf if own else load)
    return None


def local_sessions(seats: Path) -> dict[str, str]:
    """The sessions at this machine and their type (x11, wayland, tty), by the files of logind."""
    found = {}
    for seat in sorted(seats.glob("*")):
        for session in _fields(seat).get("SESSIONS", "").split():
            fields = _fields(seats.parent / "sessions" / session)
            if fields.get("CLASS") != "greeter" and fields.get("STATE") != "closing":
                found[f"session {session} on {seat.name}"] = fields.get("TYPE", "")
    return found


def display(environment: Mapping[str, str], seats: Path) -> str | None:
    """A screen at which a user may be; not one that ssh forwards from elsewhere."""
    for name in ("WAYLAND_DISPLAY", "DISPLAY"):
        where = environment.get(name, "")
        if where and (name != "DISPLAY" or where.startswith((":", "unix:"))):
            return f"a display ({name}={where})"
    return next((f"{kind} {session}".strip() for session, kind in local_sessions(seats).items() if kind != "tty"), None)


def last_input(terminals: Path, uid: int) -> tuple[int, str] | None:
    """When a terminal of this user last got input, and its name. Root owns unused consoles, so they do not count."""
    found = []
    for path in (path for pattern in TERMINALS[: 1 if uid == 0 else 2] for path in terminals.glob(pattern)):
        try:
            seen = path.stat()
        except OSError:
            continue  # closed since the folder was listed
        if seen.st_uid == uid:
            found.append((seen.st_atime_ns // 1_000_000, path.relative_to(terminals).as_posix()))
    return max(found, default=None)


def hid_idle(output: str) -> Idleness:
    """Parses the output of ioreg on macOS: nanoseconds since the last input."""
    found = HID_IDLE.search(output)
    if found is None:
        raise SourceUnavailable("ioreg names no HIDIdleTime")
    return no_input(int(found[1]) // 1_000_000)


def no_input(idle_for_ms: int) -> Idleness:
    return idle_for_ms, f"no input for {idle_for_ms // 1000} s"


def _fields(path: Path) -> dict[str, str]:
    lines = (line.partition("=") for line in text_of(path).splitlines())
    return {name: value.strip('"') for name, _, value in lines}


def _output(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, timeout=SOURCE_TIMEOUT_S, check=True)
    return done.stdout.decode(errors="replace")
