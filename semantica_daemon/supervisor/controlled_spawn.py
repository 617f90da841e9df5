"""Starts a process that has to be prepared by itself before it executes its command: it joins the cgroup of its run,
lowers its priority, and makes its terminal the controlling one.

posix_spawn (`spawn`) has no step for that, so the supervisor, which has a single thread, forks.
"""

import ctypes
import errno
import fcntl
import os
import signal
import struct
import termios
from typing import NamedTuple, NoReturn

from semantica_daemon.processes import cgroups
from semantica_daemon.supervisor.messages import SpawnFailed, SpawnRequest

NUMBER = struct.Struct("i")
LOWEST = 19
# From linux/ioprio.h; libc has no function for it.
IOPRIO_SET = {"x86_64": 251, "aarch64": 30}
THIS_PROCESS = 1
BEST_EFFORT, IDLE = 2 << 13, 3 << 13
DEFAULT_SIGNALS = (int(signal.SIGPIPE), int(signal.SIGXFSZ))  # Python ignores them, and a child would inherit that


class Control(NamedTuple):
    """The field `control` of a SpawnRequest. `cgroup`: the path of the cgroup that the run gets, empty for none. The
    limits of memory (bytes) and CPU (percent of a core) need one; `nice` does not."""

    cgroup: str
    memory: int | None
    cpu: int | None
    nice: int | None


def make_cgroup(request: SpawnRequest, control: Control) -> SpawnFailed | None:
    """Makes the cgroup of the run and sets its limits; returns the reason if that fails."""
    try:
        os.mkdir(control.cgroup)
        cgroups.limit(control.cgroup, control.memory, control.cpu)
    except OSError as error:
        message = f"its cgroup {control.cgroup} cannot be made: {error.strerror}"
        return SpawnFailed(request.run_id, message, "cgroup", error.errno or 0, True)
    return None


def spawn_controlled(request: SpawnRequest, control: Control, streams: tuple[int, int, int], paths: list[str]) -> int:
    """The pid of a process that executes the first of `paths` that can be executed, else an OSError."""
    reading, writing = os.pipe()
    try:
        pid = os.fork()
        if pid == 0:
            _execute(request, control, streams, paths, writing)
    finally:
        os.close(writing)
        with open(reading, "rb") as pipe:  # ends when the command is executed, since the pipe is closed by that
            failure = pipe.read()
    if failure:
        os.waitpid(pid, 0)
        (number,) = NUMBER.unpack(failure)
        raise OSError(number, os.strerror(number), request.argv[0])
    return pid


def _execute(
    request: SpawnRequest, control: Control, streams: tuple[int, int, int], paths: list[str], failure: int
) -> NoReturn:
    """Runs in the child."""
    number = errno.EINVAL
    try:
        os.setsid()
        if control.cgroup:
            cgroups.join(control.cgroup)
        if control.nice is not None:
            _lower_priority(control.nice)
        for target, stream in enumerate(streams):
            os.dup2(stream, target)
        if request.window is not None:
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        for each in DEFAULT_SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        number = _execute_first(request, paths)
    except OSError as error:
        number = error.errno or number
    finally:
        os.write(failure, NUMBER.pack(number))
        os._exit(127)


def _lower_priority(nice: int) -> None:
    """Never raises it: the daemon may be niced itself."""
    os.setpriority(os.PRIO_PROCESS, 0, max(nice, os.getpriority(os.PRIO_PROCESS, 0)))
    number = IOPRIO_SET.get(os.uname().machine)
    if number is not None:
        level = IDLE if nice == LOWEST else BEST_EFFORT | (nice + 20) // 5
        ctypes.CDLL(None).syscall(number, THIS_PROCESS, 0, level)


def _execute_first(request: SpawnRequest, paths: list[str]) -> int:
    """Returns only if nothing could be executed, with the reason."""
    number = errno.ENOENT
    for path in paths:
        try:
            os.execve(path, request.argv, request.env)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError:
            number = errno.EACCES
    return number
