"""Calls that wait for jobs, or that take several transactions: they hold neither a reader nor the writer for long."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from msgspec import Struct

from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.feed import Feed, Key, end_in, end_of
from semantica_daemon.engine.readers import Readers
from semantica_daemon.engine.selections import Change, Selections
from semantica_daemon.model.selection import to_cancel, to_cancel_waiting
from semantica_daemon.model.state import TERMINAL
from semantica_daemon.store import groups, reads
from semantica_daemon.store.writes.cancel import cancel, cancel_waiting
from semantica_daemon.store.writes.emit import Emit, EmitPart, emit
from semantica_daemon.wire.event import EmitParams, EmitResult
from semantica_daemon.wire.group import CancelGroupParams
from semantica_daemon.wire.job import CancelParams, CancelResult

CANCEL = Change(cancel, to_cancel)
CANCEL_WAITING = Change(cancel_waiting, to_cancel_waiting)


class Waiting(Struct, frozen=True):
    readers: Readers
    commands: CommandQueue
    feed: Feed

    async def until_ended(self, prefix: str, timeout_ms: int) -> tuple[str, bool]:
        """Returns the whole id, and whether the job ended within the time."""
        job_id, _ = await self.readers.query(reads.state, prefix)

        async def has_ended() -> bool:
            return (await self.readers.query(reads.state, job_id))[1] in TERMINAL

        return job_id, await self._until(has_ended, end_of(job_id), timeout_ms)

    async def until_group_ended(self, group: str, timeout_ms: int) -> bool:
        """Returns whether the group has jobs and all of them ended within the time."""
        await self.readers.query(groups.check_exists, group)

        async def has_ended() -> bool:
            return await self.readers.query(groups.has_ended, group)

        return await self._until(has_ended, end_in(group), timeout_ms)

    async def _until(self, has_ended: Callable[[], Awaitable[bool]], key: Key, timeout_ms: int) -> bool:
        """Asks again after each commit that wakes `key`."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_ms / 1000
        with self.feed.watching(key) as wake:
            while True:
                wake.clear()
                ended, left = await has_ended(), until - loop.time()
                if ended or left <= 0:
                    return ended
                with suppress(TimeoutError):
                    async with asyncio.timeout(left):
                        await wake.wait()

    async def cancel_group(self, params: CancelGroupParams) -> CancelResult:
        await self.readers.query(groups.check_exists, params.chain_group_id)
        group = params.chain_group_id
        return await self.cancel(CancelParams(chain_group_id=group, reason=params.reason, wait_ms=params.wait_ms))

    async def cancel(self, params: CancelParams) -> CancelResult:
        change = CANCEL_WAITING if params.only_waiting else CANCEL
        lists = await Selections(self.readers, self.commands).apply(change, params, params.reason)
        result = CancelResult(*(lists.get(name, []) for name in CancelResult.__struct_fields__))
        if params.wait_ms and result.cancelling and not params.dry_run:
            return await self._until_gone(result, params.wait_ms)
        return result

    async def emit(self, params: EmitParams) -> EmitResult:
        """Takes several transactions. Continues to the end even if the caller disconnects."""
        return await asyncio.shield(asyncio.ensure_future(self._emit_all(params)))

    async def _emit_all(self, params: EmitParams) -> EmitResult:
        part: EmitPart = await self.commands.run(emit, Emit(params.key, params.value), must_commit=False)
        matched, fired = part.matched, part.fired
        while part.more:
            rest = Emit(params.key, params.value, part.newest)
            part = await self.commands.run(emit, rest)
            matched += part.matched
        return EmitResult(list(dict.fromkeys(matched)), fired)

    async def _until_gone(self, result: CancelResult, wait_ms: int) -> CancelResult:
        waited = await asyncio.gather(*(self.until_ended(job_id, wait_ms) for job_id in result.cancelling))
        gone = [job_id for job_id, ended in waited if ended]
        still = [job_id for job_id, ended in waited if not ended]
        return CancelResult(result.cancelled + gone, still, result.unchanged)
