"""One run, from its claim to its Outcome: bounded in time, asked to stop when it must, written once it has ended.

How the work itself is done is `in_process`'s or `subprocess_run`'s.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from semantica_daemon import failpoints
from semantica_daemon.clock import Clock, Timer
from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.handlers import Handlers
from semantica_daemon.engine.reporter import Reporter
from semantica_daemon.engine.secrets import Secrets
from semantica_daemon.engine.supervisors import Supervisors
from semantica_daemon.model.outcome import LOST, PAST_DEADLINE, SHUT_DOWN, Outcome, Stop, timed_out
from semantica_daemon.store.database import LARGE, Command
from semantica_daemon.store.transition import Claim, Running
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.report import unresponsive

LIMITS = ("timeout", "deadline", "lost")


class Housing(Struct, frozen=True):
    """What a command is started with besides its own: where its files go and whom it may talk to."""

    home: str
    workspaces: str
    socket: str
    environment: dict[str, str]
    boot_id: str
    log_bytes: int


class Workshop(Struct, frozen=True):
    """What every attempt works with."""

    handlers: Handlers
    commands: CommandQueue
    clock: Clock
    threads: ThreadPoolExecutor
    grace_ms: int
    supervisors: Supervisors
    secrets: Secrets
    housing: Housing
    tokens: dict[str, Running]
    nudge: Callable[[str], None]


class Work(Protocol):
    """How a run is carried out: `run` until its end, `ask` it to stop, `insist` when its grace is over."""

    async def run(self) -> Outcome: ...

    def ask(self) -> None: ...

    def insist(self) -> bool:
        """Whether anything can be done about it; if not, it is said to be unresponsive."""


class Attempt:
    def __init__(
        self,
        claim: Claim,
        shop: Workshop,
        work: "Callable[[Attempt], Work]",
        over: "Callable[[Attempt], None]",
    ) -> None:
        self.claim = claim
        self.shop = shop
        self.reporter = Reporter(claim.run, shop.commands, asyncio.get_running_loop())
        self._over = over
        self._timers: list[Timer] = []
        self._cause: Stop | None = None
        self._began = shop.clock.monotonic()
        self._deadline = claim.deadline
        self._ended = False
        self.work = work(self)
        self.task = asyncio.get_running_loop().create_task(self._run())

    @property
    def stopping(self) -> bool:
        return self._cause is not None

    def stop(self, cause: Stop) -> None:
        """Ask it to stop; the first cause counts, and grace begins with it. One whose end is known is not judged by
        what comes after: only a cancel and the daemon's own end still make what it has left go."""
        if self._cause is not None or (self._ended and cause in LIMITS):
            return
        self._cause = cause
        self.give_grace()
        self.work.ask()

    def begun(self) -> None:
        """From here on it is bounded in time."""
        if self.claim.timeout_ms is not None:
            self._timers.append(self.shop.clock.after(self.claim.timeout_ms, lambda: self.stop("timeout")))

    def winding_down(self) -> None:
        """How it has ended is known, and no limit matters any more; only what it has left must still go."""
        if not self.stopping:
            self._end_limits()
            self.give_grace()

    def _end_limits(self) -> None:
        self._ended = True
        self._deadline = None
        for timer in self._timers:
            timer.cancel()

    def give_grace(self) -> None:
        grace_ms = self.shop.grace_ms if self.claim.grace_ms is None else self.claim.grace_ms
        self._timers.append(self.shop.clock.after(grace_ms, self._past_grace))

    async def _run(self) -> None:
        failpoints.hit("after_claim_before_start")
        self._watch_deadline()
        outcome = self._as_stopped(await self.work.run())
        took_ms = round((self.shop.clock.monotonic() - self._began) * 1000)
        self._end_limits()
        failpoints.hit("after_run_before_finish")
        self.reporter.flush()
        large = outcome.result is not None and len(outcome.result) > LARGE
        command = Command(finish, Finish(self.claim.run, msgspec.structs.replace(outcome, took_ms=took_ms)))
        self.shop.commands.submit(command, self._finished, must_commit=True, slow=large)

    def _finished(self, result: Any) -> None:
        if isinstance(result, Exception):
            raise result
        self._over(self)

    def _as_stopped(self, outcome: Outcome) -> Outcome:
        """Past a limit it failed, whatever it says; made to make way it has not finished, since a handler that looks at
        `ctx.cancelled` and a command that exits 0 on SIGTERM only say so. At shutdown a run that finished has."""
        if self._cause == "timeout":
            return timed_out(self.claim.timeout_ms or 0)
        if self._cause == "deadline":
            return PAST_DEADLINE
        if outcome.unstarted:
            return outcome
        if self._cause == "lost":
            return LOST
        return SHUT_DOWN if self._cause == "shutdown" and outcome.error is not None else outcome

    def check_clock(self) -> None:
        """Its deadline is an instant of the wall clock, and may have come sooner than its timer thinks."""
        if self._deadline is not None and self._deadline <= self.shop.clock.now():
            self.stop("deadline")

    def _watch_deadline(self) -> None:
        self.check_clock()
        if self._deadline is not None and not self.stopping:
            left = self._deadline - self.shop.clock.now()
            self._timers.append(self.shop.clock.after(left, self._watch_deadline))

    def _past_grace(self) -> None:
        if not self.work.insist():
            self.shop.commands.submit(Command(unresponsive, self.claim.run), must_commit=True)
