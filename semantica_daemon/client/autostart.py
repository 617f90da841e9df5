"""Starts the daemon: exactly one, however many clients need it at once. The client that starts it holds `start.lock`,
the others wait for the socket. Imported only when there is no daemon; `connect` connects to a running one."""

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

from semantica_daemon.client import unit
from semantica_daemon.client.connect import RETRY_EVERY_S, Report, attempts, connect
from semantica_daemon.client.errors import NoDaemon, NotListening
from semantica_daemon.client.exit_codes import CONFIGURATION, INTERNAL, PERMISSION, TEMPORARY
from semantica_daemon.paths import Paths, find, make_private

READY_WITHIN_S = 30.0
USUAL_GRACE_MS = 5000
# Beyond its grace period, for an old daemon to record how its jobs ended.
MARGIN_S = 3.0
START_EVERY_S = 0.3
REPORT_AFTER_S = 2.0
# The only variables a daemon gets from the client that starts it: others would leak into everybody's jobs.
KEPT_VARIABLES = (
    "HOME USER LOGNAME SHELL XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_RUNTIME_DIR SEMANTICA_FAILPOINT "
    "SEMANTICA_CONFIG_DIR SEMANTICA_DATA_DIR SEMANTICA_LOG_DIR"
)
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
READY = "ready"
START_CODES = (INTERNAL, TEMPORARY, PERMISSION, CONFIGURATION)
# Daemons started by this process, polled before each start so that none stays a zombie.
_children: "list[subprocess.Popen[bytes]]" = []


def start_or_join(paths: Paths, report: Report) -> socket.socket:
    """The client that gets the lock starts the daemon; the others wait for the lock or the socket."""
    since, reported, grace_s = time.time_ns(), False, _grace_s(paths.config)
    lock = StartLock(paths.data)
    try:
        for passed in attempts(READY_WITHIN_S + grace_s, RETRY_EVERY_S):
            if (connection := _try_connect(paths)) is not None:
                return connection
            if lock.acquire():
                if (failure := lock.failure_since(since)) is not None:
                    raise failure
                return _start(paths, grace_s, report, lock)
            if passed > REPORT_AFTER_S and not reported:
                report("waiting for another client that is starting the daemon")
                reported = True
    finally:
        lock.close()
    raise NoDaemon(f"another client is starting the daemon and takes too long: see {paths.log}", TEMPORARY)


