"""The open connections: their limit, and what is done to all of them."""

import asyncio

from semantica_daemon.errors import TooManyConnections
from semantica_daemon.rpc import protocol
from semantica_daemon.rpc.calls import Services
from semantica_daemon.rpc.connection import Connection, OpenConnections

MAX_CONNECTIONS = 1000


class Connections:
    def __init__(self, services: Services, open_connections: OpenConnections) -> None:
        self._services = services
        self._open = open_connections

    def accept(self) -> asyncio.BaseProtocol:
        """The protocol of a new client. It counts at once, because asyncio accepts many connections before it opens the
        first."""
        if len(self._open) >= MAX_CONNECTIONS:
            return _Refused()
        return Connection(self._services, self._open).transport

    def close_gone(self) -> None:
        for connection in list(self._open):
            connection.transport.close_if_gone()

    def close_all(self) -> None:
        for connection in list(self._open):
            connection.close()


class _Refused(asyncio.Protocol):
    """One connection too many: it gets an error and is closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        refusal = TooManyConnections(f"{MAX_CONNECTIONS} connections are open, the limit", "close some and try again")
        transport.write(protocol.error_reply(protocol.NO_ID, refusal) + b"\n")
        transport.close()
