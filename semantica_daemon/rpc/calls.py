"""The calls of one connection: requests in flight, batches, cancellation and replies."""

import asyncio
import uuid
from functools import partial
from typing import Any

import structlog
from msgspec import UNSET, Struct

from semantica_daemon.engine.commands import CommandQueue, Entry
from semantica_daemon.engine.lifecycle import Lifecycle
from semantica_daemon.engine.writer import Writer
from semantica_daemon.errors import (
    InternalError,
    InvalidRequest,
    OutOfMemory,
    Refusal,
    RequestCancelled,
    Stopping,
    TooManyUnreadReplies,
)
from semantica_daemon.model.encoding import check_memory
from semantica_daemon.rpc import protocol
from semantica_daemon.rpc.binding import Call, ConnectionCall, Immediate, Method, Write, unknown_method
from semantica_daemon.rpc.framing import Message
from semantica_daemon.rpc.protocol import Request
from semantica_daemon.rpc.transport import Receiver, Transport
from semantica_daemon.store.database import LARGE, Command

log = structlog.get_logger()

MAX_IN_FLIGHT = 1000
MAX_BATCH = 1000
MAX_TURNS = 4


class Services(Struct, frozen=True):
    """Dependencies shared by the calls of all connections."""

    methods: dict[str, Method]
    commands: CommandQueue
    writer: Writer
    lifecycle: Lifecycle


class Batch(Struct):
    """Replies that are sent together, once the last of them is there."""

    missing: int
    answers: list[Message]


