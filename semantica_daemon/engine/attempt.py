"""One run, from its claim to its Outcome: the handler is called, bounded in time, and asked to stop when it must."""

import asyncio
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
from msgspec import Struct

from semantica_daemon import failpoints
from semantica_daemon.clock import Clock, Timer
from semantica_daemon.engine.handlers import Context, Handler, Handlers
from semantica_daemon.engine.passes import LONGEST_WAIT_MS
from semantica_daemon.engine.reporter import Reporter, storable
from semantica_daemon.engine.writer import Writer
from semantica_daemon.errors import Refusal
from semantica_daemon.model.outcome import PAST_DEADLINE, SHUT_DOWN, Class, Error, Outcome, Stop, timed_out
from semantica_daemon.store.database import LARGE, Command
from semantica_daemon.store.transition import Claim
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.report import Line, unresponsive

LARGEST_RESULT = 10_000_000
LONGEST_MESSAGE = 2000
LONGEST_TRACE = 16_000
CLASSES: dict[str, Class] = {"transient": "transient", "permanent": "permanent", "infra": "infra"}


class Workshop(Struct, frozen=True):
    """What every attempt works with."""

    handlers: Handlers
    writer: Writer
    clock: Clock
    threads: ThreadPoolExecutor
    grace_ms: int


class Attempt:
    def __init__(self, claim: Claim, shop: Workshop, over: Callable[["Attempt"], None]) -> None:
        self.claim = claim
        self._shop = shop
        self._over = over
        self._loop = asyncio.get_running_loop()
        self._reporter = Reporter(claim.run, shop.writer, self._loop)
        self._context = Context(claim.run.job_id, claim.run.attempt, self._reporter)
        self._timers: list[Timer] = []
        self._cause: Stop | None = None
        self._cancellable = False
        self._task = self._loop.create_task(self._run())

    def stop(self, cause: Stop) -> None:
        """Ask it to stop; the first cause counts, and grace begins with it."""
        if self._cause is not None:
            return
        self._cause = cause
        self._context._cancel()
        grace_ms = self._shop.grace_ms if self.claim.grace_ms is None else self.claim.grace_ms
        self._timers.append(self._shop.clock.after(grace_ms, self._unresponsive))
        self._interrupt()

    async def _run(self) -> None:
        failpoints.hit("after_claim_before_start")
        self._bound_in_time()
        outcome = self._as_stopped(await self._outcome())
        for timer in self._timers:
            timer.cancel()
        failpoints.hit("after_run_before_finish")
        self._reporter.flush()
        large = outcome.result is not None and len(outcome.result) > LARGE
        command = Command(finish, Finish(self.claim.run, outcome))
        self._shop.writer.submit(command, self._finished, ours=True, slow=large)

    def _finished(self, result: Any) -> None:
        if isinstance(result, Exception):
            raise result
        self._over(self)

    async def _outcome(self) -> Outcome:
        """The catch-all around user code: whatever it does, an Outcome comes back."""
        try:
            handler = self._shop.handlers.get(self.claim.job_type)
            payload = handler.payload.decode(self.claim.payload)
        except (Refusal, msgspec.ValidationError) as error:
            return Outcome(error=Error("E_HANDLER", "permanent", storable(str(error))))
        try:
            return _success(await self._call(handler, payload))
        except BaseException as error:
            return self._failure(error)
        finally:
            self._cancellable = False

    async def _call(self, handler: Handler, payload: Any) -> Any:
        if self._cause is not None:
            raise asyncio.CancelledError
        if handler.is_async:
            self._cancellable = True
            return await handler.function(self._context, payload)
        result, error = await self._loop.run_in_executor(
            self._shop.threads, _in_thread, handler.function, self._context, payload
        )
        if error is not None:
            raise error
        return result

    def _failure(self, error: BaseException) -> Outcome:
        """Even an exception that cannot be described ends its run."""
        try:
            described = _described(error)
        except Exception:
            described = Error("E_HANDLER", "transient", f"{type(error).__name__}, which cannot be described")
        if self._cause is None and described.details:
            self._reporter.line(Line(described.details["traceback"], "error"))
        return Outcome(error=described)

    def _as_stopped(self, outcome: Outcome) -> Outcome:
        """Past a limit it failed, whatever it says; at shutdown a run that still finished has finished."""
        if self._cause == "timeout":
            return timed_out(self.claim.timeout_ms or 0)
        if self._cause == "deadline":
            return PAST_DEADLINE
        if self._cause == "shutdown" and outcome.error is not None:
            return SHUT_DOWN
        return outcome

    def _bound_in_time(self) -> None:
        if self.claim.timeout_ms is not None:
            self._timers.append(self._shop.clock.after(self.claim.timeout_ms, lambda: self.stop("timeout")))
        if self.claim.deadline is not None:
            self._watch_deadline(self.claim.deadline)

    def _watch_deadline(self, deadline: int) -> None:
        """The deadline is an instant of the wall clock, which may be stepped: looked at again at least every 30 s."""
        left = deadline - self._shop.clock.now()
        if left <= 0:
            self.stop("deadline")
        else:
            again = self._shop.clock.after(min(left, LONGEST_WAIT_MS), lambda: self._watch_deadline(deadline))
            self._timers.append(again)

    def _interrupt(self) -> None:
        """Only while the handler itself is awaited: a thread cannot be interrupted, our own steps must not be."""
        if self._cancellable:
            self._task.cancel()

    def _unresponsive(self) -> None:
        self._interrupt()
        self._shop.writer.submit(Command(unresponsive, self.claim.run), ours=True)


def _in_thread(function: Callable[[Context, Any], Any], context: Context, payload: Any) -> tuple[Any, Any]:
    """Errors travel as values: a future cannot carry every exception (StopIteration, SystemExit)."""
    try:
        return function(context, payload), None
    except BaseException as error:
        return None, error


def _described(error: BaseException) -> Error:
    message = storable("".join(traceback.format_exception_only(error)).strip())[:LONGEST_MESSAGE]
    trace = storable("".join(traceback.format_exception(error, limit=-20)))
    if len(trace) > LONGEST_TRACE:
        trace = f"{trace[:LONGEST_TRACE]}\n…\n{trace[-LONGEST_MESSAGE:]}"
    return Error("E_HANDLER", _class_of(error), message, {"traceback": trace})


def _class_of(error: BaseException) -> Class:
    """What the exception says of itself; whatever that does, it is a failed attempt like any other."""
    try:
        given = error.failure_class  # type: ignore[attr-defined]
        return CLASSES[given]
    except Exception:
        return "transient"


def _success(result: Any) -> Outcome:
    if result is None:
        return Outcome()
    try:
        text = msgspec.json.encode(result)
        msgspec.json.decode(text)  # a Raw value goes through the encoder unread
    except Exception as error:
        return _no_result(f"the handler returned something that is no JSON ({type(result).__name__}: {error})")
    if len(text) > LARGEST_RESULT:
        return _no_result(f"the handler returned {len(text)} bytes of JSON; at most {LARGEST_RESULT} are kept")
    return Outcome(result=text.decode())


def _no_result(message: str) -> Outcome:
    return Outcome(error=Error("E_HANDLER", "permanent", storable(message)))
