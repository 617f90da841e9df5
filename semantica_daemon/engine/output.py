"""job.logs: reads the output of a run by byte offset, and waits for more. `log_parts` reads the files of the log."""

import asyncio
import os
from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress

import msgspec

from semantica_daemon.engine import log_parts
from semantica_daemon.engine.feed import Feed
from semantica_daemon.engine.log_parts import Piece
from semantica_daemon.engine.readers import Readers
from semantica_daemon.engine.subprocess_run import SubprocessRun
from semantica_daemon.errors import Archived
from semantica_daemon.model.state import TERMINAL
from semantica_daemon.store import reads
from semantica_daemon.store.reads import LoggedRun
from semantica_daemon.supervisor.messages import NO_READER
from semantica_daemon.wire.job import LogChunk, LogsParams

LONGEST_UTF8 = 4
WHOLE_ID = 36  # characters
MISSING_NOTICE = "\n[semantica: {} bytes of output are missing here]\n"


class Output:
    def __init__(
        self, readers: Readers, feed: Feed, find_command: Callable[[str], SubprocessRun | None], log_root: str
    ) -> None:
        """`find_command`: the run of a command, by its id, while it has not ended; `log_root`: see SpawnSettings."""
        self._log_root = log_root
        self._readers = readers
        self._feed = feed
        self._find_command = find_command

    async def read(self, params: LogsParams, reader: int) -> LogChunk:
        """`reader`: the number of a connection."""
        loop = asyncio.get_running_loop()
        until = loop.time() + params.timeout_ms / 1000
        job_id = params.job_id
        if len(job_id) < WHOLE_ID or not job_id.islower():
            job_id, _ = await self._readers.query(reads.state, job_id)
        with self._feed.watching(("job", job_id)) as wake:
            while True:
                wake.clear()
                run = await self._readers.query(reads.logged_run, job_id, params.run, params.run_id)
                if run.archived_at is not None:
                    raise Archived(
                        f"job {job_id} is archived: its output is deleted", "job.get shows how it ended", job_id=job_id
                    )
                command = self._find_command(run.run_id) if run.run_id is not None else None
                followed = command if params.follow else None
                if followed is not None:
                    followed.note_reader(reader, params.offset)
                chunk, seen = await self._chunk(job_id, run, params)
                left = until - loop.time()
                if chunk.chunk or chunk.eof or left <= 0:
                    return chunk
                if command is not None:
                    command.watch_log(max(seen, params.offset))
                await _wait(wake, left, followed, reader)

    async def _chunk(self, job_id: str, run: LoggedRun, params: LogsParams) -> tuple[LogChunk, int]:
        chunk, seen = await asyncio.to_thread(_read, run, params, self._log_root)
        is_cut = run.is_cut
        if chunk.eof and is_cut is None:
            is_cut = await self._readers.query(reads.log_is_cut, job_id, run.run_id)
        if chunk.eof and is_cut:
            chunk = msgspec.structs.replace(chunk, truncated=True)
        return chunk, seen


async def _wait(wake: asyncio.Event, seconds: float, followed: SubprocessRun | None, reader: int) -> None:
    """A caller that goes away meanwhile is no reader any more."""
    try:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await wake.wait()
    except asyncio.CancelledError:
        if followed is not None:
            followed.note_reader(reader, NO_READER)
        raise


def _read(run: LoggedRun, params: LogsParams, log_root: str) -> tuple[LogChunk, int]:
    """Runs in a thread. Returns the chunk and the size of the log; a run without output has no log file."""
    whole_job = params.run is None and params.run_id is None
    ended = run.state in TERMINAL if whole_job else run.status != "RUNNING"
    part = log_parts.Part(params.offset)
    with suppress(OSError):
        if run.log_path is not None:
            path = os.path.join(log_root, run.log_path)
            part = log_parts.read(path, params.offset, max(params.limit, LONGEST_UTF8))
    text, encoding, used = _whole(part.data, part.gap > 0 or (ended and part.end >= part.size))
    streams, following = _first(part.streams, used), params.offset + used
    if part.gap and not part.data:
        text = MISSING_NOTICE.format(part.gap)
        streams, following = [("stderr", len(text))], params.offset + part.gap
    chunk = LogChunk(
        text, encoding, following, ended and following >= part.size, streams, part.is_cut,
        run.attempt, run.run_id, run.state, run.exit_code, run.error, run.number, run.run_count,
    )  # fmt: skip
    return chunk, part.size


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


def _first(streams: Sequence[Piece], used: int) -> list[Piece]:
    found: list[Piece] = []
    for name, length in streams:
        if used > 0:
            found.append((name, min(length, used)))
        used -= length
    return found
