"""Claims of external workers, which may wait for jobs. A call that finds nothing is woken by the commit after which
there is a job for it; nothing polls.

Each commit wakes one call of each filter, the oldest; the commit of its claim wakes the next. A job that was claimed
for a client that is gone by then is put back.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import msgspec
from msgspec import Struct

from semantica_daemon.clock import Clock
from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.lifecycle import Lifecycle
from semantica_daemon.engine.passes import Wake
from semantica_daemon.engine.readers import Readers
from semantica_daemon.engine.secrets import Secrets
from semantica_daemon.errors import Stopping
from semantica_daemon.model.job import lost_secrets
from semantica_daemon.model.outcome import GIVEN_BACK, NOT_TAKEN, Outcome
from semantica_daemon.store import parents
from semantica_daemon.store.database import Command, CommitResult
from semantica_daemon.store.external import Wanted
from semantica_daemon.store.writes.worker_claim import ClaimedRun, WorkerClaim, worker_claim
from semantica_daemon.store.writes.worker_runs import GivenBack, give_back
from semantica_daemon.wire.run import Error
from semantica_daemon.wire.worker import ClaimedJob, ClaimParams

NextJob = Callable[[Wanted, int], int | None]
IsGone = Callable[[], bool]
Reply = asyncio.Future[list[ClaimedRun]]
LARGEST_PARENTS = 4_000_000  # bytes of the results of all parents of a job; the results after them are left out
_variables = msgspec.json.Decoder(dict[str, str] | None)


class ClaimDependencies(Struct, frozen=True):
    commands: CommandQueue
    readers: Readers
    secrets: Secrets
    lifecycle: Lifecycle
    clock: Clock


class WorkerClaims:
    """`next_job`: when a claim with this filter may find a job; it may be called only right after a commit.
    `wake_scheduler`: for a job that waits for a rate."""

    def __init__(self, dependencies: ClaimDependencies, next_job: NextJob, wake_scheduler: Wake) -> None:
        self._dependencies = dependencies
        self._commands = dependencies.commands
        self._next_job = next_job
        self._wake_scheduler = wake_scheduler
        self._calls: dict[Wanted, dict[asyncio.Event, None]] = {}  # of each filter, the oldest first
        self._workers: Counter[str] = Counter()

    def waiting(self) -> list[str]:
        """The workers whose calls wait."""
        return list(self._workers)

    def committed(self, committed: CommitResult) -> None:
        if not self._calls:
            return
        now = self._dependencies.clock.now()
        for wanted in self._calls:
            at = self._next_job(wanted, now)
            if at is not None and at <= now:
                self._wake_one(wanted)
            elif at is not None:
                self._wake_scheduler.wake_by(at)

    async def claim(self, params: ClaimParams, is_gone: IsGone) -> list[ClaimedJob]:
        """Returns no jobs when none came within `wait_ms`, or when the client is gone."""
        wanted = Wanted(_names(params.queues), _names(params.job_types))
        request = WorkerClaim(params.worker_id, wanted, params.max, params.lease_ms)
        loop = asyncio.get_running_loop()
        until = loop.time() + params.wait_ms / 1000
        with self._registered(wanted, params.worker_id) as wake:
            while not is_gone():
                wake.clear()
                jobs = await self._deliver(await self._claim(request, is_gone), is_gone)
                left = until - loop.time()
                if jobs or left <= 0 or not await _within(wake, left):
                    return jobs
                request = msgspec.structs.replace(request, is_first=False)
        return []

    @contextmanager
    def _registered(self, wanted: Wanted, worker_id: str) -> Iterator[asyncio.Event]:
        """Registers the call before its first claim, so that it misses no commit after that. A call that was woken and
        ends without a claim wakes the next one instead."""
        wake = asyncio.Event()
        self._calls.setdefault(wanted, {})[wake] = None
        self._workers[worker_id] += 1
        try:
            yield wake
        finally:
            self._workers[worker_id] -= 1
            if not self._workers[worker_id]:
                del self._workers[worker_id]
            del self._calls[wanted][wake]
            if wake.is_set():
                self._wake_one(wanted)
            if not self._calls[wanted]:
                del self._calls[wanted]

    def _wake_one(self, wanted: Wanted) -> None:
        for wake in self._calls[wanted]:
            if not wake.is_set():
                wake.set()
                return

    async def _claim(self, request: WorkerClaim, is_gone: IsGone) -> list[ClaimedRun]:
        if self._dependencies.lifecycle.status == "stopping":
            raise Stopping("the daemon is stopping", "call again when it is back")
        reply: Reply = asyncio.get_running_loop().create_future()
        self._commands.submit(Command(worker_claim, request), partial(self._claimed, reply, is_gone))
        try:
            return await reply
        except asyncio.CancelledError:
            if not reply.cancelled() and reply.exception() is None:  # the cancellation came after the commit
                self._put_back(reply.result(), NOT_TAKEN if is_gone() else GIVEN_BACK)
            raise

    def _claimed(self, reply: Reply, is_gone: IsGone, result: Any) -> None:
        """After the commit: puts the jobs back if the client is gone or has cancelled the call."""
        if isinstance(result, Exception):
            if not reply.done():
                reply.set_exception(result)
        elif reply.done() or is_gone():
            self._put_back(result, NOT_TAKEN if is_gone() else GIVEN_BACK)
            if not reply.done():
                reply.set_result([])
        else:
            reply.set_result(result)

    def _put_back(self, claimed: list[ClaimedRun], outcome: Outcome) -> None:
        for one in claimed:
            self._commands.submit(Command(give_back, GivenBack(one.run, outcome)), must_commit=True)

    async def _deliver(self, claimed: list[ClaimedRun], is_gone: IsGone) -> list[ClaimedJob]:
        """The jobs as the worker gets them: with their secrets and the results of their parents. Puts them back if the
        client is gone by then."""
        with_variables = [(one, env_vars) for one in claimed if (env_vars := self._variables(one)) is not None]
        try:
            jobs = [await self._job(one, env_vars) for one, env_vars in with_variables]
        except asyncio.CancelledError:
            self._put_back([one for one, _ in with_variables], NOT_TAKEN if is_gone() else GIVEN_BACK)
            raise
        if jobs and is_gone():
            self._put_back([one for one, _ in with_variables], NOT_TAKEN)
            return []
        return jobs

    async def _job(self, one: ClaimedRun, env_vars: dict[str, str]) -> ClaimedJob:
        found = []
        if one.view.parent_count:
            found = await self._dependencies.readers.query(parents.results, one.run.job_id, LARGEST_PARENTS)
        return ClaimedJob(one.view, one.run.run_id, one.run_token, one.lease_expires_at, env_vars, found)

    def _variables(self, one: ClaimedRun) -> dict[str, str] | None:
        """The variables of the job with their secrets. Fails a job that has lost a secret that was set by name, and
        returns None."""
        given, secrets = _variables.decode(one.view.env_vars) or {}, self._dependencies.secrets.of(one.run.job_id)
        if lost := [name for name in lost_secrets(given) if name not in secrets]:
            message = f"the daemon was restarted and no longer knows {', '.join(lost)}: hand the job in again"
            self._put_back([one], Outcome(error=Error("E_SECRET_LOST", "permanent", message)))
            return None
        return {name: secrets.get(name, value) for name, value in given.items()}


def _names(given: list[str] | None) -> frozenset[str] | None:
    return None if given is None else frozenset(given)


async def _within(wake: asyncio.Event, seconds: float) -> bool:
    """Whether it was woken within the time."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            return await wake.wait()
    return False