class Calls:
    def __init__(self, services: Services, transport: Transport, connection: Receiver) -> None:
        """`connection`: given to the methods that use it."""
        self.in_flight = 0
        self.full = False
        self.batched_bytes = 0  # of replies that wait for the rest of their batch
        self._methods = services.methods
        self._commands = services.commands
        self._lifecycle = services.lifecycle
        self._transport = transport
        self._connection = connection
        self._waiting = 0  # calls of methods that wait
        self._tasks: dict[asyncio.Task[None], Request] = {}
        self._turns = asyncio.Semaphore(MAX_TURNS)
        self._having_turns: set[asyncio.Task[Any] | None] = set()

    def start(self, request: Request, is_large: bool, batch: Batch | None = None) -> None:
        """`is_large`: the request is large, so a write runs in the writer's thread."""
        self.in_flight += 1
        if self.in_flight >= MAX_IN_FLIGHT:
            self.full = True
        try:
            method = self._methods.get(request.method)
            if method is None:
                raise unknown_method(request.method)
            params = protocol.arguments(request, method.decode, method.fields)
            if method.binding.writes and self._lifecycle.status == "stopping":
                raise Stopping("the daemon is stopping", "call again when it is back")
            if type(method.binding) is Write:
                self._write(method.binding, request, params, is_large, batch)
            elif type(method.binding) is Immediate:
                self._finish(request, batch, method.binding.function(self._connection, params))
            else:
                self._begin(method, request, params, batch)
        except Exception as error:
            self._finish(request, batch, error)

    def start_batch(self, message: bytes) -> None:
        try:
            parts = protocol.parse_many(message)
            if not parts or len(parts) > MAX_BATCH:
                raise InvalidRequest(f"a batch holds 1 to {MAX_BATCH} requests, this one {len(parts)}", "split it")
        except Refusal as refusal:
            self._transport.send(protocol.error_reply(None, refusal))
            return
        batch = Batch(len(parts), [])
        for part in parts:
            text = bytes(part)
            try:
                request = protocol.parse(text)
            except Refusal as refusal:
                self._answer(protocol.error_reply(protocol.id_of(text), refusal), batch)
            else:
                self.start(request, len(text) > LARGE, batch)

    def cancel(self, request_id: Any) -> None:
        """Ends a call that is a task; a write that is queued is finished and replied to."""
        for task, request in self._tasks.items():
            if request.id == request_id:
                task.cancel()

    def cancel_all(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def turn(self) -> None:
        """Allows few replies at a time, and none while the client does not read: a thousand calls for large jobs must
        not hold a thousand large jobs in memory."""
        await self._turns.acquire()
        self._having_turns.add(asyncio.current_task())
        await self._transport.drained()

    def _write(self, binding: Write, request: Request, params: Any, is_large: bool, batch: Batch | None) -> None:
        if is_large:
            check_memory(4 * memoryview(request.params).nbytes)  # for the encoder, which ends the process without it
        prepared = params if binding.prepare is None else binding.prepare(params)
        command = Command(binding.verb, prepared, getattr(params, "durable", False))
        self._commands.add(Entry(command, partial(self._finish, request, batch), False, is_large or command.durable))

    def _begin(self, method: Method, request: Request, params: Any, batch: Batch | None) -> None:
        task = asyncio.get_running_loop().create_task(self._run(method, request, params, batch))
        self._waiting += method.waits
        self._tasks[task] = request
        task.add_done_callback(partial(self._end, method, request, batch))

    async def _run(self, method: Method, request: Request, params: Any, batch: Batch | None) -> None:
        """Runs the call and replies, unless the task is cancelled; catches every error."""
        try:
            if not method.waits:
                await self.turn()
            if isinstance(method.binding, ConnectionCall):
                result = await method.binding.function(self._connection, params)
            else:
                assert isinstance(method.binding, Call)
                result = await method.binding.function(params)
        except Exception as error:
            result = error
        self._waiting -= method.waits
        self._finish(request, batch, result, method.binding.writes)

    def _end(self, method: Method, request: Request, batch: Batch | None, task: "asyncio.Task[None]") -> None:
        """Replies to a cancelled call here, because a task that is cancelled before its first step never runs."""
        del self._tasks[task]
        if task in self._having_turns:
            self._having_turns.discard(task)
            self._turns.release()
        if task.cancelled():
            self._waiting -= method.waits
            hint = "the job itself goes on; job.cancel ends it"
            self._finish(request, batch, RequestCancelled("cancelled by the client", hint))

    def _finish(self, request: Request, batch: Batch | None, result: Any, has_written: bool = True) -> None:
        """`has_written`: the call cannot be refused any more, however large its reply is."""
        self.in_flight -= 1
        answer = b"" if request.id is UNSET else _answer_to(request, result, has_written)
        if len(answer) > LARGE and not has_written and (refusal := self._too_large(len(answer))) is not None:
            answer = _answer_to(request, refusal)
        self._answer(answer, batch)
        if self.in_flight == 0:
            self._transport.flush()
        if self.full and self._half_done():
            self.full = False
            self._transport.resume()
        if self._transport.ended:
            self._connection.close_when_done()

    def _too_large(self, reply_bytes: int) -> Refusal | None:
        if not self._connection.has_room_for(reply_bytes):
            return TooManyUnreadReplies(
                f"no room for a reply of {reply_bytes} bytes: too many large replies wait for clients that do not read",
                "call again when the other clients have read theirs, or ask for less",
            )
        try:
            check_memory(4 * reply_bytes)  # the framing and asyncio copy it; half a reply could not be taken back
        except MemoryError:
            return OutOfMemory()
        return None

    def _half_done(self) -> bool:
        """Whether half of the calls that do not wait are done: reading on after each reply would read one call at a
        time."""
        return self.in_flight - self._waiting <= (MAX_IN_FLIGHT - self._waiting) // 2

    def _answer(self, answer: Message, batch: Batch | None) -> None:
        if batch is None:
            if answer:
                self._transport.send(answer)
            return
        batch.missing -= 1
        if answer:
            batch.answers.append(answer)
            self.batched_bytes += len(answer)
        if batch.missing == 0 and batch.answers:
            self._transport.send(b"[" + b",".join(batch.answers) + b"]")
            self.batched_bytes -= sum(map(len, batch.answers))


def _answer_to(request: Request, result: Any, is_small: bool = True) -> Message:
    """The reply, whatever the result is: the writer calls this too, and must not fail because of one caller's
    result."""
    assert request.id is not UNSET
    try:
        if not isinstance(result, Exception):
            return protocol.reply(request.id, result) if is_small else protocol.large_reply(request.id, result)
        if isinstance(result, Refusal):
            return protocol.error_reply(request.id, result)
    except Exception as error:
        result = error
    refusal = OutOfMemory() if isinstance(result, MemoryError) else _internal(request.method, result)
    return protocol.error_reply(request.id, refusal)


def _internal(method: str, error: Exception) -> Refusal:
    """The error for a bug: the caller gets an id that is in the log too, never a traceback."""
    error_id = uuid.uuid4().hex[:12]
    log.error("request_failed", method=method, error_id=error_id, exc_info=error)
    return InternalError(
        f"internal error {error_id}", "the daemon's log has the details under this id", error_id=error_id
    )
