"""One daemon per data directory: an OS lock, which dies with its holder, never a pid file."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from semantica_daemon import forks, paths
from semantica_daemon.errors import StartRefused
from semantica_daemon.paths import Paths


@contextmanager
def locked(where: Paths) -> Iterator[Callable[[], bool]]:
    """Yields the question whether the file that is there now is still the one we hold."""
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
        yield lambda: os.path.exists(where.lock) and os.path.samestat(os.stat(where.lock), os.fstat(handle))
    finally:
        forks.forget(handle)
        os.close(handle)
