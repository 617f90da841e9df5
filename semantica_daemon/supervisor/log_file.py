"""One file of a run's log. A second file (`.streams`) records which stream each part came from: one record for each
change of stream. It exists only if there was output on stderr. `log` decides which files a log has.
"""

import os
from contextlib import suppress

from semantica_daemon.supervisor.messages import STREAM_RECORD, STREAMS_SUFFIX
from semantica_daemon.supervisor.workspace import open_regular

STDOUT, STDERR = 0, 1


class RunLogFile:
    """`start`: the offset of its first byte in the whole output; `size`: its bytes; `disk_size`: with the records."""

    _file = -1
    _streams = -1
    _stream = STDOUT

    def __init__(self, path: str, start: int) -> None:
        self.path = path
        self.start = start
        self.size = self.disk_size = 0

    def append(self, stream: int, data: bytes) -> None:
        """Raises OSError; `size` then includes the part that was written."""
        if not data:
            return
        if self._file < 0:
            self._file = _open(self.path)
        if stream != self._stream:
            self._change_stream(stream)
        while data:
            written = os.write(self._file, data)
            self.size += written
            self.disk_size += written
            data = data[written:]

    def close(self) -> bool:
        """False if the file was removed while it was written."""
        if self._file < 0:
            return True
        is_there = os.fstat(self._file).st_nlink > 0
        for handle in (self._file, self._streams):
            if handle >= 0:
                os.close(handle)
        self._file = self._streams = -1
        return is_there

    def remove(self) -> None:
        self.close()
        for path in (self.path, self.path + STREAMS_SUFFIX):
            with suppress(OSError):
                os.unlink(path)

    def _change_stream(self, stream: int) -> None:
        """Called before the data is written, so that no data is ever attributed to the wrong stream."""
        if self._streams < 0:
            self._streams = _open(self.path + STREAMS_SUFFIX)
        os.write(self._streams, STREAM_RECORD.pack(self.size * 2 + stream))
        self.disk_size += STREAM_RECORD.size
        self._stream = stream


def _open(path: str) -> int:
    """Makes the folder again if the job has removed it."""
    with suppress(OSError):
        os.mkdir(os.path.dirname(path), 0o700)
    return open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
