"""Waits for reservations without polling. Callers take turns, in the order in which they came."""

import asyncio
from collections.abc import Callable
from typing import Any

from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.feed import RESERVATION_END, Feed
from semantica_daemon.engine.readers import Readers
from semantica_daemon.errors import Reserved
from semantica_daemon.store import reads
from semantica_daemon.store.database import Command
from semantica_daemon.store.reservations import taken
from semantica_daemon.store.writes.reservations import acquire, release
from semantica_daemon.wire.reservation import Acquired, AcquireParams, ReleaseParams

Attempt = Callable[[], "asyncio.Future[Any]"]


class ReservationCalls:
    def __init__(self, readers: Readers, commands: CommandQueue, feed: Feed) -> None:
        self._readers = readers
        self._commands = commands
        self._feed = feed
        self._turn = asyncio.Lock()  # gives its waiters their turn in the order in which they came

    async def acquire(self, params: AcquireParams) -> Acquired:
        def attempt() -> "asyncio.Future[Acquired]":
            return asyncio.ensure_future(self._commands.run(acquire, params, must_commit=False, slow=False))

        if params.reservation_id is not None:
            return await attempt()
        made: Acquired = await self.in_turn(attempt, params.wait_ms, self._give_back)
        return made

    async def in_turn(self, attempt: Attempt, wait_ms: int, give_back: Callable[["asyncio.Future[Any]"], None]) -> Any:
        """The result of an attempt, which raises Reserved while a reservation is ACTIVE. Tries again when that has
        ended, for at most `wait_ms`. `give_back` gets an attempt whose result the caller did not wait for."""
        if not wait_ms:
            if self._turn.locked():
                raise await self._taken()
            return await _once(attempt, give_back)
        try:
            async with asyncio.timeout(wait_ms / 1000), self._turn:
                return await self._when_free(attempt, give_back)
        except TimeoutError:
            raise await self._taken() from None

    async def _when_free(self, attempt: Attempt, give_back: Callable[["asyncio.Future[Any]"], None]) -> Any:
        with self._feed.watching(RESERVATION_END) as wake:
            while True:
                wake.clear()
                try:
                    return await _once(attempt, give_back)
                except Reserved:
                    await wake.wait()

    async def _taken(self) -> Reserved:
        return taken(await self._readers.query(reads.active_reservation))

    def _give_back(self, attempt: "asyncio.Future[Acquired]") -> None:
        """Releases a reservation whose caller has disconnected or given up before it could be told."""
        if attempt.exception() is None:
            params = ReleaseParams(attempt.result().reservation_id)
            self._commands.submit(Command(release, params), must_commit=True)


async def _once(attempt: Attempt, give_back: Callable[["asyncio.Future[Any]"], None]) -> Any:
    """Runs the attempt to its end even if the caller is cancelled meanwhile."""
    trying = attempt()
    try:
        return await asyncio.shield(trying)
    except asyncio.CancelledError:
        trying.add_done_callback(give_back)
        raise
