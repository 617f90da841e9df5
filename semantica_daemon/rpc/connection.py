"""One connection: reads frames, runs its requests concurrently, answers in any order, and never disturbs another."""

import asyncio
import uuid
from typing import Any

import structlog
from msgspec import Struct

from semantica_daemon import forks
from semantica_daemon.errors import (
    InternalError,
    InvalidRequest,
    Refusal,
    RequestCancelled,
    Stopping,
)
from semantica_daemon.rpc import peer, protocol
from semantica_daemon.rpc.answers import MAX_BATCH, MAX_IN_FLIGHT, Rooms
from semantica_daemon.rpc.framing import Fatal, Framing
from semantica_daemon.rpc.methods import Method, Write, find
from semantica_daemon.rpc.protocol import NOTHING, Request
from semantica_daemon.rpc.session import Session
from semantica_daemon.store.database import LARGE, Command

log = structlog.get_logger()

IDLE_HALF_FRAME_S = 30.0
CHUNK = 65_536
MOST_TURNS = 4


class Batch(Struct):
    """Answers that go out together, once the last of them is there."""

    missing: int
    answers: list[bytes] = []


class Connection(asyncio.BufferedProtocol, Session):
    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms
        self._framing = Framing()
        self._chunk = memoryview(bytearray(CHUNK))
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1
        self._outgoing: list[bytes] = []
        self._in_flight = 0
        self._long_calls = 0
        self._paused = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._by_id: dict[bytes, asyncio.Task[None]] = {}
        self._reading = False
        self._waits_for_room = False
        self._turns = asyncio.Semaphore(MOST_TURNS)
        self._having_turns: set[asyncio.Task[Any] | None] = set()
        self._followers: dict[str, asyncio.Task[None]] = {}
        self._writable = asyncio.Event()
        self._idle: asyncio.TimerHandle | None = None
        self._eof = False
        self._closing = False

    # The transport's side

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._writable.set()
        socket = transport.get_extra_info("socket")
        self._descriptor = socket.fileno()
        forks.keep_from_children(self._descriptor)
        if not peer.is_us(socket):
            log.warning("foreign_peer_refused")
            transport.abort()
            return

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        forks.forget(self._descriptor)
        self._rooms.connections.discard(self)
        self._framing, self._outgoing = Framing(), []  # not kept until somebody looks for cycles
        self._chunk = memoryview(bytearray())
        self._writable.set()
        if self._idle is not None:
            self._idle.cancel()
        for task in [*self._tasks, *self._followers.values()]:
            task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()
        self.resume()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._chunk

    def buffer_updated(self, nbytes: int) -> None:
        try:
            self._framing.feed(self._chunk[:nbytes])
        except Fatal as fatal:
            self._refuse_and_close(fatal.refusal)
            return
        self._read()

    def eof_received(self) -> bool:
        self._eof = True
        self._read()
        return True

    # Requests

    def resume(self) -> None:
        """There is room again: go on where reading stopped."""
        if self._transport is not None and not self._closing:
            self._read()

    def _read(self) -> None:
        """Takes frames until none is whole, or until there is enough to do: then the socket has to wait."""
        if self._reading:
            return
        self._reading = True
        self._paused = False
        try:
            self._take_frames()
        except Fatal as fatal:
            self._refuse_and_close(fatal.refusal)
        finally:
            self._reading = False
        self._rooms.commands.begin()

    def _take_frames(self) -> None:
        assert self._transport is not None
        while not self._closing and not self._blocked():
            message = self._framing.next()
            if message is None:
                break
            self._message(message)
        self._watch_half_frame()
        if self._closing:
            return
        if self._blocked():
            self._paused = True
            self._transport.pause_reading()
            self._wait_for_room()
        elif self._eof:
            self._at_end()
        else:
            self._transport.resume_reading()

    def _wait_for_room(self) -> None:
        if self._rooms.commands.full and not self._waits_for_room:
            self._waits_for_room = True
            self._rooms.commands.when_room(self._room)

    def _room(self) -> None:
        self._waits_for_room = False
        self.resume()

    def _blocked(self) -> bool:
        return self._in_flight >= MAX_IN_FLIGHT or self._rooms.commands.full or not self._writable.is_set()

    def _at_end(self) -> None:
        """The client has half-closed: a last line counts without its newline, and what is in flight is answered."""
        last = self._framing.last()
        if last is not None:
            self._message(last)
        self._close_when_done()

    def _message(self, message: bytes) -> None:
        if message[:1] == b"[":
            self._batch(message)
        else:
            self._request(message, None)

    def _batch(self, message: bytes) -> None:
        try:
            parts = protocol.parse_many(message)
            if not parts or len(parts) > MAX_BATCH:
                raise InvalidRequest(f"a batch holds 1 to {MAX_BATCH} requests, this one {len(parts)}", "split it")
        except Refusal as refusal:
            self._send(protocol.error_reply(NOTHING, refusal))
            return
        batch = Batch(missing=len(parts), answers=[])
        for part in parts:
            self._request(bytes(part), batch)

    def _request(self, message: bytes, batch: Batch | None) -> None:
        try:
            request = protocol.parse(message)
        except Refusal as refusal:
            self._answer(protocol.error_reply(protocol.id_of(message), refusal), batch)
            return
        self._in_flight += 1
        try:
            method = find(request.method)
            params = protocol.arguments(request, method.decoder, method.wire.params.__struct_fields__)
            self._call(method, request, params, batch)
        except Exception as error:
            self._done(request, error, batch)

    def _call(self, method: Method, request: Request, params: Any, batch: Batch | None) -> None:
        call = method.call
        if isinstance(call, Write):
            if self._rooms.lifecycle.status == "stopping":
                raise Stopping("the daemon is stopping", "call again when it is back")
            command = Command(call.verb, call.prepare(self._rooms, params), getattr(params, "durable", False))
            slow = len(memoryview(request.params)) > LARGE
            self._rooms.commands.submit(command, lambda result: self._done(request, result, batch), slow=slow)
            return
        key = protocol.same(request.id)
        task = asyncio.get_running_loop().create_task(self._run(method, request, params, batch))
        self._tasks.add(task)
        self._by_id[key] = task
        task.add_done_callback(lambda done: self._forget(key, done))

    def _forget(self, key: bytes, task: "asyncio.Task[None]") -> None:
        self._tasks.discard(task)
        if self._by_id.get(key) is task:
            del self._by_id[key]
        if task in self._having_turns:
            self._having_turns.discard(task)
            self._turns.release()

    async def _run(self, method: Method, request: Request, params: Any, batch: Batch | None) -> None:
        """The catch-all around a request."""
        try:
            assert not isinstance(method.call, Write)
            if method.wire.waits:
                self._long_calls += 1
            else:
                await self.turn()
            result: Any = await method.call(self._rooms, self, params)
        except asyncio.CancelledError:
            if self._closing:
                raise
            result = RequestCancelled("cancelled by the client", "the job itself goes on; job.cancel ends it")
        except Exception as error:
            result = error
        if method.wire.waits:
            self._long_calls -= 1
        self._done(request, result, batch)

    def _done(self, request: Request, result: Any, batch: Batch | None) -> None:
        self._in_flight -= 1
        self._answer(_answer_to(request, result) if request.key else b"", batch)
        if self._in_flight == 0:
            self._flush()
        if self._eof:
            self._close_when_done()
        elif self._paused and self._has_room():
            self.resume()

    def _has_room(self) -> bool:
        """Half of the calls that do not wait are done: reading on after each one would cost a wake-up a call."""
        return self._in_flight - self._long_calls <= (MAX_IN_FLIGHT - self._long_calls) // 2

    # Answers

    def _answer(self, answer: bytes, batch: Batch | None) -> None:
        if batch is None:
            if answer:
                self._send(answer)
            return
        batch.missing -= 1
        if answer:
            batch.answers.append(answer)
        if batch.missing == 0 and batch.answers:
            self._send(b"[" + b",".join(batch.answers) + b"]")

    def _send(self, message: bytes) -> None:
        """Gathered until the loop turns: a batch of answers is one write, not one each."""
        if self._closing:
            return
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self._flush)
        self._outgoing.append(self._framing.wrap(message))

    def _flush(self) -> None:
        gathered, self._outgoing = self._outgoing, []
        if self._transport is not None and gathered:
            self._transport.write(b"".join(gathered))

    async def turn(self) -> None:
        """Few answers at a time, and none while the client does not read what it has: a thousand calls for large
        jobs must not be a thousand large jobs in memory."""
        await self._turns.acquire()
        self._having_turns.add(asyncio.current_task())
        await self._writable.wait()

    async def notify(self, method: str, params: Any) -> None:
        """Waits while the client does not read: a subscriber costs its own delay and one message."""
        self._send(protocol.notification(method, params))
        self._flush()
        await self._writable.wait()

    def cancel_request(self, request_id: Any) -> None:
        task = self._by_id.get(protocol.encode(request_id))
        if task is not None:
            task.cancel()

    @property
    def following(self) -> int:
        return len(self._followers)

    def follow(self, name: str, task: "asyncio.Task[None]") -> None:
        self._followers[name] = task
        task.add_done_callback(lambda _: self._followers.pop(name, None))

    def unfollow(self, name: str) -> bool:
        task = self._followers.pop(name, None)
        if task is not None:
            task.cancel()
        return task is not None

    # Ends

    def close(self) -> None:
        """After what was already said."""
        self._flush()
        self._closing = True
        if self._transport is not None:
            self._transport.close()

    def hang_up_if_gone(self) -> None:
        """A client that is gone looks like one that has half-closed, or like one that is not read because it has
        asked for too much, until the socket is asked: only then is nobody left to answer, and its waits end."""
        if self._closing or self._transport is None or not (self._eof or self._blocked()):
            return
        if not peer.is_gone(self._descriptor):
            return
        for task in [*self._tasks, *self._followers.values()]:
            task.cancel()
        if self._eof:
            self._transport.abort()

    def _close_when_done(self) -> None:
        if self._in_flight == 0 and not self._followers:
            self.close()

    def _refuse_and_close(self, refusal: Refusal) -> None:
        self._send(protocol.error_reply(NOTHING, refusal))
        self.close()

    def _watch_half_frame(self) -> None:
        """Half a frame may wait IDLE_HALF_FRAME_S for its rest, counted from its newest byte."""
        if self._idle is not None:
            self._idle.cancel()
            self._idle = None
        if self._framing.partial and not (self._eof or self._closing or self._blocked()):
            refusal = InvalidRequest(
                f"half a message, and nothing more for {IDLE_HALF_FRAME_S:.0f} s",
                "end each line with a newline, or send as many bytes as Content-Length says",
            )
            loop = asyncio.get_running_loop()
            self._idle = loop.call_later(IDLE_HALF_FRAME_S, self._refuse_and_close, refusal)


def _answer_to(request: Request, result: Any) -> bytes:
    """Whatever it is, an answer: this is called from the writer too, which must not fail for one of its callers."""
    try:
        if isinstance(result, Refusal):
            return protocol.error_reply(request.id, result)
        if not isinstance(result, Exception):
            return protocol.reply(request.id, result)
    except Exception as error:
        result = error
    return protocol.error_reply(request.id, _internal(request, result))


def _internal(request: Request, error: Exception) -> Refusal:
    """The caller gets an id to ask about, never a traceback."""
    error_id = uuid.uuid4().hex[:12]
    log.error("request_failed", method=request.method, error_id=error_id, exc_info=error)
    return InternalError(
        f"internal error {error_id}", "the daemon's log has the details under this id", error_id=error_id
    )
