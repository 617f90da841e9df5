"""Starts the daemon, one however many clients ask at once: who starts holds a lock in the data folder that dies with
its holder, the others look for the socket meanwhile. Imported only when there is no daemon; `autostart` connects."""

import fcntl
import os
import select
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable
from contextlib import suppress

from semantica_daemon import places
from semantica_daemon.client.autostart import LOOK_EVERY_S, Nobody, NoDaemon, Say, again, connect
from semantica_daemon.client.codes import CONFIGURATION, INTERNAL, PERMISSION, TEMPORARY
from semantica_daemon.places import Places

READY_WITHIN_S = 30.0
USUAL_GRACE_MS = 5000
# Beyond its grace, for the old daemon to write how everything has ended.
MARGIN_S = 3.0
TRY_EVERY_S = 0.3
QUIET_FOR_S = 2.0
# All that a daemon gets from its first caller: what else there is would be seen by the jobs of all others.
KEPT = "HOME USER LOGNAME SHELL XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR SEMANTICA_FAILPOINT"
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
READY = "ready"
# Daemons of this process: polled now and then, lest one that has left stays in the table of processes.
_children: "list[subprocess.Popen[bytes]]" = []


def start_or_join(where: Places, say: Say) -> socket.socket:
    """Whoever gets the lock starts it; whoever waits for the lock may find it started."""
    since, told, grace_s = time.time_ns(), False, _grace_s(where.config)
    lock = StartLock(where.data)
    try:
        for passed in again(READY_WITHIN_S + grace_s, LOOK_EVERY_S):
            if (connection := _connected(where)) is not None:
                return connection
            if lock.is_free():
                if (known := lock.failed_since(since)) is not None:
                    raise known
                return _start(where, grace_s, say, lock)
            if passed > QUIET_FOR_S and not told:
                say("waiting for another client, which is starting the daemon")
                told = True
    finally:
        lock.close()
    raise NoDaemon(f"another client is starting the daemon, for too long by now: {where.log} may say why", TEMPORARY)


