"""A run of a Python handler: an async handler is awaited on the loop, any other is called in a thread."""

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

import msgspec

from semantica_daemon.engine.attempt import Attempt
from semantica_daemon.engine.handlers import Context, Handler
from semantica_daemon.engine.parents import ParentJob
from semantica_daemon.engine.reporter import storable
from semantica_daemon.errors import Refusal
from semantica_daemon.failures import Infra, Retry
from semantica_daemon.model.encoding import encode_large
from semantica_daemon.model.gather import split
from semantica_daemon.model.outcome import CLASSES, LARGEST_RESULT, STOPPED_BEFORE_START, Outcome
from semantica_daemon.store.writes.report import Line
from semantica_daemon.wire.run import Error, ErrorClass

LONGEST_MESSAGE = 2000
LONGEST_TRACE = 16_000


class InProcess:
    def __init__(self, attempt: Attempt) -> None:
        self._attempt = attempt
        self._context = Context(attempt.claim.run.job_id, attempt.claim.run.attempt, attempt.reporter)
        self._cancellable = False

    async def run(self) -> Outcome:
        """Returns an Outcome whatever the handler raises."""
        if self._attempt.claim.spec.parent_count:
            self._context.parents = [ParentJob(one) for one in await self._attempt.read_parents()]
        if self._attempt.is_stopping:
            return STOPPED_BEFORE_START
        self._attempt.start_timeout()
        try:
            handler = self._attempt.dependencies.handlers.get(self._attempt.claim.job.job_type)
            payload = handler.payload.decode(self._payload_for(handler))
        except (Refusal, msgspec.ValidationError) as error:
            return Outcome(error=Error("E_HANDLER", "permanent", storable(str(error))))
        try:
            return _success(await self._call(handler, payload))
        except BaseException as error:
            return self._failure(error)
        finally:
            self._cancellable = False

    def terminate(self) -> None:
        """Cancels an async handler while it is awaited. A thread cannot be interrupted: it sees `ctx.cancelled`."""
        self._context.cancelled = True
        if self._cancellable:
            self._attempt.task.cancel()

    def kill(self) -> bool:
        self.terminate()
        return False

    def _payload_for(self, handler: Handler) -> str:
        """The payload, without what it has gathered if its type would refuse that; the context has it in any case."""
        claim = self._attempt.claim
        if not claim.spec.gather:
            return claim.payload
        gathering = split(claim.payload)
        self._context.gathered = [msgspec.json.decode(one) for one in gathering.payloads]
        self._context.gathered_dropped = gathering.dropped
        return gathering.own if handler.is_typed else claim.payload

    async def _call(self, handler: Handler, payload: Any) -> Any:
        if handler.is_async:
            self._cancellable = True
            return await handler.function(self._context, payload)
        call = ThreadCall(handler.function, self._context, payload)
        try:
            called = asyncio.get_running_loop().run_in_executor(self._attempt.dependencies.threads, call)
        except RuntimeError as error:
            call.is_dropped = True
            raise Infra(f"no thread is free for the handler: {error}") from error
        result, raised = await called
        if raised is not None:
            raise raised
        return result

    def _failure(self, error: BaseException) -> Outcome:
        """The Outcome of an exception, also of one whose text cannot be read."""
        try:
            described = _described(error)
        except Exception:
            described = Error("E_HANDLER", "transient", f"{type(error).__name__}, which cannot be described")
        if not self._attempt.is_stopping and described.details:
            self._attempt.reporter.line(Line(described.details["traceback"], "error"))
        return Outcome(error=described, retry_after_ms=_retry_after(error))


class ThreadCall:
    """A call of a handler in a thread. The executor keeps a call for which it could start no thread, and another thread
    takes it later: `is_dropped` keeps it from running then, beside a retry."""

    is_dropped = False

    def __init__(self, function: Callable[[Context, Any], Any], context: Context, payload: Any) -> None:
        self._function = function
        self._context = context
        self._payload = payload

    def __call__(self) -> tuple[Any, BaseException | None]:
        """Returns the exception instead of raising it: a future cannot carry every kind (StopIteration, SystemExit)."""
        try:
            return (None if self.is_dropped else self._function(self._context, self._payload)), None
        except BaseException as error:
            return None, error


def _described(error: BaseException) -> Error:
    if isinstance(error, Retry):  # on purpose: its traceback shows nothing
        return Error("E_HANDLER", _class_of(error), storable(str(error))[:LONGEST_MESSAGE])
    message = storable("".join(traceback.format_exception_only(error)).strip())[:LONGEST_MESSAGE]
    trace = storable("".join(traceback.format_exception(error, limit=-20)))
    if len(trace) > LONGEST_TRACE:
        trace = f"{trace[:LONGEST_TRACE]}\n…\n{trace[-LONGEST_MESSAGE:]}"
    return Error("E_HANDLER", _class_of(error), message, {"traceback": trace})


def _class_of(error: BaseException) -> ErrorClass:
    """The exception's own `failure_class` if it has a valid one."""
    try:
        given = error.failure_class  # type: ignore[attr-defined]
        return CLASSES[given]
    except Exception:
        return "transient"


def _retry_after(error: BaseException) -> int | None:
    """The exception's own `retry_after_ms` if it has a valid one."""
    try:
        given = error.retry_after_ms  # type: ignore[attr-defined]
    except Exception:
        return None
    return given if type(given) is int and given >= 0 else None


def _success(result: Any) -> Outcome:
    if result is None:
        return Outcome()
    try:
        text = encode_large(result)
        msgspec.json.decode(text)  # a Raw value goes through the encoder unread
    except Exception as error:
        return _no_result(f"the handler returned something that is no JSON ({type(result).__name__}: {error})")
    if len(text) > LARGEST_RESULT:
        return _no_result(f"the handler returned {len(text)} bytes of JSON; at most {LARGEST_RESULT} are kept")
    return Outcome(result=text.decode())


def _no_result(message: str) -> Outcome:
    return Outcome(error=Error("E_HANDLER", "permanent", storable(message)))
