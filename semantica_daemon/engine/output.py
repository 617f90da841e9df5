"""Reads the log of a run by byte offset, and waits for it to grow. `supervisor/log` writes it."""

import asyncio
import errno
import os
import stat
from base64 import b64encode
from bisect import bisect_right
from collections.abc import Callable
from contextlib import suppress

import msgspec

from semantica_daemon.engine.feed import Feed
from semantica_daemon.engine.readers import Readers
from semantica_daemon.model.state import TERMINAL
from semantica_daemon.store import reads
from semantica_daemon.store.reads import LoggedRun
from semantica_daemon.supervisor.messages import STREAM_RECORD, STREAMS_SUFFIX, TRUNCATION_NOTICE
from semantica_daemon.wire.job import LogChunk, LogsParams

STREAMS = ("stdout", "stderr")
LONGEST_UTF8 = 4
MAX_PIECES = 10_000
TAIL = 2048
CUT_MARK = TRUNCATION_NOTICE.partition("{}")[0].strip().encode()

Piece = tuple[str, int]


class Output:
    def __init__(self, readers: Readers, feed: Feed, watch: Callable[[str, int], None]) -> None:
        self._readers = readers
        self._feed = feed
        self._watch = watch

    async def read(self, params: LogsParams) -> LogChunk:
        loop = asyncio.get_running_loop()
        until = loop.time() + params.timeout_ms / 1000
        job_id, _ = await self._readers.query(reads.state, params.job_id)
        with self._feed.watching(("job", job_id)) as wake:
            while True:
                wake.clear()
                run = await self._readers.query(reads.logged_run, job_id, params.run, params.run_id)
                chunk, seen = await asyncio.to_thread(_read, run, params)
                if chunk.eof and await self._readers.query(reads.log_is_cut, job_id, run.run_id):
                    chunk = msgspec.structs.replace(chunk, truncated=True)
                left = until - loop.time()
                if chunk.chunk or chunk.eof or left <= 0:
                    return chunk
                if run.status == "RUNNING" and run.run_id is not None:
                    self._watch(run.run_id, max(seen, params.offset))
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await wake.wait()


def _read(run: LoggedRun, params: LogsParams) -> tuple[LogChunk, int]:
    """Runs in a thread. Returns the chunk and the size of the log; a run without output has no log file."""
    whole_job = params.run is None and params.run_id is None
    ended = run.state in TERMINAL if whole_job else run.status != "RUNNING"
    data, size, cut = b"", params.offset, False
    streams: list[Piece] = []
    with suppress(OSError):
        if run.log_path is not None:
            data, size, streams, cut = _part(run.log_path, params.offset, max(params.limit, LONGEST_UTF8))
    text, encoding, used = _whole(data, ended and params.offset + len(data) >= size)
    chunk = LogChunk(
        text, encoding, params.offset + used, ended and params.offset + used >= size, _first(streams, used), cut,
        run.attempt, run.run_id, run.state, run.exit_code, run.error,
    )  # fmt: skip
    return chunk, size


def _part(path: str, offset: int, limit: int) -> tuple[bytes, int, list[Piece], bool]:
    handle = _open(path)
    try:
        size = os.fstat(handle).st_size
        data = os.pread(handle, limit, offset)
        cut = CUT_MARK in os.pread(handle, TAIL, max(0, size - TAIL))
    finally:
        os.close(handle)
    streams = _pieces(path, offset, len(data))
    return data[: sum(length for _, length in streams)], size, streams, cut


def _open(path: str) -> int:
    """Opens the log if it is a regular file: the job may have replaced it by anything."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no regular file")
    return handle


def _pieces(path: str, offset: int, length: int) -> list[Piece]:
    """The streams that `length` bytes from `offset` on came from; without a `.streams` file all came from stdout.
    Returns at most MAX_PIECES; the next read returns the rest."""
    try:
        handle = _open(path + STREAMS_SUFFIX)
    except OSError:
        return [(STREAMS[0], length)] if length else []
    try:
        count = os.fstat(handle).st_size // STREAM_RECORD.size
        first = bisect_right(range(count), offset, key=lambda number: _at(handle, number)[0])
        read = os.pread(handle, MAX_PIECES * STREAM_RECORD.size, first * STREAM_RECORD.size)
        stream = 0 if first == 0 else _at(handle, first - 1)[1]
    finally:
        os.close(handle)
    pieces: list[Piece] = []
    here, end = offset, offset + length
    changes = [divmod(number, 2) for (number,) in STREAM_RECORD.iter_unpack(read[: len(read) // 8 * 8])]
    for start, following in [*changes, (end, 0)]:
        if min(start, end) > here:
            pieces.append((STREAMS[stream], min(start, end) - here))
        here, stream = max(here, min(start, end)), following
        if start >= end:
            break
    return pieces[:MAX_PIECES]


def _at(handle: int, number: int) -> tuple[int, int]:
    """(offset, stream)"""
    found: int = STREAM_RECORD.unpack(os.pread(handle, STREAM_RECORD.size, number * STREAM_RECORD.size))[0]
    return divmod(found, 2)


def _whole(data: bytes, last: bool) -> tuple[str, str, int]:
    """Text up to the last complete character, its encoding, and its length in bytes; base64 if it is no UTF-8. `last`:
    no bytes will follow that could complete a character."""
    try:
        return data.decode(), "utf-8", len(data)
    except UnicodeDecodeError as error:
        begun = error.reason == "unexpected end of data"
        if begun and (error.start or not last):
            return data[: error.start].decode(), "utf-8", error.start
        return b64encode(data).decode(), "base64", len(data)


def _first(streams: list[Piece], used: int) -> list[Piece]:
    found: list[Piece] = []
    for name, length in streams:
        if used > 0:
            found.append((name, min(length, used)))
        used -= length
    return found
