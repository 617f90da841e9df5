"""The daemon's side of the supervisor: it is started when the first run needs it, and told and heard line by line.

A lock that is handed to it before it exists, and that it holds as long as it lives, tells the next daemon when the
last run of this one is gone.
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
from typing import Any

import msgspec
import structlog

from semantica_daemon import forks
from semantica_daemon.errors import StartRefused
from semantica_daemon.supervisor import processes

log = structlog.get_logger()

Told = dict[str, Any]
LOST: Told = {"op": "lost"}
MARK = "SEMANTICA_SUPERVISOR"
PROGRAM = "import sys; sys.path.insert(0, {!r}); from semantica_daemon.supervisor.supervisor import main; main()"
ROOT = str(Path(__file__).resolve().parent.parent.parent)
CLOSE_WITHIN_S = 5
LINGER_S = 15  # for what the supervisor of a daemon that is gone may take to end its runs


class Supervisor(asyncio.Protocol):
    """A supervisor that was started. Whoever has a run with it hears what it says of that run; LOST is the last."""

    def __init__(self, control: int, process: "subprocess.Popen[bytes]") -> None:
        self._control = control
        self._process = process
        self._transport: asyncio.Transport | None = None
        self._unread = b""
        self._listeners: dict[str, Callable[[Told], None]] = {}

    @property
    def is_there(self) -> bool:
        return self._transport is not None and not self._transport.is_closing()

    def start(self, order: dict[str, Any], listener: Callable[[Told], None]) -> None:
        self._listeners[order["run"]] = listener
        if not self._say(op="start", **order):
            self._tell(order["run"], LOST)

    def end(self, run_id: str, number: int) -> None:
        self._say(op="end", run=run_id, signal=number)

    def forget(self, run_id: str) -> None:
        self._listeners.pop(run_id, None)

    def watch(self, run_id: str, beyond: int) -> None:
        """It will tell, once, when the log of that run is longer than that."""
        self._say(op="watch", run=run_id, beyond=beyond)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def kill(self) -> None:
        """It does not answer any more: all its runs are LOST, and ended by whoever has them."""
        log.error("supervisor_does_not_answer", pid=self._process.pid)
        self._process.kill()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            told = msgspec.json.decode(line)
            self._tell(told["run"], told)

    def connection_lost(self, error: Exception | None) -> None:
        if self._listeners:
            log.error("supervisor_lost", pid=self._process.pid, runs=len(self._listeners))
        for run_id in list(self._listeners):
            self._tell(run_id, LOST)
        forks.forget(self._control)

    def _say(self, **order: Any) -> bool:
        if self._transport is None or self._transport.is_closing():
            return False
        self._transport.write(msgspec.json.encode(order) + b"\n")
        return True

    def _tell(self, run_id: str, told: Told) -> None:
        listener = self._listeners.get(run_id)
        if listener is not None:
            listener(told)


class Supervisors:
    """The supervisor in use, and those before it that still have runs."""

    def __init__(self, lock: Path, workspaces: Path, open_files: int) -> None:
        self._lock = lock
        self._workspaces = workspaces
        self._open_files = open_files
        self._current: Supervisor | None = None
        self._supervisors: list[Supervisor] = []
        self._starting: asyncio.Task[Supervisor] | None = None
        self._processes: list[subprocess.Popen[bytes]] = []

    async def get(self) -> Supervisor:
        if self._current is not None and self._current.is_there:
            return self._current
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        return await asyncio.shield(self._starting)

    def replace(self, stuck: Supervisor) -> None:
        """It does not answer: what it has is left to it, what comes next is another's."""
        if self._current is stuck:
            self._current = None

    async def close(self) -> None:
        """Closed to them, they end what is left of their runs, and leave. A second call does nothing."""
        for supervisor in self._supervisors:
            supervisor.close()
        while self._processes:
            process = self._processes.pop()
            try:
                await asyncio.to_thread(process.wait, CLOSE_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()

    async def _start(self) -> Supervisor:
        try:
            ours, theirs = socket.socketpair()
            with theirs:
                self._processes = [process for process in self._processes if process.poll() is None]
                process = await asyncio.to_thread(self._spawn, theirs)
            self._processes.append(process)
            forks.keep_from_children(ours.fileno())  # or it would not notice that the daemon is gone
            _, supervisor = await asyncio.get_running_loop().create_connection(
                lambda: Supervisor(ours.fileno(), process), sock=ours
            )
            self._current = supervisor
            self._supervisors = [*(one for one in self._supervisors if one.is_there), supervisor]
            log.info("supervisor_started", pid=process.pid)
            return supervisor
        finally:
            self._starting = None

    def _spawn(self, control: socket.socket) -> "subprocess.Popen[bytes]":
        handle = os.open(self._lock, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_SH)
            arguments = (str(self._open_files), str(handle), str(self._workspaces))
            return subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", "-c", PROGRAM.format(ROOT), *arguments],
                stdin=control.fileno(), stdout=subprocess.DEVNULL, pass_fds=[handle], start_new_session=True,
                env={MARK: str(self._lock), "TMPDIR": os.environ.get("TMPDIR", "/tmp")},
            )  # fmt: skip
        finally:
            os.close(handle)


def until_alone(lock: Path) -> None:
    """At start: an earlier daemon's supervisor ends its runs and leaves by itself; one that does not is made to."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for last_resort in (False, True):
            until = time.monotonic() + LINGER_S
            while time.monotonic() < until:
                with suppress(BlockingIOError):
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    return
                time.sleep(0.02)
            if not last_resort:
                _kill_supervisors(lock)
    finally:
        os.close(handle)
    raise StartRefused(f"{lock} is still held by the runs of an earlier daemon, which cannot be ended: see ps", 75)


def _kill_supervisors(lock: Path) -> None:
    wanted = f"{MARK}={lock}".encode()
    for pid in processes.everybody():
        process = processes.look(pid)
        with suppress(OSError), open(f"/proc/{pid}/environ", "rb") as file:
            if process is not None and wanted in file.read().split(b"\0"):
                log.warning("supervisor_killed", pid=pid)
                processes.send(process, signal.SIGKILL)
