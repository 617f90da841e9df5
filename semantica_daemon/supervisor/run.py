"""One run as the supervisor holds it: its main process, the pipes its output comes through, and its log."""

import fcntl
import os
import struct
import termios

from semantica_daemon.supervisor import processes
from semantica_daemon.supervisor.log import STDERR, STDOUT, Log
from semantica_daemon.supervisor.order import NotStarted, Order
from semantica_daemon.supervisor.spawn import reason, spawn

CHUNK = 65_536


class Run:
    def __init__(self, order: Order, number: int, open_files: int) -> None:
        """Raises NotStarted, and then nothing is left of it."""
        self.order = order
        self.number = number
        self.log = Log(order.log, order.log_bytes)
        self.status: int | None = None
        self.ending = 0  # the signal that its processes are being sent
        self.signalled: set[tuple[int, int]] = set()
        self.watch: int | None = None
        self.pipes: dict[int, int] = {}
        ends: list[int] = []
        try:
            ends.append(_stdin(order.stdin))
            for stream in (STDOUT, STDERR):
                ends.append(self._pipe(stream))
            before = processes.since_boot()
            self.pid = spawn(order, ends, open_files)
            self.started_at = processes.started_since(self.pid, before)
        except (NotStarted, OSError, ValueError) as error:
            for pipe in self.pipes:
                os.close(pipe)
            if isinstance(error, NotStarted):
                raise
            raise reason(order, error) from error
        finally:
            for end in ends:
                os.close(end)

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

    def how_it_ended(self) -> dict[str, int]:
        status = self.status or 0
        return {"signal": os.WTERMSIG(status)} if os.WIFSIGNALED(status) else {"code": os.WEXITSTATUS(status)}

    def _pipe(self, stream: int) -> int:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        self.pipes[reading] = stream
        return writing


def _stdin(text: str | None) -> int:
    """As a file: whoever does not read it to the end disturbs nobody."""
    if text is None:
        return os.open(os.devnull, os.O_RDONLY)
    handle = os.memfd_create("stdin") if hasattr(os, "memfd_create") else _unnamed_file()
    left = memoryview(text.encode("utf-8", "surrogateescape"))
    while left:
        left = left[os.write(handle, left) :]
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


def _unnamed_file() -> int:
    path = os.path.join(os.environ.get("TMPDIR", "/tmp"), f"semantica-stdin-{os.getpid()}")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    os.unlink(path)
    return handle


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
        _null.append(os.open(os.devnull, os.O_WRONLY))
    return _null[0]
