"""One daemon per data directory: an OS lock, which ends with its process, never a pid file."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from semantica_daemon import forks, paths
from semantica_daemon.errors import StartRefused
from semantica_daemon.paths import Paths


class HomeLock:
    """The lock that this daemon holds. Its file and the database must stay where they are while the daemon runs."""

    def __init__(self, lock: Path, handle: int) -> None:
        self._lock = lock
        self._handle = handle
        self._database: tuple[Path, os.stat_result] | None = None

    def watch(self, database: Path) -> None:
        """Uses stat only: opening and closing the database in this process would drop SQLite's locks."""
        self._database = database, os.stat(database)

    @property
    def is_moved(self) -> bool:
        """Whether the folder was moved or removed: writes still reach it, but clients do not find the daemon there."""
        return not self._lock.exists()

    def lost(self) -> Path | None:
        """The file that was removed or replaced, so that nothing the daemon writes is kept; None if there is none."""
        held = os.fstat(self._handle)
        if self.is_moved:
            return None if held.st_nlink else self._lock
        if not os.path.samestat(os.stat(self._lock), held):
            return self._lock
        path, known = self._database or (self._lock, held)
        return None if path.exists() and os.path.samestat(os.stat(path), known) else path


@contextmanager
def locked(where: Paths) -> Iterator[HomeLock]:
    """Holds the lock of the data directory, or raises StartRefused."""
    if len(os.fsencode(where.socket)) > paths.LONGEST_SOCKET:
        limit = f"more than {paths.LONGEST_SOCKET} bytes"
        raise StartRefused(f"the socket path has {limit}, set SEMANTICA_SOCKET to a shorter one: {where.socket}")
    try:
        for folder in (where.data, os.path.dirname(where.socket)):
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
        message = f"another semanticad already runs for {where.data} (it holds {os.path.basename(where.lock)})"
        raise StartRefused(f"{message}: use that one, or set SEMANTICA_HOME to another folder", 75) from None
    forks.keep_from_children(handle)
    try:
        yield HomeLock(Path(where.lock), handle)
    finally:
        forks.forget(handle)
        os.close(handle)
