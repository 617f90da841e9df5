"""Starting a process: by posix_spawn, which copies nothing. What that has no words for (directory, umask, limits) the
supervisor takes on itself for the moment; it has only one thread, and nobody else is in it."""

import errno
import os
import resource
import signal
from collections.abc import Iterator

from semantica_daemon.supervisor.order import NotStarted, Order

# What asking again can change; anything else is the command's own fault.
PASSING = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EINTR, errno.ETXTBSY, errno.ENOSPC}
DEFAULT_SIGNALS = (signal.SIGPIPE, signal.SIGXFSZ)  # Python ignores them, and that would be inherited
ROOM = 16  # descriptors that a spawn may need itself


def spawn(order: Order, ends: list[int], open_files: int) -> int:
    """The pid; `ends` are its stdin, stdout and stderr, `open_files` its soft limit of descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    fewer = max(ends) + ROOM < open_files < soft
    before = os.umask(order.umask)
    try:
        _enter(order.cwd)
        if fewer:
            resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, hard))
        return _spawn(order, [(os.POSIX_SPAWN_DUP2, end, number) for number, end in enumerate(ends)])
    finally:
        if fewer:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.umask(before)
        os.chdir("/")


def _enter(cwd: str) -> None:
    try:
        os.chdir(cwd)
    except OSError as error:
        message = f"its cwd {cwd} cannot be used: {error.strerror}"
        raise NotStarted(message, "cwd", error.errno or 0, error.errno in PASSING) from error


def _spawn(order: Order, actions: list[tuple[int, int, int]]) -> int:
    """As execvp does, with the job's own PATH: the first that is there and can be run."""
    refused: OSError = FileNotFoundError(errno.ENOENT, "not found", order.argv[0])
    for path in _candidates(order):
        try:
            return os.posix_spawn(
                path, order.argv, order.env, file_actions=actions, setsid=True, setsigdef=DEFAULT_SIGNALS
            )
        except (FileNotFoundError, NotADirectoryError):
            continue
        except PermissionError as error:
            refused = error
    raise refused


def _candidates(order: Order) -> Iterator[str]:
    command = order.argv[0]
    if "/" in command:
        yield command
        return
    for folder in order.env.get("PATH", os.defpath).split(":"):
        path = f"{folder or '.'}/{command}"
        if os.path.lexists(path):
            yield path


def reason(order: Order, error: OSError | ValueError) -> NotStarted:
    """In plain words: what could not be found or run, and what to do."""
    number = getattr(error, "errno", None) or errno.EINVAL
    if number in PASSING:
        return NotStarted(str(error), "command", number, True)
    return NotStarted(f"{order.argv[0]} {_why(order, number)}", "command", number, False)


def _why(order: Order, number: int) -> str:
    found = os.path.join(order.cwd, order.argv[0])
    if number == errno.ENOENT and "/" not in order.argv[0]:
        return "was not found on the job's PATH"
    if number == errno.ENOENT and os.path.exists(found):
        return "cannot be run: the interpreter that its #! line names does not exist"
    if os.path.isdir(found):
        return "is a directory, not a command"
    return REASONS.get(number, f"cannot be started: {os.strerror(number)}")


REASONS = {
    errno.ENOENT: "does not exist",
    errno.EACCES: "is not executable: chmod +x it, or name its interpreter",
    errno.ENOEXEC: "is no program: it has neither a #! line nor a format the system knows",
    errno.E2BIG: "cannot be started: its arguments and environment are longer than the system takes",
}
