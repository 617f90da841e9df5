"""A daemon under valgrind and a client of it outside: what the daemon and its supervisor execute, and nothing else."""

import json
import socket
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import Struct

from benchmarks.instructions import valgrind

READY_WITHIN_S = 180.0
DONE_WITHIN_S = 300.0
UNFINISHED = "SELECT count(*) FROM jobs WHERE queue = ? AND finished_at IS NULL"
SUPERVISOR = "supervisor.main"


class Counted(Struct):
    """Instructions of the daemon and, when it had one, of its supervisor; known when both have ended."""

    daemon: float = 0
    supervisor: float = 0


class Client:
    """One connection, one JSON document a line."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.settimeout(DONE_WITHIN_S)
        self._socket.connect(str(home / "daemon.sock"))

    def call(self, method: str, **params: Any) -> Any:
        (reply,) = self.exchange([request(method, **params)])
        return reply["result"]

    def exchange(self, lines: list[bytes]) -> list[Any]:
        """Sends all lines in one write and waits for as many replies."""
        self._socket.sendall(b"".join(lines))
        return self._replies(len(lines))

    def flood(self, lines: list[bytes]) -> None:
        """Sends as fast as the daemon reads: the calls in flight are as many as it allows."""
        sent = memoryview(b"".join(lines))
        answered = 0
        self._socket.setblocking(False)
        while answered < len(lines):
            with suppress(BlockingIOError):
                sent = sent[self._socket.send(sent) :] if sent else sent
            with suppress(BlockingIOError):
                answered += self._socket.recv(1 << 20).count(b"\n")
        self._socket.setblocking(True)

    def until_done(self, queue: str) -> None:
        """Reads the database beside the daemon: a call that asked it would be counted."""
        connection = sqlite3.connect(f"file:{self._home}/meta.db?mode=ro", uri=True)
        until = time.monotonic() + DONE_WITHIN_S
        while connection.execute(UNFINISHED, (queue,)).fetchone()[0]:
            if time.monotonic() > until:
                raise RuntimeError(f"queue {queue} has unfinished jobs after {DONE_WITHIN_S:.0f} s")
            time.sleep(0.05)
        connection.close()

    def _replies(self, count: int) -> list[Any]:
        received = b""
        while received.count(b"\n") < count:
            part = self._socket.recv(1 << 20)
            if not part:
                raise ConnectionError("the daemon has closed the connection")
            received += part
        replies = [json.loads(line) for line in received.splitlines()]
        for reply in replies:
            if "error" in reply:
                raise RuntimeError(str(reply["error"]))
        return replies


def request(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"


@contextmanager
def counted(home: Path, slots: int) -> Iterator[tuple[Client, Counted]]:
    """The daemon is stopped when the block ends, and its instructions are counted then."""
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text(f"[daemon]\nmax_slots = {slots}\n[queues.default]\nmax_queued = 1000000\n")
    options = [f"--log-file={home}/counted.%p", "--trace-children=yes", "--trace-children-skip=*/true"]
    argv = [*valgrind.COUNTER, *options, *valgrind.python("daemon_program")]
    env = {**valgrind.environment(), "SEMANTICA_HOME": str(home)}
    found = Counted()
    with open(home / "stderr.log", "wb") as log:
        process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stderr=log)
    try:
        client = _connected(home, process)
        yield client, found
        process.terminate()
        process.wait(READY_WITHIN_S)
        _collect(home, process.pid, found)
    finally:
        process.kill()
        process.wait()


def _connected(home: Path, process: "subprocess.Popen[bytes]") -> Client:
    until = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < until and process.poll() is None:
        with suppress(OSError):
            client = Client(home)
            client.call("admin.health")
            return client
        time.sleep(0.1)
    raise RuntimeError(f"no daemon under valgrind: {(home / 'stderr.log').read_text()[-2000:]}")


def _collect(home: Path, pid: int, found: Counted) -> None:
    """One log a process; those of processes that were replaced by another program have no count."""
    for log in home.glob("counted.*"):
        text = log.read_text()
        counts = valgrind.COUNTED.findall(text)
        if counts and log.suffix == f".{pid}":
            found.daemon = valgrind.number(counts[-1])
        elif counts and SUPERVISOR in text:
            found.supervisor = valgrind.number(counts[-1])
