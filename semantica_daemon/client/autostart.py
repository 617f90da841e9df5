"""The way to the daemon: a connection to the one that runs, or to one that `starting` starts where there is none."""

import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator

from semantica_daemon import places
from semantica_daemon.client.codes import CONFIGURATION, NO_DAEMON, PERMISSION, TEMPORARY
from semantica_daemon.places import Places

TAKEN_WITHIN_S = 5.0
LOOK_EVERY_S = 0.02

Say = Callable[[str], None]


class NoDaemon(Exception):
    """There is none, and none could be started: `message` says why and what to do, `exit_code` is of sysexits."""

    def __init__(self, message: str, exit_code: int = NO_DAEMON) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code


class Nobody(Exception):
    """Nobody listens on the socket, or there is none."""


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"semantica: {text}\n")
    sys.stderr.flush()


def reach(where: Places, *, start: bool = True, say: Say = _to_stderr) -> socket.socket:
    """A connection to the daemon of these places, which is ready; or NoDaemon, after a bounded time."""
    where = Places(*map(os.fspath, where))
    if len(os.fsencode(where.socket)) > places.LONGEST_SOCKET:
        limit = f"more than {places.LONGEST_SOCKET} bytes"
        message = f"the socket path has {limit}, set SEMANTICA_SOCKET to a shorter one: {where.socket}"
        raise NoDaemon(message, CONFIGURATION)
    try:
        return connect(where.socket)
    except Nobody as nobody:
        if "SEMANTICA_RUN_ID" in os.environ and os.environ.get("SEMANTICA_SOCKET") == where.socket:
            # All that a job knows of its daemon is the socket; one that is started here would have other folders.
            raise NoDaemon(f"the daemon this job belongs to is gone ({nobody})") from None
        if not start:
            hint = "leave --no-autostart out, or run semanticad"
            raise NoDaemon(f"no daemon runs ({nobody}): {hint}") from None
    from semantica_daemon.client import starting  # noqa: PLC0415

    return starting.start_or_join(where, say)


def connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        for _ in again(TAKEN_WITHIN_S, LOOK_EVERY_S):
            if _is_taken(connection, path):
                _refuse_foreign(connection, path)
                return connection
        raise NoDaemon(f"the daemon on {path} takes no connections: it is overrun, or hangs", TEMPORARY)
    except BaseException:
        connection.close()
        raise


def _is_taken(connection: socket.socket, path: str) -> bool:
    """False when too many wait there to be taken."""
    connection.settimeout(0)
    try:
        connection.connect(path)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        raise Nobody(f"there is no {path}") from None
    except ConnectionRefusedError:
        raise Nobody(f"nobody answers on {path}; one that is gone has left it behind") from None
    except PermissionError as error:
        raise NoDaemon(f"{path} is not open to you: {error.strerror}", PERMISSION) from None
    except OSError as error:
        raise Nobody(f"{path}: {error.strerror}") from None
    connection.settimeout(None)
    return True


def _refuse_foreign(connection: socket.socket, path: str) -> None:
    """By SO_PEERCRED on Linux; elsewhere the 0600 socket in its 0700 folder is the guard."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return
    told = connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", told)
    if uid != os.getuid():
        raise NoDaemon(
            f"{path} is answered by another user ({uid}): set SEMANTICA_SOCKET to a path of yours", PERMISSION
        )


def again(seconds: float, pause: float) -> Iterator[float]:
    """At once, and then every so often until the time is up; how long it has been."""
    began = time.monotonic()
    yield 0.0
    while (passed := time.monotonic() - began) < seconds:
        time.sleep(pause)
        yield passed
