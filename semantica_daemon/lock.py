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
    """The files that must stay what they are while we run: somebody may remove or replace the whole folder."""

    def __init__(self) -> None:
        self._files: dict[Path, os.stat_result] = {}

    def note(self, path: Path) -> None:
        """By stat alone: opening and closing the database in this process would drop SQLite's locks."""
        self._files[path] = os.stat(path)

    def lost(self) -> Path | None:
        for path, known in self._files.items():
            if not path.exists() or not os.path.samestat(os.stat(path), known):
                return path
        return None


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
    held = Held()
    held.note(where.lock)
    try:
        yield held
    finally:
        forks.forget(handle)
        os.close(handle)
