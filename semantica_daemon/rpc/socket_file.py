"""The socket file: bound under the daemon's lock, private from the first moment, recognised by its inode."""

import os
import socket
import stat
from contextlib import suppress
from itertools import count
from pathlib import Path

import structlog

from semantica_daemon.errors import StartRefused

log = structlog.get_logger()


class SocketFile:
    def __init__(self, path: Path, inherited: socket.socket | None = None) -> None:
        """`inherited` is a socket that systemd has bound to the path."""
        self.path = path
        self._inherited = inherited
        self._inode: tuple[int, int] | None = None
        self._is_ours = False

    @property
    def is_unchanged(self) -> bool:
        """Whether the file is still the one that was bound, by its inode."""
        return _inode(self.path) == self._inode

    def open(self) -> socket.socket:
        """The first socket to listen on: the inherited one, unless its file was removed; else a new one. Refuses a path
        that is in use."""
        inherited, self._inherited = self._inherited, None
        if inherited is not None:
            if self.path.is_socket():
                self._inode = _inode(self.path)
                return inherited
            inherited.close()
        self.refuse_if_foreign()
        return self.bind()

    def bind(self) -> socket.socket:
        """Returns a bound socket that does not listen yet. Removes a socket that is left at the path; any other file
        or folder is moved aside. Binds under a umask, so that no other user can connect even for a moment."""
        self._clear_path()
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            bound.bind(os.fspath(self.path))
        finally:
            os.umask(before)
        self._inode, self._is_ours = _inode(self.path), True
        return bound

    def _clear_path(self) -> None:
        with suppress(FileNotFoundError):
            mode = self.path.lstat().st_mode
            if stat.S_ISSOCK(mode):
                self.path.unlink()
            else:
                free = (self.path.with_name(f"{self.path.name}.{number}") for number in count(1))
                aside = next(path for path in free if not os.path.lexists(path))
                log.warning("file_moved_aside", path=str(self.path), to=str(aside))
                self.path.rename(aside)

    def remove(self) -> None:
        """Leaves the file of an inherited socket: systemd still listens there, and starts the next daemon."""
        if self._is_ours and self.is_unchanged:
            with suppress(FileNotFoundError):
                self.path.unlink()

    def refuse_if_foreign(self) -> None:
        """At start: refuses a path with a file that is no socket, or a socket that another daemon answers on."""
        with suppress(FileNotFoundError):
            if not stat.S_ISSOCK(self.path.lstat().st_mode):
                hint = "remove it, or set SEMANTICA_SOCKET to another path"
                raise StartRefused(f"{self.path} is there and is no socket: {hint}")
        if self.is_answered():
            raise StartRefused(f"another daemon answers on {self.path}: set SEMANTICA_SOCKET to another path", 75)

    def is_answered(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
                client.settimeout(1)
                client.connect(os.fspath(self.path))
        except OSError:
            return False
        return True


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISSOCK(found.st_mode) else None
