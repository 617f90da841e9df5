"""Reads /proc: one process, its children, all processes of this user; and sends signals to exactly one process.

The kernel reuses pids. A pid together with its start time and the boot id is an identity.
"""

import os
import signal
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

THREADS = 17  # index of num_threads among the fields of /proc/PID/stat that follow the name
TICK_MS = 1000 // os.sysconf("SC_CLK_TCK")
BOOT_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
HAS_PROC = os.path.exists("/proc/self/stat")
HAS_CHILDREN_FILES = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")


class Process(NamedTuple):
    """`started_at`: ms since the boot."""

    pid: int
    parent: int
    group: int
    session: int
    started_at: int
    name: str


def boot_id() -> str:
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id") as file:
        return file.read().strip()
    return "unknown"


def find_process(pid: int) -> Process | None:
    """None if the process is gone or a zombie. A zombie whose other threads still run counts as alive."""
    text = read_file(f"/proc/{pid}/stat")
    if not text:
        return None
    name, _, rest = text.partition(b"(")[2].rpartition(b") ")
    fields = rest.split()
    if fields[0] in (b"Z", b"X") and int(fields[THREADS]) <= 1:
        return None
    parent, group, session = (int(field) for field in fields[1:4])
    return Process(pid, parent, group, session, int(fields[19]) * TICK_MS, name.decode("utf-8", "replace"))


def ms_since_boot() -> int:
    """The current time in the unit and resolution of `Process.started_at`."""
    return time.clock_gettime_ns(BOOT_CLOCK) // 1_000_000 // TICK_MS * TICK_MS


def start_time(pid: int, earliest: int) -> int:
    """The start time of a process spawned between `earliest` and now. /proc is read only if a clock tick passed in
    between. A process that has already ended gets `earliest`: nothing will be compared with it any more."""
    if ms_since_boot() == earliest:
        return earliest
    found = find_process(pid)
    return found.started_at if found else earliest


def own_processes() -> list[int]:
    """The pids of all processes of this uid except this process."""
    uid, found = os.getuid(), []
    for entry in os.scandir("/proc") if HAS_PROC else ():
        with suppress(OSError):
            if entry.name.isdigit() and int(entry.name) != os.getpid() and entry.stat().st_uid == uid:
                found.append(int(entry.name))
    return found


def children_of(pid: int) -> list[int]:
    """Includes zombies. The kernel lists children per thread; kernels without these lists need a scan of /proc."""
    if HAS_CHILDREN_FILES:
        lists = [read_file(f"/proc/{pid}/task/{task}/children") for task in tasks_of(pid)]
        return [int(child) for children in lists for child in children.split()]
    return [process.pid for process in map(find_process, own_processes()) if process and process.parent == pid]


def descendants_of(pids: Iterable[int]) -> list[int]:
    found: list[int] = []
    generation = list(pids)
    while generation:
        generation = [child for pid in generation for child in children_of(pid)]
        found += generation
    return found


def send_signal(process: Process, number: int) -> None:
    """Does nothing if the process is gone, even when its pid now belongs to another one."""
    with suppress(OSError):
        if not hasattr(os, "pidfd_open"):
            os.kill(process.pid, number)
            return
        handle = os.pidfd_open(process.pid)
        try:
            now = find_process(process.pid)
            if now is not None and now.started_at == process.started_at:
                signal.pidfd_send_signal(handle, number)
        finally:
            os.close(handle)


def tasks_of(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []


def read_file(path: str) -> bytes:
    """Empty if the process is gone."""
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return b""
