"""What a run writes, in one file as it comes, up to a limit; and in a second one which stream each piece came from.

The second (`.streams`) is there only when there was something on stderr: eight bytes for each change of stream, the
offset from which on it holds times two, plus one for stderr. `engine/output` reads both.
"""

import errno
import os
import stat
import struct
from contextlib import suppress

STDOUT, STDERR = 0, 1
SUFFIX = ".streams"
MARK = "\n[semantica: the log has reached its limit of {} bytes; what follows is dropped]\n"
_record = struct.Struct("<Q")


class Log:
    """Nothing here raises: a full disk must not end a run, so what cannot be written is counted as dropped."""

    def __init__(self, path: str, limit: int) -> None:
        self.path = path
        self.size = 0
        self.dropped = 0
        self.trouble = ""
        self._limit = limit
        self._room = limit
        self._file = -1
        self._streams = -1
        self._stream = STDOUT
        self._marked = False

    def write(self, stream: int, piece: bytes) -> None:
        if len(piece) > self._room:
            kept, self._room = piece[: self._room], 0
            self.dropped += len(piece) - len(kept)
            self._append(stream, kept)
            if not self._marked:
                self._marked = True
                self._append(STDERR, MARK.format(self._limit).encode())
        else:
            self._room -= len(piece)
            self._append(stream, piece)

    @property
    def full(self) -> bool:
        return self._marked

    def drop(self, size: int) -> None:
        self.dropped += size

    def say(self, sentence: str) -> None:
        """A word of our own, whatever the limit."""
        self._append(STDERR, f"[semantica: {sentence}]\n".encode())

    def close(self) -> None:
        if self._file >= 0 and os.fstat(self._file).st_nlink == 0:
            self.trouble = f"{self.path} was removed while it was written"
        for handle in (self._file, self._streams):
            if handle >= 0:
                os.close(handle)

    def _append(self, stream: int, piece: bytes) -> None:
        if not piece:
            return
        try:
            if self._file < 0:
                self._file = _open(self.path)
            if stream != self._stream:
                self._change(stream)
            while piece:
                written = os.write(self._file, piece)
                self.size += written
                piece = piece[written:]
        except OSError as error:
            self.trouble = f"{self.path} cannot be written: {error.strerror}"
            self.dropped += len(piece)

    def _change(self, stream: int) -> None:
        """Written before what it tells of, so that a piece is never taken for the other stream's."""
        if self._streams < 0:
            self._streams = _open(self.path + SUFFIX)
        os.write(self._streams, _record.pack(self.size * 2 + stream))
        self._room = max(0, self._room - _record.size)
        self._stream = stream


def _open(path: str) -> int:
    """The job may have put anything there: a pipe must not block us, nor a link lead us elsewhere."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK
    with suppress(OSError):
        os.mkdir(os.path.dirname(path), 0o700)  # or have removed it all
    handle = os.open(path, flags, 0o600)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file")
    return handle
