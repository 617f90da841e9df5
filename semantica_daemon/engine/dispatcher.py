"""Starts an attempt for every claim of a commit, and stops the attempts that a commit wants stopped. The last step of
every transaction makes the claims (`store/writes/claim`)."""

import asyncio
from collections.abc import Callable

from semantica_daemon.engine.attempt import Attempt, RunDependencies, Work
from semantica_daemon.engine.in_process import InProcess
from semantica_daemon.engine.subprocess_run import SubprocessRun
from semantica_daemon.store.database import CommitResult

WORK: dict[str, Callable[[Attempt], Work]] = {"IN_PROCESS": InProcess, "SUBPROCESS": SubprocessRun}


class Dispatcher:
    def __init__(self, dependencies: RunDependencies) -> None:
        self._dependencies = dependencies
        self._attempts: dict[str, Attempt] = {}
        self._idle = asyncio.Event()
        self._is_stopping = False

    @property
    def running(self) -> int:
        return len(self._attempts)

    def committed(self, committed: CommitResult) -> None:
        self._dependencies.secrets.committed(committed)
        self._dependencies.attachments.committed(committed)
        for claim in committed.claims:
            attempt = Attempt(claim, self._dependencies, WORK[claim.mode], self._remove)
            self._attempts[claim.run.run_id] = attempt
            if self._is_stopping:
                attempt.stop("shutdown")
        if any(claim.mode == "IN_PROCESS" for claim in committed.claims):
            # After the first steps of the attempts, in the same turn of the loop: short handlers have ended by then.
            self._dependencies.commands.announce()
        for stop in committed.stops:
            running = self._attempts.get(stop.run_id)
            if running is not None:
                running.stop(stop.cause)

    def command(self, run_id: str) -> SubprocessRun | None:
        """The run of a command that has not ended."""
        attempt = self._attempts.get(run_id)
        return attempt.work if attempt is not None and isinstance(attempt.work, SubprocessRun) else None

    def check_clock(self) -> None:
        for attempt in list(self._attempts.values()):
            attempt.check_clock()

    def stop_all(self) -> None:
        self._is_stopping = True
        for attempt in list(self._attempts.values()):
            attempt.stop("shutdown")

    async def until_idle(self) -> None:
        if self._attempts:
            self._idle.clear()
            await self._idle.wait()

    def unfinished(self) -> list[Attempt]:
        return list(self._attempts.values())

    def _remove(self, attempt: Attempt) -> None:
        del self._attempts[attempt.claim.run.run_id]
        if not self._attempts:
            self._idle.set()
