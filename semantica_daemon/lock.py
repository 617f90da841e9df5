"""One daemon per data directory: an OS lock, which dies with its holder, never a pid file."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from semantica_daemon import forks, paths
from semantica_daemon.errors import StartRefused
from semantica_daemon.paths import Paths


class Held:
    """What must stay as it is while we run: somebody may remove, move or replace the folder."""

    def __init__(self, lock: Path, handle: int) -> None:
        self._lock = lock
        self._handle = handle
        self._database: tuple[Path, os.stat_result] | None = None

    def note(self, database: Path) -> None:
        """By stat alone: opening and closing the database in this process would drop SQLite's locks."""
        self._database = database, os.stat(database)

    @property
    def away(self) -> bool:
        """The folder was moved: what is written still lands in it, but nobody finds us where we were."""
        return not self._lock.exists()

    def lost(self) -> Path | None:
        """What is gone for good or another's by now, so that nothing we write can be kept."""
        ours = os.fstat(self._handle)
        if self.away:
            return None if ours.st_nlink else self._lock
        if not os.path.samestat(os.stat(self._lock), ours):
            return self._lock
        path, known = self._database or (self._lock, ours)
        return None if path.exists() and os.path.samestat(os.stat(path), known) else path


@contextmanager
def locked(where: Paths) -> Iterator[Held]:
    if len(os.fsencode(where.socket)) > paths.LONGEST_SOCKET:
        limit = f"more than {paths.LONGEST_SOCKET} bytes"
        raise StartRefused(f"the socket path has {limit}, set SEMANTICA_SOCKET to a shorter one: {where.socket}")
    try:
        for folder in (where.data, where.socket.parent):
            paths.make_private(folder)
        handle = os.open(where.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartRefused(f"cannot use {where.data}: {error}", 77) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        if not isinstance(error, BlockingIOError):
            raise StartRefused(f"{where.lock} cannot be locked: {error}; use a folder on a local disk", 77) from error
        message = f"another semanticad already runs for {where.data} (it holds {where.lock.name})"
        raise StartRefused(f"{message}: use that one, or set SEMANTICA_HOME to another folder", 75) from None
    forks.keep_from_children(handle)
    try:
        yield Held(where.lock, handle)
    finally:
        forks.forget(handle)
        os.close(handle)
