"""Processes as /proc tells of them: who is whose child, which run somebody belongs to, and how to end them for sure.

A pid alone names nobody, for it is given again: with the time it started at and the boot it is an identity.
"""

import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple

MARK = b"SEMANTICA_RUN_ID="
THREADS = 17  # of the fields of stat that follow the name
TICK_MS = 1000 // os.sysconf("SC_CLK_TCK")
BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
LOOKS = 5  # that find nobody, when each time somebody ended under the look
HAS_PROC = os.path.exists("/proc/self/stat")
HAS_LISTS = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")


class Process(NamedTuple):
    """`started_at`: ms since the boot."""

    pid: int
    parent: int
    group: int
    session: int
    started_at: int
    name: str


class Identity(NamedTuple):
    """A main process as its run remembers it; `started_at` and `boot_id` are None when that was never written."""

    run_id: str
    pid: int | None
    started_at: int | None
    boot_id: str | None


def boot_id() -> str:
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return "unknown"


def look(pid: int) -> Process | None:
    """None when it is gone; a zombie is, unless only its first thread has ended."""
    text = _read(f"/proc/{pid}/stat")
    if not text:
        return None
    name, _, rest = text.partition(b"(")[2].rpartition(b") ")
    fields = rest.split()
    if fields[0] in (b"Z", b"X") and int(fields[THREADS]) <= 1:
        return None
    parent, group, session = (int(field) for field in fields[1:4])
    return Process(pid, parent, group, session, int(fields[19]) * TICK_MS, name.decode("utf-8", "replace"))


def since_boot() -> int:
    """Now, as `started_at` counts."""
    return time.clock_gettime_ns(BOOT_CLOCK) // 1_000_000 // TICK_MS * TICK_MS


def started_since(pid: int, before: int) -> int:
    """When that process started, if it did between `before` and now: mostly within one tick, and then there is no
    need to ask. What ended meanwhile can be asked no more, and need not be known that well."""
    if since_boot() == before:
        return before
    found = look(pid)
    return found.started_at if found else before


def run_of(pid: int) -> str | None:
    """The run whose mark it carries; a process that has cleared its environment carries none."""
    for variable in _environment(pid).split(b"\0"):
        if variable.startswith(MARK):
            return variable[len(MARK) :].decode("utf-8", "replace")
    return None


def _environment(pid: int) -> bytes:
    """When its first thread has ended, only the others have one."""
    return _read(f"/proc/{pid}/environ") or b"".join(_read(f"/proc/{pid}/task/{task}/environ") for task in _tasks(pid))


def _tasks(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""


def everybody() -> list[int]:
    """Of our uid, but us."""
    ours, found = os.getuid(), []
    for entry in os.scandir("/proc") if HAS_PROC else ():
        with suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid() and entry.stat().st_uid == ours:
                found.append(int(entry.name))
    return found


def children(pid: int) -> list[int]:
    """Zombies too. Listed under the thread that made them; a kernel without such lists is asked the long way."""
    if HAS_LISTS:
        return [int(child) for task in _tasks(pid) for child in _read(f"/proc/{pid}/task/{task}/children").split()]
    return [process.pid for process in map(look, everybody()) if process is not None and process.parent == pid]


def open_list_of_children() -> int:
    """Of ours, who have one thread; -1 where there is none."""
    try:
        return os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY)
    except OSError:
        return -1


def descendants(pids: Iterable[int]) -> list[int]:
    found: list[int] = []
    following = list(pids)
    while following:
        following = [child for pid in following for child in children(pid)]
        found += following
    return found


def send(process: Process, number: int) -> None:
    """To that very process: its pid may be another's by now."""
    with suppress(OSError):
        if not hasattr(os, "pidfd_open"):
            os.kill(process.pid, number)
            return
        handle = os.pidfd_open(process.pid)
        try:
            now = look(process.pid)
            if now is not None and now.started_at == process.started_at:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def end_orphans(runs: list[Identity], within_s: float = 10) -> set[str]:
    """Sends SIGKILL to all processes of these runs until none is left; returns the runs that outlast even that."""
    here = boot_id()
    until = time.monotonic() + within_s
    left: dict[Process, str] = {}
    looks = 0
    while left or looks < LOOKS:
        found, whole = _orphans(runs, here)
        left = found | _still_there(left)
        if time.monotonic() > until:
            return set(left.values())
        for process in left:
            send(process, signal.SIGKILL)
        if left:
            _wait_for_an_end([process.pid for process in left])
        looks = 0 if left else LOOKS if whole else looks + 1
    return set()


def _still_there(before: dict[Process, str]) -> dict[Process, str]:
    """Of those that were found once: who loses its parent or is dying carries nothing that it could be found by."""
    return {
        process: run_id
        for process, run_id in before.items()
        if (now := look(process.pid)) is not None and now.started_at == process.started_at
    }


def _orphans(runs: list[Identity], here: str) -> tuple[dict[Process, str], bool]:
    """With their runs: by mark, and by the identity of the main process; with all that came from them. And whether the
    look was whole: who ended under it may have left a child that it did not list."""
    wanted = {run.run_id for run in runs}
    marks = {pid: run_of(pid) for pid in everybody()} if runs else {}
    marked = {pid: mark for pid, mark in marks.items() if mark is not None and mark in wanted}
    whole = all(mark is not None or os.path.exists(f"/proc/{pid}") for pid, mark in marks.items())
    for run in runs:
        process = look(run.pid) if run.pid is not None and run.boot_id == here else None
        if process is not None and process.started_at == run.started_at:
            marked.setdefault(process.pid, run.run_id)
    found = {
        member: run_id
        for pid, run_id in marked.items()
        for member in map(look, [pid, *descendants([pid])])
        if member is not None and member.pid != os.getpid()
    }
    return found, whole


def _wait_for_an_end(pids: list[int]) -> None:
    """For a moment at most: the next look tells."""
    watch: Callable[..., object] = getattr(os, "pidfd_open", lambda pid: None)
    poll = select.poll()
    handles = []
    for pid in pids:
        with suppress(OSError):
            handle = watch(pid)
            if isinstance(handle, int):
                handles.append(handle)
                poll.register(handle, select.POLLIN)
    poll.poll(50)
    for handle in handles:
        os.close(handle)
