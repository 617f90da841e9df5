"""Calls that wait for a job: they hold no connection to the database while they do."""

import asyncio
from contextlib import suppress

import msgspec

from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.feed import Feed, end_of
from semantica_daemon.engine.readers import Readers
from semantica_daemon.model.state import TERMINAL
from semantica_daemon.store import reads
from semantica_daemon.store.writes.cancel import MOST, Cancel, cancel
from semantica_daemon.store.writes.emit import Emit, Latched, emit
from semantica_daemon.wire.event import EmitResult
from semantica_daemon.wire.job import CancelResult


class Waiting:
    def __init__(self, readers: Readers, commands: CommandQueue, feed: Feed) -> None:
        self._readers = readers
        self._commands = commands
        self._feed = feed

    async def until_ended(self, prefix: str, timeout_ms: int) -> tuple[str, bool]:
        """The whole id, and whether it has ended before the time was up."""
        job_id, _ = await self._readers.ask(reads.state, prefix)
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_ms / 1000
        with self._feed.watching(end_of(job_id)) as wake:
            while True:
                wake.clear()
                _, state = await self._readers.ask(reads.state, job_id)
                left = until - loop.time()
                if state in TERMINAL or left <= 0:
                    return job_id, state in TERMINAL
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await wake.wait()

    async def cancel(self, request: Cancel, wait_ms: int) -> CancelResult:
        """A selection is worked off in parts, so that a long queue never holds the writer."""
        result: CancelResult = await asyncio.shield(self._commands.run(cancel, request, must_commit=False))
        part = result
        while request.field and len(part.cancelled) + len(part.cancelling) == MOST and part.cancelled:
            part = await self._commands.run(cancel, request, must_commit=False)
            result.cancelled.extend(part.cancelled)
            result.cancelling.extend(job_id for job_id in part.cancelling if job_id not in result.cancelling)
        if wait_ms and result.cancelling:
            return await self._until_gone(result, wait_ms)
        return result

    async def emit(self, said: Emit) -> EmitResult:
        """In parts, as a cancel: however many wait for it, nobody else waits long for the writer. Once begun it is
        finished, also when nobody waits for the answer any more."""
        return await asyncio.shield(asyncio.ensure_future(self._emit_all(said)))

    async def _emit_all(self, said: Emit) -> EmitResult:
        matched: list[str] = []
        part: Latched = await self._commands.run(emit, said, must_commit=False)
        matched += part.matched
        while part.more:
            part = await self._commands.run(emit, msgspec.structs.replace(said, newest=part.newest), must_commit=False)
            matched += part.matched
        return EmitResult(list(dict.fromkeys(matched)))

    async def _until_gone(self, result: CancelResult, wait_ms: int) -> CancelResult:
        waited = await asyncio.gather(*(self.until_ended(job_id, wait_ms) for job_id in result.cancelling))
        gone = [job_id for job_id, ended in waited if ended]
        still = [job_id for job_id, ended in waited if not ended]
        return CancelResult(result.cancelled + gone, still, result.unchanged)