class StartLock:
    """`start.lock`: held by who is starting a daemon. In it stands how the last try has failed, for those who wait: a
    configuration that is wrong for one is wrong for all."""

    def __init__(self, folder: str) -> None:
        try:
            places.make_private(folder)
            self._handle = os.open(f"{folder}/start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            wrong = isinstance(error, NotADirectoryError | FileExistsError)
            code = CONFIGURATION if wrong else PERMISSION
            raise NoDaemon(f"cannot use {folder}: {error.strerror or error}", code) from None

    def is_free(self) -> bool:
        """Ours, if it was."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise NoDaemon(f"start.lock cannot be locked: {error}; use a folder on a local disk", PERMISSION) from None
        return True

    def note(self, failed: NoDaemon) -> None:
        with suppress(OSError):
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, os.fsencode(f"{time.time_ns()} {failed.exit_code} {failed.message}"), 0)

    def failed_since(self, instant: int) -> NoDaemon | None:
        at, _, rest = os.fsdecode(os.pread(self._handle, 65_536, 0)).partition(" ")
        code, _, message = rest.partition(" ")
        if at.isdigit() and code.isdigit() and instant <= int(at) <= time.time_ns():
            return NoDaemon(message, int(code))
        return None

    def close(self) -> None:
        os.close(self._handle)


def _start(where: Places, grace_s: float, say: Say, lock: StartLock) -> socket.socket:
    """With the lock. An older daemon that is leaving holds the lock of the database until it is gone."""
    failed: NoDaemon | None = None
    for _ in again(grace_s, TRY_EVERY_S):
        if (connection := _connected(where)) is not None:
            return connection
        try:
            return _started(where, say)
        except NoDaemon as error:
            if error.exit_code != TEMPORARY:
                lock.note(error)
                raise
            if failed is None:
                say(f"an older daemon seems to be leaving still; waiting up to {grace_s:.0f} s for it")
            failed = error
    assert failed is not None
    raise failed


def _connected(where: Places) -> socket.socket | None:
    try:
        return connect(where.socket)
    except Nobody:
        return None


def _started(where: Places, say: Say) -> socket.socket:
    """One try: a connection to the new daemon, or how it has failed."""
    reader, writer = os.pipe()
    try:
        process = _spawn(where, writer)
        lines, over = _listen(reader, lambda: say(f"the daemon is still starting; its log is {where.log}"))
    finally:
        os.close(reader)
    if READY not in lines:
        raise _failure(process, lines, over, where.log)
    for line in lines:
        say(line if line != READY else f"started the daemon (process {process.pid}, log {where.log})")
    connection = _connected(where)
    if connection is None:
        raise NoDaemon(f"the daemon was ready, and is gone: {where.log} may say why", INTERNAL)
    return connection


def _spawn(where: Places, writer: int) -> "subprocess.Popen[bytes]":
    """In a session of its own, so that no terminal takes it away. What it says before it has opened its log comes
    through the pipe as well; that nobody holds the other end any more means that its start is over."""
    command = [sys.executable, "-P", "-m", "semantica_daemon", "--ready-fd", str(writer), "--log-file", where.log]
    _children[:] = [child for child in _children if child.poll() is None]
    try:
        process = subprocess.Popen(
            command, cwd="/", env=_environment(where), stdin=subprocess.DEVNULL, stdout=writer, stderr=writer,
            pass_fds=(writer,), start_new_session=True, umask=0o077,
        )  # fmt: skip
    except OSError as error:
        raise NoDaemon(
            f"cannot start {sys.executable or 'python'}: {error}; run semanticad by hand", INTERNAL
        ) from None
    finally:
        os.close(writer)
    _children.append(process)
    return process


def _environment(where: Places) -> dict[str, str]:
    env = {name: os.environ[name] for name in KEPT.split() if name in os.environ}
    if os.path.dirname(where.config) == where.data == os.path.dirname(where.log):
        env["SEMANTICA_HOME"] = where.data
    env |= {"PATH": PATH, "PYTHONUTF8": "1", "SEMANTICA_SOCKET": where.socket}
    if places.find(env) != where:
        raise NoDaemon("no daemon can be told to use these folders: use those that places.find gives", CONFIGURATION)
    return env


def _listen(reader: int, on_long: Callable[[], None]) -> tuple[list[str], bool]:
    """What it says until it is ready, its start is over or the time is up; and whether it is over."""
    said, over, told = b"", False, False
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    until = time.monotonic() + READY_WITHIN_S
    while not over and READY not in said.decode("utf-8", "replace").splitlines() and time.monotonic() < until:
        if poll.poll(QUIET_FOR_S * 1000):
            piece = os.read(reader, 65_536)
            said, over = said + piece, not piece
        elif not told:
            on_long()
            told = True
    return said.decode("utf-8", "replace").splitlines(), over


def _failure(process: "subprocess.Popen[bytes]", lines: list[str], over: bool, log: str) -> NoDaemon:
    try:
        code = process.wait(MARGIN_S if over else 0)
    except subprocess.TimeoutExpired:
        waited = f"is not ready after {READY_WITHIN_S:.0f} s"
        return NoDaemon(f"the daemon (process {process.pid}) {waited}: {log} may say why; try again")
    if lines and code in (INTERNAL, TEMPORARY, PERMISSION, CONFIGURATION):
        return NoDaemon(f"the daemon cannot start: {' '.join(lines)}", code)
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    last = f" ({lines[-1]})" if lines else ""
    return NoDaemon(f"the daemon left with {how} before it was ready{last}: {log} may say more", INTERNAL)


def _grace_s(config: str) -> float:
    """How long a daemon may take to leave, by the configuration as it is now."""
    try:
        with open(config, "rb") as file:
            grace_ms = tomllib.load(file)["daemon"]["grace_ms"]
    except (OSError, ValueError, LookupError, TypeError):
        grace_ms = USUAL_GRACE_MS
    return (grace_ms if isinstance(grace_ms, int) else USUAL_GRACE_MS) / 1000 + MARGIN_S
