"""Cgroups (version 2): one kernel group per run; a process stays in it even if it forks twice or starts a session.

The daemon prepares the root, and `supervisor/controlled_spawn` makes a process join the cgroup of its run.
`supervisor/trees` and `orphans` kill what is in it. Without a root, processes are found by `marks` and by parents.
"""

import os
import re
import time
from contextlib import suppress
from typing import NamedTuple

DAEMON = "daemon"  # of the daemon and its supervisor: the root itself must be empty to have controllers
RUN = "run-"
CONTROLLERS = ("memory", "cpu")
DELEGATED = ("user.delegate", "trusted.delegate")  # set by systemd on the cgroup of a unit with Delegate=yes
CPU_PERIOD_US = 100_000
LOOK_AGAIN_AFTER_S = 0.01


class CgroupRoot(NamedTuple):
    """`path` is empty if there is none, and `problem` then has the reason. `controllers`: what can be limited."""

    path: str = ""
    controllers: frozenset[str] = frozenset()
    problem: str = ""


def prepare(configured: str) -> CgroupRoot:
    """Moves this process into a child of the root and enables the controllers. The root is the one that is configured,
    or the cgroup of this process if systemd has delegated it."""
    root = configured or _delegated()
    if not root:
        return CgroupRoot(problem="no cgroup is delegated to the daemon (Delegate=yes), and daemon.cgroup is not set")
    try:
        for folder in (root, f"{root}/{DAEMON}"):
            if not os.path.exists(folder) and _is_cgroup(os.path.dirname(folder)):
                os.mkdir(folder)
        _write(f"{root}/{DAEMON}/cgroup.procs", str(os.getpid()))
        if not os.access(f"{root}/{DAEMON}/cgroup.kill", os.W_OK):
            return CgroupRoot(problem=f"{root} is no cgroup of version 2 with cgroup.kill (Linux 5.14)")
    except OSError as error:
        return CgroupRoot(problem=f"{root} cannot be used: {error.strerror}")
    _remove_empty(root)
    for controller in CONTROLLERS:
        with suppress(OSError):
            _write(f"{root}/cgroup.subtree_control", f"+{controller}")
    enabled = _read(f"{root}/cgroup.subtree_control").split()
    return CgroupRoot(root, frozenset(enabled) & set(CONTROLLERS))


def path_of(root: str, run_id: str) -> str:
    return f"{root}/{RUN}{run_id}"


def limit(path: str, memory: int | None, cpu: int | None) -> None:
    """`memory` in bytes; `cpu` in percent of one core."""
    if memory is not None:
        _write(f"{path}/memory.max", str(memory))
    if cpu is not None:
        _write(f"{path}/cpu.max", f"{cpu * CPU_PERIOD_US // 100} {CPU_PERIOD_US}")


def join(path: str) -> None:
    """Moves this process into the cgroup."""
    _write(f"{path}/cgroup.procs", "0")


def members(path: str) -> list[int]:
    """The pids of all living processes in the cgroup; none if it does not exist."""
    return [int(pid) for pid in _read(f"{path}/cgroup.procs").split()]


def kill(path: str) -> None:
    """Sends SIGKILL to all processes at once, also to those that are being forked."""
    with suppress(OSError):
        _write(f"{path}/cgroup.kill", "1")


def end(path: str, until: float) -> bool:
    """Kills all processes, waits until they are gone, and removes the cgroup. Returns whether it is gone at `until`, in
    seconds of the monotonic clock."""
    kill(path)
    while members(path) and time.monotonic() < until:
        time.sleep(LOOK_AGAIN_AFTER_S)
    remove(path)
    return not members(path)


def remove(path: str) -> None:
    with suppress(OSError):
        os.rmdir(path)


def _delegated() -> str:
    """The cgroup of this process, by its mount point; empty if systemd has not delegated it."""
    inside = re.search(r"^0::(/.*)$", _read("/proc/self/cgroup"), re.MULTILINE)
    mounted = re.search(r"^\S+ (\S+) cgroup2 ", _read("/proc/self/mounts"), re.MULTILINE)
    if inside is None or mounted is None:
        return ""
    path = mounted[1] + inside[1].removesuffix(f"/{DAEMON}")
    for name in DELEGATED:
        with suppress(OSError, AttributeError):
            if os.getxattr(path, name) == b"1":
                return path
    return ""


def _is_cgroup(path: str) -> bool:
    return os.path.exists(f"{path}/cgroup.procs")


def _remove_empty(root: str) -> None:
    """Removes what runs of earlier daemons have left; a cgroup with processes stays, as rmdir refuses it."""
    with os.scandir(root) as entries:
        for name in [entry.name for entry in entries if entry.name.startswith(RUN)]:
            remove(f"{root}/{name}")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _read(path: str) -> str:
    try:
        with open(path) as file:
            return file.read()
    except OSError:
        return ""
