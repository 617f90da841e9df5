"""The server: listens at the socket's path, accepts connections up to a limit, checks every few seconds that it can
still be reached, and closes."""

import asyncio
import socket

import structlog

from semantica_daemon import forks
from semantica_daemon.clock import Clock
from semantica_daemon.errors import HomeLost, StartRefused, TooManyConnections
from semantica_daemon.lock import HomeLock
from semantica_daemon.paths import make_private
from semantica_daemon.rpc import protocol
from semantica_daemon.rpc.calls import Services
from semantica_daemon.rpc.connection import Connection, OpenConnections
from semantica_daemon.rpc.socket_file import SocketFile

log = structlog.get_logger()

MAX_CONNECTIONS = 1000
CHECK_EVERY_MS = 5000
BACKLOG = 1024
AT_ONCE = 16  # accepted in one go; out of file descriptors, asyncio logs an error that many times a second


class Server:
    def __init__(
        self, file: SocketFile, services: Services, connections: OpenConnections, lock: HomeLock, clock: Clock
    ) -> None:
        self._file = file
        self._services = services
        self._connections = connections
        self._lock = lock
        self._clock = clock
        self._listener: asyncio.Server | None = None

    async def open(self) -> None:
        try:
            self._listener = await self.listen(self._file.open())
        except OSError as error:
            hint = "set SEMANTICA_SOCKET to another path"
            raise StartRefused(f"cannot listen on {self._file.path}: {error}; {hint}", 77) from error

    async def check(self) -> int:
        """A pass. Binds a socket file again that was removed or replaced (if that fails, the next pass tries again),
        and closes connections whose client is gone. Without its lock or its database the daemon would acknowledge jobs
        that no later daemon can read, so it stops."""
        if (path := self._lock.lost()) is not None:
            raise HomeLost(f"{path} was removed or replaced while the daemon was running")
        if self._listener is not None and not self._file.is_unchanged:
            log.warning("socket_was_removed", path=str(self._file.path))
            await self._listen_again(self._listener)
        for connection in list(self._connections):
            connection.transport.close_if_gone()
        return self._clock.now() + CHECK_EVERY_MS

    async def _listen_again(self, old: asyncio.Server) -> None:
        """Does nothing if the folder was moved, or another daemon answers at the path by now."""
        path = self._file.path
        try:
            if self._lock.is_moved or self._file.is_answered():
                log.error("socket_cannot_be_bound", path=str(path), reason="the folder was moved, or is taken")
                return
            make_private(path.parent)
            self._listener = await self.listen(self._file.bind())
            stop_listening(old)
        except OSError as error:
            log.error("socket_cannot_be_bound", path=str(path), reason=str(error))

    async def listen(self, bound: socket.socket) -> asyncio.Server:
        """Listens on a socket that is bound already."""
        forks.keep_from_children(bound.fileno())
        loop = asyncio.get_running_loop()
        # Not create_unix_server, which since Python 3.13 removes the file when it closes: it may be systemd's.
        listener = await loop.create_server(self._accept, sock=bound, backlog=AT_ONCE)
        bound.listen(BACKLOG)
        return listener

    def _accept(self) -> asyncio.BaseProtocol:
        """The protocol of a new client. It counts at once, because asyncio accepts many connections before it opens the
        first."""
        if len(self._connections) >= MAX_CONNECTIONS:
            return _Refused()
        return Connection(self._services, self._connections).transport

    def close(self) -> None:
        """Accepts no new connections. Removes the file first, so that clients see at once that no daemon is there."""
        listener, self._listener = self._listener, None  # or the next check would bind it again
        self._file.remove()
        if listener is not None:
            stop_listening(listener)

    def hang_up(self) -> None:
        for connection in list(self._connections):
            connection.transport.close()


class _Refused(asyncio.Protocol):
    """One connection too many: it gets an error and is closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        refusal = TooManyConnections(f"{MAX_CONNECTIONS} connections are open, the limit", "close some and try again")
        transport.write(protocol.error_reply(None, refusal) + b"\n")
        transport.close()


def stop_listening(listener: asyncio.Server) -> None:
    """Accepts no new connections; open ones stay."""
    for listening in listener.sockets:
        forks.forget(listening.fileno())
    listener.close()
