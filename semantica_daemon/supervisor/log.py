"""Writes the log of a run: stdout and stderr in one file in order of arrival, up to a limit.

A second file (`.streams`) records which stream each part came from; it exists only if there was output on stderr: one
record for each change of stream. `engine/output` reads both files.
"""

import os
from contextlib import suppress

from semantica_daemon.supervisor.messages import STREAM_RECORD, STREAMS_SUFFIX, TRUNCATION_NOTICE
from semantica_daemon.supervisor.workspace import open_regular

STDOUT, STDERR = 0, 1


class Log:
    """Never raises: a full disk must not end a run. Bytes that cannot be written are counted in `dropped`; `error` has
    the reason."""

    size = 0
    dropped = 0
    error = ""
    is_full = False
    _file = -1
    _streams = -1
    _stream = STDOUT

    def __init__(self, path: str, limit: int) -> None:
        self.path = path
        self._limit = limit
        self._room = limit

    def write(self, stream: int, data: bytes) -> None:
        if len(data) <= self._room:
            self._room -= len(data)
            self._append(stream, data)
            return
        kept, self._room = data[: self._room], 0
        self.dropped += len(data) - len(kept)
        self._append(stream, kept)
        if not self.is_full:
            self.is_full = True
            self._append(STDERR, TRUNCATION_NOTICE.format(self._limit).encode())

    def note(self, sentence: str) -> None:
        """Writes a line of the supervisor's own, even beyond the limit."""
        self._append(STDERR, f"[semantica: {sentence}]\n".encode())

    def close(self) -> None:
        if self._file < 0:
            return
        if os.fstat(self._file).st_nlink == 0:
            self.error = f"{self.path} was removed while it was written"
        for handle in (self._file, self._streams):
            if handle >= 0:
                os.close(handle)

    def _append(self, stream: int, data: bytes) -> None:
        if not data:
            return
        try:
            if self._file < 0:
                self._file = _open(self.path)
            if stream != self._stream:
                self._change_stream(stream)
            while data:
                written = os.write(self._file, data)
                self.size += written
                data = data[written:]
        except OSError as error:
            self.error = f"{self.path} cannot be written: {error.strerror}"
            self.dropped += len(data)

    def _change_stream(self, stream: int) -> None:
        """Called before the data is written, so that no data is ever attributed to the wrong stream."""
        if self._streams < 0:
            self._streams = _open(self.path + STREAMS_SUFFIX)
        os.write(self._streams, STREAM_RECORD.pack(self.size * 2 + stream))
        self._room = max(0, self._room - STREAM_RECORD.size)
        self._stream = stream


def _open(path: str) -> int:
    """Makes the folder again if the job has removed it."""
    with suppress(OSError):
        os.mkdir(os.path.dirname(path), 0o700)
    return open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
