"""Reads the log of a run by byte offset, and waits for it to grow. `supervisor/log` writes it."""

import asyncio
import os
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
from semantica_daemon.supervisor.workspace import open_regular
from semantica_daemon.wire.job import LogChunk, LogsParams

STREAMS = ("stdout", "stderr")
LONGEST_UTF8 = 4
MAX_PIECES = 10_000
TAIL = 2048
CUT_MARK = TRUNCATION_NOTICE.partition("{}")[0].strip().encode()

Piece = tuple[str, int]


class Output:
    def __init__(self, readers: Readers, feed: Feed, watch: Callable[[str, int], None], log_root: str) -> None:
        """`log_root`: see SpawnSettings."""
        self._log_root = log_root
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
                chunk, seen = await asyncio.to_thread(_read, run, params, self._log_root)
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


def _read(run: LoggedRun, params: LogsParams, log_root: str) -> tuple[LogChunk, int]:
    """Runs in a thread. Returns the chunk and the size of the log; a run without output has no log file."""
    whole_job = params.run is None and params.run_id is None
    ended = run.state in TERMINAL if whole_job else run.status != "RUNNING"
    data, size, cut = b"", params.offset, False
    streams: list[Piece] = []
    with suppress(OSError):
        if run.log_path is not None:
            path = os.path.join(log_root, run.log_path)
            data, size, streams, cut = _part(path, params.offset, max(params.limit, LONGEST_UTF8))
    text, encoding, used = _whole(data, ended and params.offset + len(data) >= size)
    chunk = LogChunk(
        text, encoding, params.offset + used, ended and params.offset + used >= size, _first(streams, used), cut,
        run.attempt, run.run_id, run.state, run.exit_code, run.error,
    )  # fmt: skip
    return chunk, size


def _part(path: str, offset: int, limit: int) -> tuple[bytes, int, list[Piece], bool]:
    with open(path, "rb", buffering=0, opener=open_regular) as file:
        size = os.fstat(file.fileno()).st_size
        data = os.pread(file.fileno(), limit, offset)
        cut = CUT_MARK in os.pread(file.fileno(), TAIL, max(0, size - TAIL))
    streams = _pieces(path, offset, len(data))
    return data[: sum(length for _, length in streams)], size, streams, cut


def _pieces(path: str, offset: int, length: int) -> list[Piece]:
    """The streams that `length` bytes from `offset` on came from; without a `.streams` file all came from stdout.
    Returns at most MAX_PIECES; the next read returns the rest."""
    read = b""
    with suppress(OSError), open(path + STREAMS_SUFFIX, "rb", buffering=0, opener=open_regular) as file:
        handle = file.fileno()
        count = os.fstat(handle).st_size // STREAM_RECORD.size
        first = max(0, bisect_right(range(count), offset, key=lambda number: _start_of(handle, number)) - 1)
        read = os.pread(handle, (MAX_PIECES + 1) * STREAM_RECORD.size, first * STREAM_RECORD.size)
    pieces: list[Piece] = []
    here, end, stream = offset, offset + length, 0
    changes = [divmod(number, 2) for (number,) in STREAM_RECORD.iter_unpack(read[: len(read) // 8 * 8])]
    for start, following in [*changes, (end, 0)]:
        if min(start, end) > here:
            pieces.append((STREAMS[stream], min(start, end) - here))
        here, stream = max(here, min(start, end)), following
        if start >= end:
            break
    return pieces[:MAX_PIECES]


def _start_of(handle: int, number: int) -> int:
    """The offset from which the record with this number holds."""
    record: int = STREAM_RECORD.unpack(os.pread(handle, STREAM_RECORD.size, number * STREAM_RECORD.size))[0]
    return record // 2


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
