"""One run, from its claim to its stored end: it enforces timeout and deadline, stops the run when it must, and stores
an end in every case.

`in_process` and `subprocess_run` do the work itself.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import msgspec
import structlog
from msgspec import Struct

from semantica_daemon import failpoints
from semantica_daemon.clock import Clock, Timer
from semantica_daemon.engine.attachments import Attachments
from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.handlers import Handlers
from semantica_daemon.engine.readers import Readers
from semantica_daemon.engine.reporter import Reporter, storable
from semantica_daemon.engine.secrets import Secrets
from semantica_daemon.engine.supervisors import Supervisors
from semantica_daemon.model.outcome import LOST, PAST_DEADLINE, SHUT_DOWN, Outcome, Stop, timed_out
from semantica_daemon.processes.cgroups import CgroupRoot
from semantica_daemon.store import parents
from semantica_daemon.store.database import LARGE, Command
from semantica_daemon.store.run_transition import Begun, Claim, Running
from semantica_daemon.store.writes.begin import begin
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.report import unresponsive
from semantica_daemon.wire.job_view import ParentResult
from semantica_daemon.wire.run import Error

log = structlog.get_logger()

LIMITS = ("timeout", "deadline", "lost")


class SpawnSettings(Struct, frozen=True):
    """The settings that all commands share: where their files go, and the base environment. `daemon_variables`: those
    that lead to the daemon from any other environment."""

    home: str
    workspaces: str
    environment: dict[bytes, bytes]
    daemon_variables: dict[bytes, bytes]
    boot_id: str
    log_bytes: int
    cgroups: CgroupRoot
    """Below it each run gets a cgroup of its own, if there is one."""
    log_root: str
    """The part of every log's path that is not stored: the data folder if its path is not UTF-8, else empty."""


class RunDependencies(Struct):
    """Dependencies of all attempts; a reload of the configuration changes `grace_ms` and `spawn_settings`.
    `run_tokens`: the run of each token that `run.*` calls may use."""

    handlers: Handlers
    commands: CommandQueue
    clock: Clock
    threads: ThreadPoolExecutor
    grace_ms: int
    supervisors: Supervisors
    secrets: Secrets
    spawn_settings: SpawnSettings
    run_tokens: dict[str, Running]
    attachments: Attachments
    readers: Readers


class Work(Protocol):
    """The work of a run: a handler or a command."""

    async def run(self) -> Outcome: ...

    def terminate(self) -> None:
        """Asks the run to stop: SIGTERM, or a cancelled handler."""

    def kill(self) -> bool:
        """Ends the run by force after its grace period; False if that is impossible: the run is reported as
        unresponsive."""


