"""The open connections: their limit, and what is done to all of them."""

import asyncio

from msgspec import Struct

from semantica_daemon.errors import TooManyConnections
from semantica_daemon.rpc import protocol
from semantica_daemon.rpc.calls import Services
from semantica_daemon.rpc.connection import Connection, OpenConnections

MAX_CONNECTIONS = 1000


class Connections(Struct, frozen=True):
    services: Services
    open: OpenConnections

    def accept(self) -> asyncio.BaseProtocol:
        """The protocol of a new client. It counts at once, because asyncio accepts many connections before it opens the
        first."""
        if len(self.open) >= MAX_CONNECTIONS:
            return _Refused()
        return Connection(self.services, self.open).transport

    def close_gone(self) -> None:
        for connection in list(self.open):
            connection.transport.close_if_gone()

    def close_all(self) -> None:
        for connection in list(self.open):
            connection.transport.close()


class _Refused(asyncio.Protocol):
    """One connection too many: it gets an error and is closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        refusal = TooManyConnections(f"{MAX_CONNECTIONS} connections are open, the limit", "close some and try again")
        transport.write(protocol.error_reply(None, refusal) + b"\n")
        transport.close()
