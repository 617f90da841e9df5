"""Starts an attempt for every claim that was committed, and passes on what must stop. The claiming itself is the last
verb of every transaction (`store/writes/claim`)."""

import asyncio
from collections.abc import Callable

from semantica_daemon.engine.attempt import Attempt, Work, Workshop
from semantica_daemon.engine.in_process import InProcess
from semantica_daemon.engine.subprocess_run import SubprocessRun
from semantica_daemon.store.database import Committed

WORK: dict[str, Callable[[Attempt], Work]] = {"IN_PROCESS": InProcess, "SUBPROCESS": SubprocessRun}


class Dispatcher:
    def __init__(self, shop: Workshop) -> None:
        self._shop = shop
        self._attempts: dict[str, Attempt] = {}
        self._idle = asyncio.Event()
        self._stopping = False

    @property
    def running(self) -> int:
        return len(self._attempts)

    def committed(self, committed: Committed) -> None:
        self._shop.secrets.committed(committed)
        for claim in committed.claims:
            self._idle.clear()
            attempt = Attempt(claim, self._shop, WORK[claim.mode], self._over)
            self._attempts[claim.run.run_id] = attempt
            if self._stopping:
                attempt.stop("shutdown")
        for stop in committed.stops:
            running = self._attempts.get(stop.run_id)
            if running is not None:
                running.stop(stop.cause)

    def watch(self, run_id: str, beyond: int) -> None:
        """Whoever watches its job is woken once that run has written more than that."""
        attempt = self._attempts.get(run_id)
        if attempt is not None and isinstance(attempt.work, SubprocessRun):
            attempt.work.watch(beyond)

    def check_clock(self) -> None:
        for attempt in list(self._attempts.values()):
            attempt.check_clock()

    def stop_all(self) -> None:
        self._stopping = True
        for attempt in list(self._attempts.values()):
            attempt.stop("shutdown")

    async def until_idle(self) -> None:
        if self._attempts:
            await self._idle.wait()

    def left(self) -> list[Attempt]:
        """Who did not stop in time."""
        return list(self._attempts.values())

    def _over(self, attempt: Attempt) -> None:
        del self._attempts[attempt.claim.run.run_id]
        if not self._attempts:
            self._idle.set()
