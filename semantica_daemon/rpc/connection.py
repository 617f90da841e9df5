"""One connection: routes the messages of its transport to calls and client requests, and ends all of it together."""

from collections.abc import Callable
from typing import Any

from semantica_daemon.errors import OutOfMemory, Refusal
from semantica_daemon.rpc import protocol
from semantica_daemon.rpc.calls import MAX_IN_FLIGHT, Calls, Services
from semantica_daemon.rpc.client_requests import ClientRequests
from semantica_daemon.rpc.subscriptions import Subscriptions
from semantica_daemon.rpc.transport import Receiver, Transport
from semantica_daemon.store.database import LARGE

OpenConnections = set["Connection"]
MAX_UNREAD_BYTES = 100_000_000  # of replies, in all connections together


class Connection(Receiver):
    """Registers itself in `connections` until it closes. Methods use its subscriptions, calls and requests."""

    def __init__(self, services: Services, connections: OpenConnections) -> None:
        self.transport = Transport(self)
        self.subscriptions = Subscriptions()
        self.requests = ClientRequests(self.transport)
        self.calls = Calls(services, self.transport, self)
        self.at_end: list[Callable[[], None]] = []  # called when the client is gone
        self._commands = services.commands
        self._writer = services.writer
        self._open = connections
        connections.add(self)

    async def notify(self, method: str, params: Any) -> None:
        """Sends a notification, and waits while the client does not read."""
        self.transport.send(protocol.notification(method, params))
        self.transport.flush()
        await self.transport.drained()

    # Receiver

    def room(self) -> int:
        if self._commands.full:
            self._commands.when_room(self.transport.resume)
        if self.calls.full or not self.transport.writable:
            return 0
        return min(MAX_IN_FLIGHT - self.calls.in_flight, self._commands.room)

    def receive(self, message: bytes) -> None:
        try:
            self._receive(message)
        except MemoryError:
            self.transport.send(protocol.error_reply(protocol.id_of(message), OutOfMemory()))

    def _receive(self, message: bytes) -> None:
        if message[:1] == b"[":
            self.calls.start_batch(message)
            return
        try:
            request = protocol.parse(message)
        except Refusal as refusal:
            if not self.requests.resolve(message):
                self.transport.send(protocol.error_reply(protocol.id_of(message), refusal))
            return
        self.calls.start(request, len(message) > LARGE)

    def has_room_for(self, reply_bytes: int) -> bool:
        waiting = sum(one.transport.unsent_bytes + one.calls.batched_bytes for one in self._open)
        return waiting + reply_bytes <= MAX_UNREAD_BYTES

    def has_read(self) -> None:
        self._writer.begin()

    def close_when_done(self) -> None:
        """No response to a request of the daemon can come any more; replies and events still reach the client."""
        self.requests.close()
        if self.calls.in_flight == 0 and not self.subscriptions:
            self.transport.close()

    def on_client_gone(self) -> None:
        self.calls.cancel_all()
        self.subscriptions.end_all()
        while self.at_end:
            self.at_end.pop()()

    def on_closed(self) -> None:
        self._open.discard(self)
        self.requests.close()
        self.on_client_gone()
