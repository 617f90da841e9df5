"""Starts a process that has to be prepared by itself before it executes its command: it joins the cgroup of its run.

posix_spawn (`spawn`) has no step for that, so the supervisor, which has a single thread, forks.
"""

import errno
import os
import signal
import struct
from typing import NamedTuple, NoReturn

from semantica_daemon.supervisor.messages import SpawnFailed, SpawnRequest

NUMBER = struct.Struct("i")
DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them, and a child would inherit that


class Control(NamedTuple):
    """The field `control` of a SpawnRequest: the path of the cgroup that the run gets."""

    cgroup: str


def make_cgroup(request: SpawnRequest, control: Control) -> SpawnFailed | None:
    """Makes the cgroup of the run; returns the reason if that fails."""
    try:
        os.mkdir(control.cgroup)
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
        _join(control)
        for target, stream in enumerate(streams):
            os.dup2(stream, target)
        for each in DEFAULT_SIGNALS:
            signal.signal(each, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        number = _execute_first(request, paths)
    except OSError as error:
        number = error.errno or number
    finally:
        os.write(failure, NUMBER.pack(number))
        os._exit(127)


def _join(control: Control) -> None:
    with open(f"{control.cgroup}/cgroup.procs", "w") as members:
        members.write("0")


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
