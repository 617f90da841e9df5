"""One connection: routes the messages of its transport to calls and client requests, and ends all of it together."""

from typing import Any

from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.errors import Refusal
from semantica_daemon.rpc import protocol
from semantica_daemon.rpc.calls import MAX_IN_FLIGHT, Calls, Services
from semantica_daemon.rpc.client_requests import TIMEOUT_S, ClientRequests
from semantica_daemon.rpc.session import Session
from semantica_daemon.rpc.subscriptions import Subscriptions
from semantica_daemon.rpc.transport import Receiver, Transport
from semantica_daemon.store.database import LARGE

OpenConnections = set["Connection"]


class Connection(Session, Receiver):
    """Registers itself in `connections` until it closes."""

    def __init__(self, services: Services, connections: OpenConnections) -> None:
        self.transport = Transport(self)
        self._subscriptions = Subscriptions()
        self._requests = ClientRequests(self.transport)
        self._calls = Calls(services, self.transport, self)
        self._commands: CommandQueue = services.commands
        self._waits_for_commands = False
        self._open = connections
        connections.add(self)

    # Receiver

    def room(self) -> int:
        if self._calls.full or not self.transport.writable:
            return 0
        return min(MAX_IN_FLIGHT - self._calls.in_flight, self._commands.room)

    def receive(self, message: bytes) -> None:
        if message[:1] == b"[":
            self._calls.start_batch(message)
            return
        try:
            request = protocol.parse(message)
        except Refusal as refusal:
            if not self._requests.resolve(message):
                self.transport.send(protocol.error_reply(protocol.id_of(message), refusal))
            return
        self._calls.start(request, len(message) > LARGE)

    def pause(self) -> None:
        if self._commands.full and not self._waits_for_commands:
            self._waits_for_commands = True
            self._commands.when_room(self._commands_have_room)

    def has_read(self) -> None:
        self._commands.begin()

    def input_ended(self) -> None:
        self._requests.close()
        self.close_when_done()

    def on_client_gone(self) -> None:
        self._calls.cancel_all()
        self._subscriptions.end_all()

    def on_closed(self) -> None:
        self._open.discard(self)
        self._requests.close()
        self.on_client_gone()

    def _commands_have_room(self) -> None:
        self._waits_for_commands = False
        self.transport.resume()

    # Session

    @property
    def subscriptions(self) -> Subscriptions:
        return self._subscriptions

    async def turn(self) -> None:
        await self._calls.turn()

    async def notify(self, method: str, params: Any) -> None:
        self.transport.send(protocol.notification(method, params))
        self.transport.flush()
        await self.transport.drained()

    async def request(self, method: str, params: Any, timeout_s: float = TIMEOUT_S) -> Any:
        return await self._requests.request(method, params, timeout_s)

    def cancel_call(self, request_id: Any) -> None:
        self._calls.cancel(request_id)

    def close(self) -> None:
        self.transport.close()

    def close_when_done(self) -> None:
        """After the client has half-closed: closes once everything is replied to and no subscription is left."""
        if self._calls.in_flight == 0 and not self._subscriptions:
            self.close()
