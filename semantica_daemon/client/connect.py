"""Connects to the daemon's socket; when no daemon listens there, `autostart` starts one."""

import os
import socket
import struct
import time
from collections.abc import Callable, Iterator

from semantica_daemon.client.errors import NoDaemon, NotListening
from semantica_daemon.client.exit_codes import CONFIGURATION, PERMISSION, TEMPORARY
from semantica_daemon.paths import LONGEST_SOCKET, Paths

CONNECT_TIMEOUT_S = 5.0
RETRY_EVERY_S = 0.02

Report = Callable[[str], None]


def connect_or_start(paths: Paths, *, start: bool = True, report: Report = lambda _: None) -> socket.socket:
    """A connection to the daemon of these paths, which is ready; raises NoDaemon after a bounded time."""
    if len(os.fsencode(paths.socket)) > LONGEST_SOCKET:
        limit = f"more than {LONGEST_SOCKET} bytes"
        message = f"the socket path has {limit}, set SEMANTICA_SOCKET to a shorter one: {paths.socket}"
        raise NoDaemon(message, CONFIGURATION)
    if not start:
        _refuse_activation(paths)
    try:
        return connect(paths.socket)
    except NotListening as missing:
        if "SEMANTICA_RUN_ID" in os.environ and os.environ.get("SEMANTICA_SOCKET") == paths.socket:
            # The job of a daemon that is gone is being ended, and a daemon started here would be ended with it.
            raise NoDaemon(f"the daemon that started this job is gone ({missing})") from None
        if not start:
            hint = "leave out --no-autostart, or run `semantica status`"
            raise NoDaemon(f"no daemon is running ({missing}): {hint}") from None
    from semantica_daemon.client import autostart  # noqa: PLC0415

    return autostart.start_or_join(paths, report)


def _refuse_activation(paths: Paths) -> None:
    """Raises NoDaemon where connecting would make systemd start the daemon."""
    from semantica_daemon.client import daemon_lock, unit  # noqa: PLC0415

    if unit.is_installed(paths) and not daemon_lock.is_held(paths.lock):
        raise NoDaemon("no daemon is running: leave out --no-autostart, and its service starts it")


def connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        for _ in attempts(CONNECT_TIMEOUT_S, RETRY_EVERY_S):
            if _try_connect(connection, path):
                _refuse_other_user(connection, path)
                return connection
        raise NoDaemon(f"the daemon on {path} accepts no connections: it is overloaded or hangs", TEMPORARY)
    except BaseException:
        connection.close()
        raise


def _try_connect(connection: socket.socket, path: str) -> bool:
    """False when the listener's backlog is full."""
    connection.settimeout(0)
    try:
        connection.connect(path)
    except BlockingIOError:
        return False
    except FileNotFoundError:
        raise NotListening(f"there is no {path}") from None
    except ConnectionRefusedError:
        raise NotListening(f"no process listens on {path}, which an earlier daemon left behind") from None
    except PermissionError as error:
        raise NoDaemon(f"you may not use {path}: {error.strerror}", PERMISSION) from None
    except OSError as error:
        raise NotListening(f"{path}: {error.strerror}") from None
    connection.settimeout(None)
    return True


def _refuse_other_user(connection: socket.socket, path: str) -> None:
    """By SO_PEERCRED on Linux; elsewhere the 0600 socket in its 0700 folder is the guard."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return
    credentials = connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    _, uid, _ = struct.unpack("3i", credentials)
    if uid != os.getuid():
        raise NoDaemon(f"{path} belongs to a daemon of user {uid}: set SEMANTICA_SOCKET to a path of yours", PERMISSION)


def attempts(seconds: float, pause: float) -> Iterator[float]:
    """Yields the time passed: at once, then after each pause, until the time is up."""
    began = time.monotonic()
    yield 0.0
    while (passed := time.monotonic() - began) < seconds:
        time.sleep(pause)
        yield passed