class Attempt:
    def __init__(
        self,
        claim: Claim,
        dependencies: RunDependencies,
        work: "Callable[[Attempt], Work]",
        on_end: "Callable[[Attempt], None]",
    ) -> None:
        self.claim = claim
        self.dependencies = dependencies
        self._clock = dependencies.clock
        self._on_end = on_end
        self._timers: list[Timer] = []
        self._stop_cause: Stop | None = None
        self._claimed_at = self._clock.monotonic()
        self._deadline = claim.job.deadline
        self._limits_ended = False
        self._unrecorded_start: Begun | None = None
        loop = asyncio.get_running_loop()
        self.reporter = Reporter(claim.run, dependencies.commands, loop)
        self.work = work(self)
        self.task = loop.create_task(self._run())

    @property
    def is_stopping(self) -> bool:
        return self._stop_cause is not None

    async def read_parents(self) -> list[ParentResult]:
        """The results of the parents of its job: they are DONE, so that their results do not change any more."""
        return await self.dependencies.readers.query(parents.results, self.claim.run.job_id)

    def stop(self, cause: Stop) -> None:
        """Asks the run to stop and starts its grace period; only the first cause counts. A limit that passes after the
        main process has ended is ignored; a cancel and a shutdown still end the processes that are left."""
        if self._stop_cause is not None or (self._limits_ended and cause in LIMITS):
            return
        self._stop_cause = cause
        self.start_grace_period()
        self.work.terminate()

    def start_timeout(self) -> None:
        if self.claim.spec.timeout_ms is not None:
            self._timers.append(self._clock.after(self.claim.spec.timeout_ms, lambda: self.stop("timeout")))

    def record_start(self, begun: Begun, has_ended: bool) -> None:
        """Stores the identity of the process at once; if the process has ended already, together with its end."""
        if has_ended:
            self._unrecorded_start = begun
        else:
            self.dependencies.commands.submit(Command(begin, begun), must_commit=True)
            self.start_timeout()

    def main_process_ended(self) -> None:
        """The main process has ended, so no limit applies any more; processes that are left get a grace period."""
        if not self.is_stopping:
            self._end_limits()
            self.start_grace_period()

    def start_grace_period(self) -> None:
        grace_ms = self.dependencies.grace_ms if self.claim.spec.grace_ms is None else self.claim.spec.grace_ms
        self._timers.append(self._clock.after(grace_ms, self._kill))

    def check_clock(self) -> None:
        """Stops the run if its deadline has passed. A deadline is a wall-clock instant, so it can pass before its timer
        fires when the clock is set."""
        if self._deadline is not None and self._deadline <= self._clock.now():
            self.stop("deadline")

    async def _run(self) -> None:
        """Catches every error, so that each run gets an end and its slot is free again."""
        try:
            failpoints.hit("after_claim_before_start")
            if self._deadline is not None:
                self._watch_deadline()
            outcome = self._as_stopped(await self.work.run())
            failpoints.hit("after_run_before_finish")
            self.reporter.send()
        except BaseException as error:
            outcome = self._failed_in_daemon(error)
        self._end_limits()
        self._finish(outcome, self._recorded)

    def _finish(self, outcome: Outcome, recorded: Callable[[Any], None]) -> None:
        took_ms = round((self._clock.monotonic() - self._claimed_at) * 1000)
        outcome = msgspec.structs.replace(outcome, took_ms=took_ms)
        ended = Finish(self.claim.run, outcome, self._unrecorded_start, self.claim.job)
        large = outcome.result is not None and len(outcome.result) > LARGE
        self.dependencies.commands.submit(Command(finish, ended), recorded, must_commit=True, slow=large)

    def _recorded(self, result: Any) -> None:
        """If the end could not be stored, stores a failure alone, without the start that belongs to it, so that no run
        stays RUNNING for ever."""
        if isinstance(result, Exception):
            self._unrecorded_start = None
            self._finish(self._failed_in_daemon(result), self._recorded_failure)
        else:
            self._on_end(self)

    def _recorded_failure(self, result: Any) -> None:
        if isinstance(result, Exception):
            raise result
        self._on_end(self)

    def _failed_in_daemon(self, error: BaseException) -> Outcome:
        log.error("run_failed_in_daemon", job_id=self.claim.run.job_id, exc_info=error)
        message = storable(f"the daemon could not carry out this run: {type(error).__name__}: {error}")
        return Outcome(error=Error("E_ENGINE_CRASH", "infra", message), interrupted=True)

    def _as_stopped(self, outcome: Outcome) -> Outcome:
        """The outcome, given the cause of the stop. After a timeout or deadline the run has failed, whatever it
        reports. A run that lost idle or power waits again, even if it exited with 0 on SIGTERM. At a shutdown, a run
        that succeeded stays a success."""
        if self._stop_cause == "timeout":
            return timed_out(self.claim.spec.timeout_ms or 0)
        if self._stop_cause == "deadline":
            return PAST_DEADLINE
        if outcome.unstarted:
            return outcome
        if self._stop_cause == "lost":
            return LOST
        return SHUT_DOWN if self._stop_cause == "shutdown" and outcome.error is not None else outcome

    def _watch_deadline(self) -> None:
        self.check_clock()
        if self._deadline is not None and not self.is_stopping:
            left = self._deadline - self._clock.now()
            self._timers.append(self._clock.after(left, self._watch_deadline))

    def _end_limits(self) -> None:
        self._limits_ended = True
        self._deadline = None
        for timer in self._timers:
            timer.cancel()

    def _kill(self) -> None:
        if not self.work.kill():
            self.dependencies.commands.submit(Command(unresponsive, self.claim.run), must_commit=True)
