"""The server: listens at the socket's path, checks every few seconds that it can still be reached, and closes."""

import asyncio
import socket

import structlog

from semantica_daemon import forks
from semantica_daemon.clock import Clock
from semantica_daemon.errors import HomeLost, StartRefused
from semantica_daemon.lock import HomeLock
from semantica_daemon.paths import make_private
from semantica_daemon.rpc.connections import Connections
from semantica_daemon.rpc.socket_file import SocketFile

log = structlog.get_logger()

CHECK_EVERY_MS = 5000
BACKLOG = 1024
AT_ONCE = 16  # accepted in one go; out of file descriptors, asyncio logs an error that many times a second


class Server:
    def __init__(self, file: SocketFile, connections: Connections, lock: HomeLock, clock: Clock) -> None:
        self._file = file
        self._connections = connections
        self._lock = lock
        self._clock = clock
        self._listener: asyncio.Server | None = None

    async def open(self) -> None:
        self._file.refuse_if_foreign()
        try:
            self._listener = await listen(self._file.bind(), self._connections)
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
        self._connections.close_gone()
        return self._clock.now() + CHECK_EVERY_MS

    async def _listen_again(self, old: asyncio.Server) -> None:
        """Does nothing if the folder was moved, or another daemon answers at the path by now."""
        path = self._file.path
        try:
            if self._lock.is_moved or self._file.is_answered():
                log.error("socket_cannot_be_bound", path=str(path), reason="the folder was moved, or is taken")
                return
            make_private(path.parent)
            self._listener = await listen(self._file.bind(), self._connections)
            stop_listening(old)
        except OSError as error:
            log.error("socket_cannot_be_bound", path=str(path), reason=str(error))

    def close(self) -> None:
        """Accepts no new connections. Removes the file first, so that clients see at once that no daemon is there."""
        listener, self._listener = self._listener, None  # or the next check would bind it again
        self._file.remove()
        if listener is not None:
            stop_listening(listener)

    def hang_up(self) -> None:
        self._connections.close_all()


async def listen(bound: socket.socket, connections: Connections) -> asyncio.Server:
    """Listens on a socket that is bound already, and hands each new client to the connections."""
    forks.keep_from_children(bound.fileno())
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(connections.accept, sock=bound, backlog=AT_ONCE)
    bound.listen(BACKLOG)
    return server


def stop_listening(server: asyncio.Server) -> None:
    """Accepts no new connections; open ones stay."""
    for listening in server.sockets:
        forks.forget(listening.fileno())
    server.close()
