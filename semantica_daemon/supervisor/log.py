"""Writes the log of a run: stdout and stderr in order of arrival, up to a limit: half for the beginning of the output,
half for its end, because errors stand at the end.

`FILE` has the beginning. The rest goes to files in the folder `FILE.tail`, each named by the offset of its first byte
in the whole output; the oldest are removed when the end grows beyond its half. So nothing has to be done when the run
ends, and a log that a crash has left is as readable as any other. `engine/log_parts` reads it.
"""

from semantica_daemon.supervisor.log_file import STDERR, STDOUT, RunLogFile
from semantica_daemon.supervisor.messages import TAIL_SUFFIX

__all__ = ["STDERR", "STDOUT", "Log"]

TAIL_FILES = 8
SMALLEST_TAIL_FILE = 4096
MOST_UNREAD = 1_000_000  # bytes beyond the limit that are kept for a reader


class Log:
    """Never raises: a full disk must not end a run. `size`: the bytes of the whole output that were written; `dropped`:
    those that are not in the log, because they could not be written or were removed; `error`: why they could not.
    Most commands write nothing, so everything else is made with the first output."""

    size = 0
    dropped = 0
    error = ""
    unread_from: int | None = None
    _head: RunLogFile | None = None
    _newest: RunLogFile
    _tail_size = 0

    def __init__(self, path: str, limit: int) -> None:
        self.path = path
        self._limit = limit

    @property
    def must_wait(self) -> bool:
        """Whether more output would have to replace output that a reader has not read yet."""
        return self._tail_size > self._tail_limit + MOST_UNREAD if self._head else False

    def keep_unread(self, offset: int | None) -> None:
        """Output from `offset` on is not removed; None: any may be."""
        self.unread_from = offset
        if self._head:
            self._remove_oldest()

    def write(self, stream: int, data: bytes) -> None:
        """Records of stream changes count towards the limit: else a run that changes streams with every byte would fill
        the disk beside its log."""
        if self._head is None:
            self._head = self._begin()
        if self._newest is self._head:
            room = max(0, self._head_limit - self._head.disk_size)
            self._append(stream, data[:room])
            data = data[room:]
        while data:
            data = self._write_tail(stream, data)

    def note(self, sentence: str) -> None:
        """Writes a line of the supervisor's own."""
        self.write(STDERR, f"[semantica: {sentence}]\n".encode())

    def close(self) -> None:
        for file in (self._head, *self._tail) if self._head else ():
            if not file.close():
                self.error = f"{file.path} was removed while it was written"

    def _begin(self) -> RunLogFile:
        self._newest = RunLogFile(self.path, 0)
        self._head_limit = self._limit // 2
        self._tail: list[RunLogFile] = []
        self._tail_limit = self._limit - self._head_limit
        self._file_size = max(SMALLEST_TAIL_FILE, self._tail_limit // TAIL_FILES)
        return self._newest

    def _write_tail(self, stream: int, data: bytes) -> bytes:
        """Writes to the newest file and returns the rest, which does not fit into it."""
        if not self._tail or self._newest.disk_size >= self._file_size:
            self._begin_file()
        before = self._newest.disk_size
        room = self._file_size - before
        self._append(stream, data[:room])
        self._tail_size += self._newest.disk_size - before
        self._remove_oldest()
        return data[room:]

    def _begin_file(self) -> None:
        if self._tail:
            self._newest.close()
        self._newest = RunLogFile(f"{self.path}{TAIL_SUFFIX}/{self.size:016}", self.size)
        self._tail.append(self._newest)

    def _remove_oldest(self) -> None:
        while self._tail_size > self._tail_limit:
            oldest = self._tail[0]
            if self.unread_from is not None and self.unread_from < oldest.start + oldest.size:
                return
            self._tail.pop(0)
            oldest.remove()
            self._tail_size -= oldest.disk_size
            self.dropped += oldest.size

    def _append(self, stream: int, data: bytes) -> None:
        """Appends to the newest file."""
        before = self.size
        try:
            self._newest.append(stream, data)
        except OSError as error:
            self.error = f"{self._newest.path} cannot be written: {error.strerror}"
        self.size = self._newest.start + self._newest.size
        self.dropped += len(data) - (self.size - before)
