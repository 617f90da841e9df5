"""Starts a process with posix_spawn, which copies nothing of the supervisor. Directory, umask and limits have no
posix_spawn attribute: the supervisor, which has a single thread, changes its own for the moment if they differ."""

import errno
import os
from collections.abc import Iterable

from semantica_daemon.processes import cgroups
from semantica_daemon.supervisor.controlled_spawn import DEFAULT_SIGNALS, Control, make_cgroup, spawn_controlled
from semantica_daemon.supervisor.file_limit import FileLimit
from semantica_daemon.supervisor.messages import SpawnFailed, SpawnRequest

# A later try may succeed after these; any other error is the command's own fault.
RETRYABLE = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EINTR, errno.ETXTBSY, errno.ENOSPC}
DUP2 = os.POSIX_SPAWN_DUP2
NO_CONTROL = ("", None, None, None)
OWN_CWD = "/"
OWN_UMASK = 0o022


class SpawnError(Exception):
    """The process cannot be started; `report` is the message to the daemon."""

    def __init__(self, report: SpawnFailed) -> None:
        super().__init__(report.message)
        self.report = report


def spawn(request: SpawnRequest, streams: tuple[int, int, int], limit: FileLimit) -> int:
    """The pid. `streams` become its stdin, stdout and stderr."""
    stdin, stdout, stderr = streams
    actions = [(DUP2, stdin, 0), (DUP2, stdout, 1), (DUP2, stderr, 2)]
    other_umask, other_cwd = request.umask != OWN_UMASK, request.cwd != OWN_CWD
    other_limit = limit.must_change(max(streams))
    try:
        if other_limit:
            limit.lower()
        if other_umask:
            os.umask(request.umask)
        if other_cwd:
            _enter(request)
        if request.control is not None or request.window is not None:
            return _spawn_with_control(request, Control(*(request.control or NO_CONTROL)), streams)
        return _spawn_first(request, actions)
    finally:
        if other_cwd:
            os.chdir(OWN_CWD)
        if other_umask:
            os.umask(OWN_UMASK)
        if other_limit:
            limit.restore()


def _spawn_with_control(request: SpawnRequest, control: Control, streams: tuple[int, int, int]) -> int:
    if control.cgroup and (failed := make_cgroup(request, control)) is not None:
        cgroups.remove(control.cgroup)
        raise SpawnError(failed)
    try:
        return spawn_controlled(request, control, streams, list(_candidates(request)))
    except OSError:
        if control.cgroup:
            cgroups.remove(control.cgroup)
        raise


def _enter(request: SpawnRequest) -> None:
    try:
        os.chdir(request.cwd)
    except OSError as error:
        message = f"its cwd {request.cwd} cannot be used: {error.strerror}"
        number = error.errno or 0
        raise SpawnError(SpawnFailed(request.run_id, message, "cwd", number, number in RETRYABLE)) from error


def _spawn_first(request: SpawnRequest, actions: list[tuple[int, int, int]]) -> int:
    """Searches the job's own PATH as execvp does: the first file that exists and can be executed."""
    refused: OSError | None = None
    for path in _candidates(request):
        try:
            return os.posix_spawn(
                path, request.argv, request.env,
                file_actions=actions, setsid=True, setsigmask=(), setsigdef=DEFAULT_SIGNALS,
            )  # fmt: skip
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            refused = error
    raise refused or FileNotFoundError(errno.ENOENT, "not found", request.argv[0])


def _candidates(request: SpawnRequest) -> Iterable[str]:
    command = request.argv[0]
    if "/" in command:
        return (command,)
    folders = os.fsdecode(request.env.get(b"PATH", os.defpath)).split(":")
    return (path for folder in folders if os.path.lexists(path := f"{folder or '.'}/{command}"))


def explain(request: SpawnRequest, error: OSError | ValueError) -> SpawnError:
    """A sentence that names what could not be found or executed, and what to do."""
    number = getattr(error, "errno", None) or errno.EINVAL
    retryable = number in RETRYABLE
    message = str(error) if retryable else f"{request.argv[0]} {_reason(request, number)}"
    return SpawnError(SpawnFailed(request.run_id, message, "command", number, retryable))


def _reason(request: SpawnRequest, number: int) -> str:
    path = os.path.join(request.cwd, request.argv[0])
    if number == errno.ENOENT and "/" not in request.argv[0]:
        return "was not found on the job's PATH"
    if number == errno.ENOENT and os.path.exists(path):
        return "cannot be run: the interpreter that its #! line names does not exist"
    if os.path.isdir(path):
        return "is a directory, not a command"
    return REASONS.get(number, f"cannot be started: {os.strerror(number)}")


REASONS = {
    errno.ENOENT: "does not exist",
    errno.EACCES: "is not executable: chmod +x it, or name its interpreter",
    errno.ENOEXEC: "is no program: it has neither a #! line nor a format the system knows",
    errno.E2BIG: "cannot be started: its arguments and environment are longer than the system takes",
}
