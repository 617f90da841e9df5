"""The socket: bound under the lock only, for our own uid only, a bounded number of connections."""

import asyncio
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

import structlog

from semantica_daemon import forks
from semantica_daemon.errors import HomeLost, StartRefused, TooManyConnections
from semantica_daemon.lock import Held
from semantica_daemon.paths import make_private
from semantica_daemon.rpc import protocol
from semantica_daemon.rpc.answers import MAX_CONNECTIONS, Rooms
from semantica_daemon.rpc.connection import Connection

log = structlog.get_logger()

BACKLOG = 1024
AT_ONCE = 16  # accepted in one go; out of file descriptors, asyncio complains that many times a second
CHECK_EVERY_MS = 5000


class Server:
    def __init__(self, path: Path, rooms: Rooms, held: Held) -> None:
        self._path = path
        self._rooms = rooms
        self._held = held
        self._server: asyncio.Server | None = None
        self._inode: tuple[int, int] | None = None
        self._descriptor = -1

    async def open(self) -> None:
        refuse_if_foreign(self._path)
        try:
            await self._listen()
        except OSError as error:
            hint = "set SEMANTICA_SOCKET to another path"
            raise StartRefused(f"cannot listen on {self._path}: {error}; {hint}", 77) from error

    async def check(self) -> int:
        """A pass: a socket file that was deleted or replaced is bound again (if that fails, the next time), and
        clients that are gone are let go. Without its lock or database the daemon would acknowledge what nobody can
        ever read again: it leaves."""
        if (path := self._held.lost()) is not None:
            raise HomeLost(f"{path} was removed or replaced while the daemon was running")
        if self._server is not None and _inode(self._path) != self._inode:
            log.warning("socket_was_removed", path=str(self._path))
            await self._listen_again(self._server)
        for connection in list(self._rooms.connections):
            connection.hang_up_if_gone()
        return self._rooms.clock.now() + CHECK_EVERY_MS

    async def _listen_again(self, old: asyncio.Server) -> None:
        """Unless the folder is elsewhere, or another daemon answers there by now."""
        try:
            if self._held.away or is_answered(self._path):
                log.error("socket_cannot_be_bound", path=str(self._path), reason="the folder was moved, or is taken")
                return
            make_private(self._path.parent)
            await self._listen()
            old.close()
        except OSError as error:
            log.error("socket_cannot_be_bound", path=str(self._path), reason=str(error))

    def close(self) -> None:
        """No new connections; the file goes first, so that clients see that nobody is there."""
        server, self._server = self._server, None  # or the next check would bind it again
        forks.forget(self._descriptor)
        if _inode(self._path) == self._inode:
            with suppress(FileNotFoundError):
                self._path.unlink()
        if server is not None:
            server.close()

    def hang_up(self) -> None:
        for connection in list(self._rooms.connections):
            connection.close()

    async def _listen(self) -> None:
        listener = _bind(self._path)
        forks.forget(self._descriptor)
        self._descriptor = listener.fileno()
        forks.keep_from_children(self._descriptor)
        self._inode = _inode(self._path)
        loop = asyncio.get_running_loop()
        self._server = await loop.create_unix_server(self._connection, sock=listener, backlog=AT_ONCE)
        listener.listen(BACKLOG)

    def _connection(self) -> asyncio.BaseProtocol:
        if len(self._rooms.connections) >= MAX_CONNECTIONS:
            return _Refused()
        connection = Connection(self._rooms)
        self._rooms.connections.add(connection)  # here, because a burst is accepted before any of it is made
        return connection


class _Refused(asyncio.Protocol):
    """One connection too many: told so, and closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        refusal = TooManyConnections(f"{MAX_CONNECTIONS} connections are open, the limit", "close some and try again")
        transport.write(protocol.error_reply(protocol.NOTHING, refusal) + b"\n")
        transport.close()


def refuse_if_foreign(path: Path) -> None:
    """At start: what is no socket belongs to somebody else, and so does a socket that is answered on."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise StartRefused(f"{path} is there and is no socket: remove it, or set SEMANTICA_SOCKET to another path")
    if is_answered(path):
        raise StartRefused(f"another daemon answers on {path}: set SEMANTICA_SOCKET to another path", 75)


def is_answered(path: Path) -> bool:
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(1)
            client.connect(os.fspath(path))
    except OSError:
        return False
    return True


def _bind(path: Path) -> socket.socket:
    """With a umask, so that nobody else can connect even for a moment."""
    with suppress(FileNotFoundError):
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(os.fspath(path))
    finally:
        os.umask(before)
    return listener


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
