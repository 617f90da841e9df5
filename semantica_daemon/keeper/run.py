"""One run as the keeper holds it: its main process, the pipes its output comes through, and its log."""

import errno
import fcntl
import os
import resource
import struct
import subprocess
import termios
from contextlib import suppress
from typing import Any, NamedTuple

from semantica_daemon.keeper import processes
from semantica_daemon.keeper.log import STDERR, STDOUT, Log

CHUNK = 65_536
# What asking again can change; anything else is the command's own fault.
PASSING = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EINTR, errno.ETXTBSY, errno.ENOSPC}


class Order(NamedTuple):
    """What the daemon asks for; `workspace` is the folder of the job, made here."""

    run: str
    argv: list[str]
    cwd: str
    env: dict[str, str]
    umask: int
    stdin: str | None
    workspace: str
    output: str
    result: str
    log: str
    log_bytes: int
    leftovers: str


class NotStarted(Exception):
    """`again`: asking later may help."""

    def __init__(self, message: str, number: int, again: bool) -> None:
        super().__init__(message)
        self.message = message
        self.number = number
        self.again = again


class Run:
    def __init__(self, order: Order, open_files: int) -> None:
        """Raises NotStarted, and then nothing is left of it."""
        self.order = order
        self.log = Log(order.log, order.log_bytes)
        self.status: int | None = None
        self.ending = 0  # the signal that its processes are being sent
        self.watch: int | None = None
        self.pipes: dict[int, int] = {}
        ends: list[int] = []
        try:
            os.makedirs(order.output, 0o700, exist_ok=True)
            ends.append(_stdin(order.stdin))
            for stream in (STDOUT, STDERR):
                ends.append(self._pipe(stream))
            self.pid = _spawn(order, ends, open_files)
        except (OSError, ValueError) as error:
            for pipe in self.pipes:
                os.close(pipe)
            self.tidy()
            raise _reason(order, error) from error
        finally:
            for end in ends:
                os.close(end)
        found = processes.look(self.pid)
        self.started_at = found.started_at if found else 0

    def pump(self, pipe: int) -> bool:
        """One piece of what has come; False when there will be no more."""
        stream = self.pipes[pipe]
        try:
            if self.log.full and _throw_away(pipe, self.log):
                return True
            piece = os.read(pipe, CHUNK)
        except BlockingIOError:
            return True
        if piece:
            self.log.write(stream, piece)
        return bool(piece)

    def drain(self) -> None:
        """What its processes have written by now, and no more: one that is left may go on for ever."""
        for pipe in self.pipes:
            waiting = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0\0\0\0"))[0]
            while waiting > 0:
                before = self.log.size + self.log.dropped
                if not self.pump(pipe):
                    break
                waiting -= max(1, self.log.size + self.log.dropped - before)

    def over(self) -> dict[str, Any]:
        """How it ended, once nothing of it is left."""
        status = self.status or 0
        told = {"op": "over", "run": self.order.run, "dropped": self.log.dropped, "trouble": self.log.trouble}
        told |= {"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else {"code": os.WEXITSTATUS(status)}
        told["result"] = os.path.lexists(self.order.result)
        self.log.close()
        self.tidy()
        return told

    def tidy(self) -> None:
        """A run that wrote nothing leaves nothing."""
        for folder in (self.order.output, self.order.workspace):
            with suppress(OSError):
                os.rmdir(folder)

    def _pipe(self, stream: int) -> int:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        self.pipes[reading] = stream
        return writing


def _stdin(text: str | None) -> int:
    """As a file: whoever does not read it to the end disturbs nobody."""
    if text is None:
        return os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    handle = os.memfd_create("stdin") if hasattr(os, "memfd_create") else _unnamed_file()
    left = memoryview(text.encode("utf-8", "surrogateescape"))
    while left:
        left = left[os.write(handle, left) :]
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _unnamed_file() -> int:
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"semantica-stdin-{os.getpid()}")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    os.unlink(path)
    return handle


def _spawn(order: Order, ends: list[int], open_files: int) -> int:
    """Popen does vfork; it is never waited for, because whoever reaps all children reaps this one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if max(ends) + 16 < open_files < soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (open_files, hard))
    try:
        started = subprocess.Popen(
            order.argv, cwd=order.cwd, env=order.env, umask=order.umask, start_new_session=True,
            stdin=ends[0], stdout=ends[1], stderr=ends[2],
        )  # fmt: skip
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    started.returncode = 0
    return started.pid


def _throw_away(pipe: int, log: Log) -> bool:
    """Without copying it, where that can be done; False when there is nothing, and read says whether there will be."""
    if not hasattr(os, "splice"):
        return False
    size = os.splice(pipe, _nowhere(), 1 << 20)
    log.drop(size)
    return size > 0


_null: list[int] = []


def _nowhere() -> int:
    if not _null:
        _null.append(os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC))
    return _null[0]


def _reason(order: Order, error: OSError | ValueError) -> NotStarted:
    """In plain words: what could not be found or run, and what to do."""
    number = getattr(error, "errno", None) or errno.EINVAL
    if getattr(error, "filename", None) == order.cwd or not os.path.isdir(order.cwd):
        return NotStarted(f"its cwd {order.cwd} cannot be used: {os.strerror(number)}", number, number in PASSING)
    if number in PASSING:
        return NotStarted(str(error), number, True)
    found = os.path.join(order.cwd, order.argv[0])
    return NotStarted(f"{order.argv[0]} {_why(order, found, number)}", number, False)


def _why(order: Order, found: str, number: int) -> str:
    if number == errno.ENOENT and "/" not in order.argv[0]:
        return f"was not found on the job's PATH ({order.env.get('PATH', os.defpath)})"
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
