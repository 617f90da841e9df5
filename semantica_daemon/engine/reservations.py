"""Waits for reservations without polling. Callers take turns, in the order in which they came."""

import asyncio
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.feed import RESERVATION_END, Feed
from semantica_daemon.engine.readers import Readers
from semantica_daemon.errors import RequestCancelled, Reserved
from semantica_daemon.model.admission import AdmittedJob
from semantica_daemon.model.reservation import taken
from semantica_daemon.store import reads
from semantica_daemon.store.database import LARGE, Command
from semantica_daemon.store.writes.direct import execute
from semantica_daemon.store.writes.reservations import acquire, release
from semantica_daemon.wire.job import Ack
from semantica_daemon.wire.reservation import Acquired, AcquireParams, ReleaseParams

IsGone = Callable[[], bool]


class Request(Struct, frozen=True):
    """`attempt` raises Reserved while a reservation is ACTIVE. `give_back` gets its result if the caller is gone
    before it could be sent; `is_gone` returns whether it is."""

    attempt: Callable[[], "asyncio.Future[Any]"]
    give_back: Callable[[Any], None]
    is_gone: IsGone


class ReservationCalls:
    def __init__(self, readers: Readers, commands: CommandQueue, feed: Feed) -> None:
        self._readers = readers
        self._commands = commands
        self._feed = feed
        self._turn = asyncio.Lock()  # gives its waiters their turn in the order in which they came

    async def acquire(self, params: AcquireParams, is_gone: IsGone) -> Acquired:
        """A reservation that no caller knows of would hold all jobs until it expires, so it is released at once."""

        def attempt() -> "asyncio.Future[Acquired]":
            return asyncio.ensure_future(self._commands.run(acquire, params, must_commit=False, slow=False))

        def give_back(made: Acquired) -> None:
            self._commands.submit(Command(release, ReleaseParams(made.reservation_id)), must_commit=True)

        if params.reservation_id is not None:
            return await attempt()
        made: Acquired = await self._in_turn(Request(attempt, give_back, is_gone), params.wait_ms)
        if is_gone():
            give_back(made)
        return made

    async def execute(self, job: AdmittedJob, wait_ms: int, is_gone: IsGone) -> Ack:
        """The job goes on when the caller is gone after its start; its end releases its reservation."""

        def attempt() -> "asyncio.Future[Ack]":
            slow = len(job.payload) > LARGE
            return asyncio.ensure_future(self._commands.run(execute, job, must_commit=False, slow=slow))

        stored: Ack = await self._in_turn(Request(attempt, lambda _: None, is_gone), wait_ms)
        return stored

    async def _in_turn(self, request: Request, wait_ms: int) -> Any:
        """The result of the request, which is tried again whenever a reservation has ended, for at most `wait_ms`."""
        if not wait_ms:
            if self._turn.locked():
                raise await self._taken()
            return await _once(request)
        try:
            async with asyncio.timeout(wait_ms / 1000), self._turn:
                return await self._when_free(request)
        except TimeoutError:
            raise await self._taken() from None

    async def _when_free(self, request: Request) -> Any:
        with self._feed.watching(RESERVATION_END) as wake:
            while True:
                wake.clear()
                if request.is_gone():
                    raise RequestCancelled("the caller is gone", "call again")
                try:
                    return await _once(request)
                except Reserved:
                    await wake.wait()

    async def _taken(self) -> Reserved:
        return taken(await self._readers.query(reads.active_reservation))


async def _once(request: Request) -> Any:
    """Runs the attempt to its end even if the caller is cancelled meanwhile."""
    trying = request.attempt()
    try:
        return await asyncio.shield(trying)
    except asyncio.CancelledError:
        trying.add_done_callback(lambda done: _give_back(request, done))
        raise


def _give_back(request: Request, done: "asyncio.Future[Any]") -> None:
    if done.exception() is None:
        request.give_back(done.result())
