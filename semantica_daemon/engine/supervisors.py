"""Starts a supervisor when the first command needs one, and another when that one ends or is stuck.

Each supervisor holds a shared lock as long as it lives, so that the next daemon knows when the last run of this one
has ended.
"""

import asyncio
import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import structlog

from semantica_daemon import forks
from semantica_daemon.clock import Clock
from semantica_daemon.engine.supervisor_connection import SupervisorConnection
from semantica_daemon.errors import StartRefused
from semantica_daemon.processes.marks import SUPERVISOR, environment_of
from semantica_daemon.processes.table import find_process, own_processes, send_signal

log = structlog.get_logger()

PROGRAM = "import sys; sys.path.insert(0, {!r}); from semantica_daemon.supervisor.main import main; main()"
ROOT = str(Path(__file__).resolve().parent.parent.parent)
CLOSE_WITHIN_S = 5
EXIT_WITHIN_S = 15  # that a supervisor may take to end its runs after its daemon is gone


class Supervisors:
    """The supervisor for new runs, and earlier ones that still have runs."""

    def __init__(self, lock: Path, open_files: int, clock: Clock, log_grew: Callable[[str], None]) -> None:
        """`open_files`: the soft limit that commands get. `log_grew`: see SupervisorConnection."""
        self._lock = lock
        self._open_files = open_files
        self._clock = clock
        self._log_grew = log_grew
        self._current: SupervisorConnection | None = None
        self._connections: list[SupervisorConnection] = []
        self._starting: asyncio.Task[SupervisorConnection] | None = None
        self._processes: list[subprocess.Popen[bytes]] = []

    @property
    def current(self) -> SupervisorConnection | None:
        """None if there is no usable supervisor; `start` starts one."""
        return self._current if self._current is not None and self._current.is_open else None

    async def start(self) -> SupervisorConnection:
        """Raises OSError or RuntimeError if no process, thread or descriptor is free."""
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(self._starting)

    def replace(self, stuck: SupervisorConnection) -> None:
        """New runs get another supervisor; the stuck one keeps its runs."""
        if self._current is stuck:
            self._current = None

    async def close(self) -> None:
        """Closes the connections; each supervisor then ends its remaining runs. A second call does nothing."""
        for connection in self._connections:
            connection.close()
        while self._processes:
            process = self._processes.pop()
            try:
                await asyncio.to_thread(process.wait, CLOSE_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()

    async def _start(self) -> SupervisorConnection:
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                self._processes = [process for process in self._processes if process.poll() is None]
                process = await asyncio.to_thread(self._spawn, theirs)
            self._processes.append(process)
            forks.keep_from_children(ours.fileno())  # a copy would hide from the supervisor that the daemon is gone
            _, connection = await asyncio.get_running_loop().create_connection(
                lambda: SupervisorConnection(ours.fileno(), process, self._clock, self._log_grew), sock=ours
            )
            self._current = connection
            self._connections = [*(one for one in self._connections if one.is_open), connection]
            log.info("supervisor_started", pid=process.pid)
            return connection
        finally:
            self._starting = None

    def _spawn(self, channel: socket.socket) -> "subprocess.Popen[bytes]":
        lock = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH)
            program = [sys.executable, "-I", "-S", "-X", "utf8", "-c", PROGRAM.format(ROOT)]
            return subprocess.Popen(
                [*program, str(self._open_files), str(lock)],
                stdin=channel.fileno(), stdout=subprocess.DEVNULL, pass_fds=[lock], start_new_session=True,
                env={SUPERVISOR.decode().rstrip("="): str(self._lock), "TMPDIR": os.environ.get("TMPDIR", "/tmp")},
            )  # fmt: skip
        finally:
            os.close(lock)


def wait_until_alone(lock: Path) -> None:
    """At start: waits for the supervisor of an earlier daemon, which ends its runs and exits; kills it if it does not
    within 15 s."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for killed in (False, True):
            until = time.monotonic() + EXIT_WITHIN_S
            while time.monotonic() < until:
                with suppress(BlockingIOError):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                time.sleep(0.02)
            if not killed:
                _kill_supervisors(lock)
    finally:
        os.close(handle)
    raise StartRefused(f"{lock} is still held by the runs of an earlier daemon, which cannot be ended: see ps", 75)


def _kill_supervisors(lock: Path) -> None:
    wanted = SUPERVISOR + os.fsencode(lock)
    for pid in own_processes():
        process = find_process(pid)
        if process is not None and wanted in environment_of(pid):
            log.warning("supervisor_killed", pid=pid)
            send_signal(process, signal.SIGKILL)
