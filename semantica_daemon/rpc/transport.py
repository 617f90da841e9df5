"""The bytes of one connection: framing, reading and when it pauses, writing, and the timeout of partial frames.

The receiver (`rpc/connection`) handles the messages.
"""

import asyncio
import os
from typing import Protocol

import structlog

from semantica_daemon import forks
from semantica_daemon.errors import InvalidRequest, Refusal
from semantica_daemon.rpc import peer, protocol
from semantica_daemon.rpc.framing import Framing, Message

log = structlog.get_logger()

IDLE_HALF_FRAME_S = 30.0
# asyncio fills it and has it read in one step, so all connections share it.
CHUNK = memoryview(bytearray(65_536))


class Receiver(Protocol):
    """The owner of a transport."""

    def room(self) -> int:
        """How many messages the receiver takes now. With 0 the transport stops reading, until the receiver calls
        `resume`, when there is room."""

    def receive(self, message: bytes) -> None: ...

    def has_room_for(self, reply_bytes: int) -> bool:
        """Whether a large reply may be sent now, given the replies of all connections that their clients have not
        read."""

    def has_read(self) -> None:
        """All complete messages were passed on."""

    def close_when_done(self) -> None:
        """The client has half-closed: closes the connection once everything is replied to and no subscription is
        left."""

    def on_client_gone(self) -> None:
        """The client no longer reads replies."""

    def on_closed(self) -> None:
        """The connection is closed."""


class Transport(asyncio.BufferedProtocol):
    def __init__(self, receiver: Receiver) -> None:
        self.ended = False  # the client has half-closed, and all it has sent was received
        self.closing = False
        self._receiver = receiver
        self._framing = Framing()
        self._transport: asyncio.Transport | None = None
        self._descriptor = -1
        self._outgoing: list[Message] = []
        self._eof = False
        self._is_reading = False
        self._paused = False
        self._writable = asyncio.Event()
        self._half_frame: asyncio.TimerHandle | None = None

    @property
    def writable(self) -> bool:
        """False while the client does not read."""
        return self._writable.is_set()

    @property
    def unsent_bytes(self) -> int:
        """What was sent and not yet taken by the socket."""
        written = 0 if self._transport is None else self._transport.get_write_buffer_size()
        return written + sum(map(len, self._outgoing))

    def send(self, message: Message) -> None:
        """Collects messages until the next turn of the loop, so that many replies are one write."""
        if self.closing:
            return
        if not self._outgoing:
            asyncio.get_running_loop().call_soon(self.flush)
        self._outgoing.append(message)

    def flush(self) -> None:
        if self._outgoing and self._transport is not None:
            gathered, self._outgoing = self._outgoing, []
            try:
                self._transport.write(self._framing.wrap(gathered))
            except MemoryError:  # a part may be written, so nothing else can follow
                log.error("connection_aborted", reason="out of memory")
                self._transport.abort()

    async def drained(self) -> None:
        """Waits while the client does not read."""
        await self._writable.wait()

    def resume(self) -> None:
        """Reads on: the receiver takes messages again."""
        if self._transport is not None and not self.closing:
            self._read()

    def close(self) -> None:
        """Closes after everything that was sent has been written."""
        self.flush()
        self.closing = True
        if self._transport is not None:
            self._transport.close()

    def refuse_and_close(self, refusal: Refusal) -> None:
        self.send(protocol.error_reply(None, refusal))
        self.close()

    def close_if_gone(self) -> None:
        """Closes the connection if its client is gone. Only the socket can show that: otherwise the client looks like
        one that has half-closed, or like one whose messages are not read."""
        if (self._eof or self._paused) and not self.closing and self.client_is_gone():
            self._receiver.on_client_gone()
            if self._eof and self._transport is not None:
                self._transport.abort()

    def client_is_gone(self) -> bool:
        """Whether no reply can reach the client any more; one that has half-closed still reads."""
        return self.closing or (self._transport is not None and peer.is_gone(self._descriptor))

    # Called by asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._writable.set()
        socket = transport.get_extra_info("socket")
        self._descriptor = socket.fileno()
        forks.keep_from_children(self._descriptor)
        if (uid := peer.uid_of(socket)) != os.getuid():
            log.warning("foreign_peer_refused", uid=uid)
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self.closing = True
        forks.forget(self._descriptor)
        self._framing, self._outgoing = Framing(), []  # freed now, not by the next look for cycles
        self._writable.set()
        if self._half_frame is not None:
            self._half_frame.cancel()
        self._receiver.on_closed()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()
        self.resume()

    def get_buffer(self, sizehint: int) -> memoryview:
        return CHUNK

    def buffer_updated(self, nbytes: int) -> None:
        self._framing.feed(CHUNK[:nbytes])
        self._read()

    def eof_received(self) -> bool:
        self._eof = True
        self._read()
        return True

    # Reading

    def _read(self) -> None:
        """Passes complete messages on while the receiver takes them, then reads on, pauses or ends."""
        if self._is_reading:
            return
        self._is_reading = True
        try:
            self._take_messages()
        except Refusal as refusal:
            self.refuse_and_close(refusal)
        finally:
            self._is_reading = False
        self._receiver.has_read()

    def _take_messages(self) -> None:
        has_room = True
        while not self.closing and (has_room := (most := self._receiver.room()) > 0):
            messages = self._framing.take(most)
            if not messages:
                break
            for message in messages:
                if not self.closing:
                    self._receiver.receive(message)
        self._watch_half_frame(has_room)
        if not self.closing:
            self._go_on(has_room)

    def _go_on(self, has_room: bool) -> None:
        assert self._transport is not None
        if not has_room:
            self._paused = True
            self._transport.pause_reading()
        elif self._eof:
            self._end_input()
        elif self._paused:
            self._paused = False
            self._transport.resume_reading()

    def _end_input(self) -> None:
        """Passes on the last line even if it has no newline."""
        last = self._framing.last()
        if last is not None:
            self._receiver.receive(last)
        self._paused, self.ended = False, True
        self._receiver.close_when_done()

    def _watch_half_frame(self, has_room: bool) -> None:
        """The rest of a message must follow within IDLE_HALF_FRAME_S of its newest byte."""
        if self._half_frame is not None:
            self._half_frame.cancel()
            self._half_frame = None
        if self._framing.partial and has_room and not (self._eof or self.closing):
            refusal = InvalidRequest(
                f"half a message, and nothing more for {IDLE_HALF_FRAME_S:.0f} s",
                "end each line with a newline, or send as many bytes as Content-Length says",
            )
            loop = asyncio.get_running_loop()
            self._half_frame = loop.call_later(IDLE_HALF_FRAME_S, self.refuse_and_close, refusal)
