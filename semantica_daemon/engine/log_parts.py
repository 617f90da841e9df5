"""Reads a part of a run's log from its files: the beginning of the output, and the newest files of its end.

An offset counts the bytes of the whole output, whether they were kept or not. `supervisor/log` writes the files.
"""

import os
from bisect import bisect_right
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from semantica_daemon.supervisor.messages import STREAM_RECORD, STREAMS_SUFFIX, TAIL_SUFFIX
from semantica_daemon.supervisor.workspace import open_regular

STREAMS = ("stdout", "stderr")
MAX_PIECES = 10_000
READ_ATTEMPTS = 10

Piece = tuple[str, int]


class Part(NamedTuple):
    """`end`: the offset after the data; `size`: that of the whole output; `gap`: how many bytes are missing after the
    data; `is_cut`: whether bytes are missing anywhere."""

    end: int
    data: bytes = b""
    streams: Sequence[Piece] = ()
    size: int = 0
    gap: int = 0
    is_cut: bool = False


class LoggedFile(NamedTuple):
    """A file of the log, and the offsets of the output that it holds: `start` up to and without `end`."""

    path: str
    start: int
    end: int


def read(path: str, offset: int, limit: int) -> Part:
    """Raises OSError if there is no log. A file that the supervisor removes meanwhile is missing at the next try."""
    for attempt in range(READ_ATTEMPTS):
        try:
            return _read(_files(path), offset, limit)
        except FileNotFoundError:
            if attempt == READ_ATTEMPTS - 1 or not os.path.exists(path + TAIL_SUFFIX):
                raise
    raise AssertionError


def _read(files: list[LoggedFile], offset: int, limit: int) -> Part:
    data, streams, end = b"", list[Piece](), offset
    for file in files:
        if file.start <= end < file.end and len(data) < limit:
            found = _bytes_of(file, end, limit - len(data))
            pieces = _pieces(file, end, len(found))
            found = found[: sum(length for _, length in pieces)]
            data, streams, end = data + found, streams + pieces, end + len(found)
    following = next((file.start for file in files if file.end > end), end)
    starts = [file.start for file in files]
    is_cut = starts[0] > 0 or any(file.end < start for file, start in zip(files, starts[1:], strict=False))
    return Part(end, data, streams, files[-1].end, max(0, following - end), is_cut)


def _files(path: str) -> list[LoggedFile]:
    """The files of the log in order, with the offsets that they hold."""
    names: list[str] = []
    with suppress(FileNotFoundError):
        names = sorted(name for name in os.listdir(path + TAIL_SUFFIX) if name.isdecimal())
    tail = [(f"{path}{TAIL_SUFFIX}/{name}", int(name)) for name in names]
    head = [(path, 0)] if os.path.exists(path) or not tail else []  # a log with a tiny limit has no beginning
    return [LoggedFile(where, start, start + os.stat(where).st_size) for where, start in head + tail]


def _bytes_of(file: LoggedFile, offset: int, limit: int) -> bytes:
    with open(file.path, "rb", buffering=0, opener=open_regular) as opened:
        return os.pread(opened.fileno(), min(limit, file.end - offset), offset - file.start)


def _pieces(file: LoggedFile, offset: int, length: int) -> list[Piece]:
    """The streams that `length` bytes from `offset` on came from; without a `.streams` file all came from stdout.
    Returns at most MAX_PIECES; the next read returns the rest."""
    records, start_offset = b"", offset - file.start
    with suppress(OSError), open(file.path + STREAMS_SUFFIX, "rb", buffering=0, opener=open_regular) as opened:
        handle = opened.fileno()
        count = os.fstat(handle).st_size // STREAM_RECORD.size
        first = max(0, bisect_right(range(count), start_offset, key=lambda number: _start_of(handle, number)) - 1)
        records = os.pread(handle, (MAX_PIECES + 1) * STREAM_RECORD.size, first * STREAM_RECORD.size)
    pieces: list[Piece] = []
    here, end, stream = start_offset, start_offset + length, 0
    complete = len(records) // STREAM_RECORD.size * STREAM_RECORD.size  # the last one may be in the middle of a write
    changes = [divmod(number, 2) for (number,) in STREAM_RECORD.iter_unpack(records[:complete])]
    for start, following in [*changes, (end, 0)]:
        if min(start, end) > here:
            pieces.append((STREAMS[stream], min(start, end) - here))
        here, stream = max(here, min(start, end)), following
        if start >= end:
            break
    return pieces[:MAX_PIECES]


def _start_of(handle: int, number: int) -> int:
    """The offset in the file from which the record with this number holds."""
    record: int = STREAM_RECORD.unpack(os.pread(handle, STREAM_RECORD.size, number * STREAM_RECORD.size))[0]
    return record // 2