class StartLock:
    """`start.lock`, held by the client that is starting a daemon. It contains how the last start failed, so that the
    clients that waited report the same failure instead of trying one after another."""

    def __init__(self, folder: str) -> None:
        try:
            make_private(folder)
            self._handle = os.open(f"{folder}/start.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            wrong = isinstance(error, NotADirectoryError | FileExistsError)
            code = CONFIGURATION if wrong else PERMISSION
            raise NoDaemon(f"cannot use {folder}: {error.strerror or error}", code) from None

    def acquire(self) -> bool:
        """False when another client holds it."""
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError as error:
            raise NoDaemon(f"start.lock cannot be locked: {error}; use a folder on a local disk", PERMISSION) from None
        return True

    def record(self, failed: NoDaemon) -> None:
        with suppress(OSError):
            os.ftruncate(self._handle, 0)
            os.pwrite(self._handle, os.fsencode(f"{time.time_ns()} {failed.exit_code} {failed.message}"), 0)

    def failure_since(self, instant: int) -> NoDaemon | None:
        at, _, rest = os.fsdecode(os.pread(self._handle, 65_536, 0)).partition(" ")
        code, _, message = rest.partition(" ")
        if at.isdigit() and code.isdigit() and instant <= int(at) <= time.time_ns():
            return NoDaemon(message, int(code))
        return None

    def close(self) -> None:
        os.close(self._handle)


def _start(paths: Paths, grace_s: float, report: Report, lock: StartLock) -> socket.socket:
    """Called with the lock held. Retries while an older daemon that is stopping still holds the data folder."""
    failed: NoDaemon | None = None
    for _ in attempts(grace_s, START_EVERY_S):
        if (connection := _try_connect(paths)) is not None:
            return connection
        try:
            return _start_once(paths, report)
        except NoDaemon as error:
            if error.exit_code != TEMPORARY:
                lock.record(error)
                raise
            if failed is None:
                report(f"an older daemon is still stopping; waiting up to {grace_s:.0f}s for it")
            failed = error
    assert failed is not None
    raise failed


def _try_connect(paths: Paths) -> socket.socket | None:
    try:
        return connect(paths.socket)
    except NotListening:
        return None


def _start_once(paths: Paths, report: Report) -> socket.socket:
    """A connection to the new daemon; raises NoDaemon when it does not get ready."""
    if unit.is_installed(paths) and unit.is_reachable():
        return _start_unit(paths, report)
    return _start_process(paths, report)


def _start_unit(paths: Paths, report: Report) -> socket.socket:
    """Through the service manager, which would otherwise start a second daemon at the next login."""
    for command in unit.starting():
        done = unit.run(command, unit.CHANGE_TIMEOUT_S)
    for _ in attempts(READY_WITHIN_S if done.returncode == 0 else 0, RETRY_EVERY_S):
        if done.returncode == 0 and (connection := _try_connect(paths)) is not None:
            report(f"started the daemon (service {unit.LABEL if unit.IS_MACOS else unit.NAME}, log {paths.log})")
            return connection
    seen = {} if unit.IS_MACOS else unit.properties("StatusText", "ExecMainStatus")
    code = int(seen.get("ExecMainStatus") or 0)
    reason = seen.get("StatusText") or done.stderr.strip() or f"it does not listen on {paths.socket}"
    message = f"the daemon cannot start: {reason}; `semantica service status` shows the service"
    raise NoDaemon(message, code if code in START_CODES else INTERNAL)


def _start_process(paths: Paths, report: Report) -> socket.socket:
    reader, writer = os.pipe()
    try:
        process = _spawn(paths, writer)
        lines, closed = _read_lines(reader, lambda: report(f"the daemon is still starting; its log is {paths.log}"))
    finally:
        os.close(reader)
    if READY not in lines:
        raise _failure(process, lines, closed, paths.log)
    for line in lines:
        report(line if line != READY else f"started the daemon (process {process.pid}, log {paths.log})")
    connection = _try_connect(paths)
    if connection is None:
        raise NoDaemon(f"the daemon stopped right after its start: see {paths.log}", INTERNAL)
    return connection


def _spawn(paths: Paths, writer: int) -> "subprocess.Popen[bytes]":
    """In a session of its own, so that closing the terminal does not end it. The pipe carries its readiness, and its
    output before it has opened its log; when the pipe closes, the daemon has failed to start, or is ready."""
    command = [sys.executable, "-P", "-m", "semantica_daemon", "--ready-fd", str(writer), "--log-file", paths.log]
    _children[:] = [child for child in _children if child.poll() is None]
    try:
        process = subprocess.Popen(
            command, cwd="/", env=daemon_environment(paths), stdin=subprocess.DEVNULL, stdout=writer, stderr=writer,
            pass_fds=(writer,), start_new_session=True, umask=0o077,
        )  # fmt: skip
    except OSError as error:
        raise NoDaemon(
            f"cannot start {sys.executable or 'python'}: {error}; `semantica doctor` shows more", INTERNAL
        ) from None
    finally:
        os.close(writer)
    _children.append(process)
    return process


def daemon_environment(paths: Paths) -> dict[str, str]:
    """The variables of a daemon for these paths; raises NoDaemon when no variables lead to them."""
    env = {name: os.environ[name] for name in KEPT_VARIABLES.split() if name in os.environ}
    if os.path.dirname(paths.config) == paths.data == os.path.dirname(paths.log):
        env["SEMANTICA_HOME"] = paths.data
    env |= {"PATH": PATH, "PYTHONUTF8": "1", "SEMANTICA_SOCKET": paths.socket}
    if find(env) != paths:
        raise NoDaemon("no daemon can use these folders: use those that paths.find returns", CONFIGURATION)
    return env


def _read_lines(reader: int, on_delay: Callable[[], None]) -> tuple[list[str], bool]:
    """The lines written until the daemon is ready, the pipe closes or the time is up; and whether the pipe closed."""
    received, closed, reported = b"", False, False
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    until = time.monotonic() + READY_WITHIN_S
    while not closed and READY not in received.decode("utf-8", "replace").splitlines() and time.monotonic() < until:
        if poll.poll(REPORT_AFTER_S * 1000):
            piece = os.read(reader, 65_536)
            received, closed = received + piece, not piece
        elif not reported:
            on_delay()
            reported = True
    return received.decode("utf-8", "replace").splitlines(), closed


def _failure(process: "subprocess.Popen[bytes]", lines: list[str], closed: bool, log: str) -> NoDaemon:
    try:
        code = process.wait(MARGIN_S if closed else 0)
    except subprocess.TimeoutExpired:
        waited = f"is not ready after {READY_WITHIN_S:.0f}s"
        return NoDaemon(f"the daemon (process {process.pid}) {waited}: see {log}, then try again")
    if lines and code in START_CODES:
        return NoDaemon(f"the daemon cannot start: {' '.join(lines)}", code)
    how = f"exit code {code}" if code >= 0 else f"signal {-code}"
    last = f" ({lines[-1]})" if lines else ""
    return NoDaemon(f"the daemon ended with {how} before it was ready{last}: see {log}", INTERNAL)


def _grace_s(config: str) -> float:
    """How long an old daemon may take to stop, by the present configuration."""
    try:
        with open(config, "rb") as file:
            grace_ms = tomllib.load(file)["daemon"]["grace_ms"]
    except (OSError, ValueError, LookupError, TypeError):
        grace_ms = USUAL_GRACE_MS
    return (grace_ms if isinstance(grace_ms, int) else USUAL_GRACE_MS) / 1000 + MARGIN_S
