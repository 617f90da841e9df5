"""A real daemon for tests: in the test process with a manual clock, or as a process of its own."""

import asyncio
import heapq
import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from semantica_daemon import config, paths
from semantica_daemon.clock import Clock, SystemClock
from semantica_daemon.daemon import Daemon, Setting, running
from semantica_daemon.store.tx import Tx

START = 1_800_000_000_000
PATIENCE_S = 40  # until a test gives up on a busy machine; no promise is as long


class ManualClock:
    """A clock that moves only when a test advances it; timers fire in order, each at its own instant.

    `step` sets the wall clock, `suspend` lets the machine sleep, during which timers stand still."""

    def __init__(self, now: int = START) -> None:
        self._now = float(now)
        self._set_by = 0
        self._slept = 0
        self._timers: list[tuple[float, int, Callable[[], object]]] = []
        self._cancelled: set[int] = set()
        self._numbers = itertools.count()

    def now(self) -> int:
        return int(self._now) + self._slept + self._set_by

    def monotonic(self) -> float:
        return self._now / 1000

    def elapsed(self) -> int:
        return int(self._now) + self._slept

    def step(self, ms: int) -> None:
        self._set_by += ms

    def suspend(self, ms: int) -> None:
        self._slept += ms

    def after(self, delay_ms: float, callback: Callable[[], object]) -> "ManualTimer":
        number = next(self._numbers)
        heapq.heappush(self._timers, (self._now + delay_ms, number, callback))
        return ManualTimer(self, number)

    def next_timer(self, until: float) -> Callable[[], object] | None:
        """Moves the clock to the next timer due by `until` and returns it; None, at `until`, when there is none."""
        while self._timers and self._timers[0][0] <= until:
            at, number, callback = heapq.heappop(self._timers)
            if number in self._cancelled:
                self._cancelled.discard(number)
                continue
            self._now = max(self._now, at)
            return callback
        self._now = max(self._now, until)
        return None


class ManualTimer:
    def __init__(self, clock: ManualClock, number: int) -> None:
        self._clock = clock
        self._number = number

    def cancel(self) -> None:
        self._clock._cancelled.add(self._number)


class RpcError(Exception):
    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']} {error['message']} {error.get('data')}")
        self.code: int = error["code"]
        self.message: str = error["message"]
        self.data: dict[str, Any] = error.get("data", {})


class Client:
    """A connection over the real socket that sends and reads one JSON document per line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.notifications: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._replies: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._ids = itertools.count(1)
        self._task = asyncio.create_task(self._listen())

    @classmethod
    async def connect(cls, path: Path) -> "Client":
        return cls(*await asyncio.open_unix_connection(path, limit=64 * 1024 * 1024))

    async def call(self, method: str, /, **params: Any) -> Any:
        return await self.result(self.send(method, **params))

    def send(self, method: str, /, **params: Any) -> int:
        number = next(self._ids)
        self._replies[number] = asyncio.get_running_loop().create_future()
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self.writer.write(json.dumps(request).encode() + b"\n")
        return number

    async def result(self, number: int) -> Any:
        reply = await asyncio.wait_for(self._replies[number], 2 * PATIENCE_S)
        del self._replies[number]
        if "error" in reply:
            raise RpcError(reply["error"])
        return reply["result"]

    async def events(self, count: int) -> list[dict[str, Any]]:
        """Waits for the next `count` events of this connection's subscriptions."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            notification = await asyncio.wait_for(self.notifications.get(), PATIENCE_S)
            assert notification["method"] == "event", notification
            found += notification["params"]["events"]
        return found

    async def close(self) -> None:
        self._task.cancel()
        self.writer.close()

    async def _listen(self) -> None:
        while line := await self.reader.readline():
            message = json.loads(line)
            if "method" in message:
                self.notifications.put_nowait(message)
            elif message["id"] in self._replies:
                self._replies[message["id"]].set_result(message)


class HarnessPaths(NamedTuple):
    data: Path
    database: Path
    socket: Path


class Harness:
    """A daemon in the test process. `settle` waits until it rests; `advance` moves its manual clock and settles."""

    def __init__(self, daemon: Daemon, clock: Clock, where: paths.Paths) -> None:
        self.daemon = daemon
        self.clock = clock
        self.paths = HarnessPaths(Path(where.data), Path(where.database), Path(where.socket))
        self._client: Client | None = None

    async def client(self) -> Client:
        return await Client.connect(self.paths.socket)

    async def call(self, method: str, /, **params: Any) -> Any:
        if self._client is None:
            self._client = await self.client()
        return await self._client.call(method, **params)

    async def enqueue(self, job_type: str = "semantica.noop", **spec: Any) -> Any:
        return await self.call("job.enqueue", job_type=job_type, **spec)

    async def job(self, job_id: str) -> Any:
        return await self.call("job.get", job_id=job_id)

    async def state(self, job_id: str) -> str:
        return str((await self.job(job_id))["state"])

    async def ended(self, job_id: str) -> Any:
        """Waits in real time until the job has ended, and returns it."""
        waited = await self.call("job.wait", job_id=job_id, timeout_ms=PATIENCE_S * 1000)
        assert waited["finished"], waited["job"]["state"]
        return waited["job"]

    async def settle(self) -> None:
        """Waits until the daemon does nothing more by itself: over a few round trips through the writer no event is
        recorded and every background part waits for its next pass."""
        quiet, before = 0, -1
        while quiet < 3:
            await self.daemon.commands.run(_nothing, None)
            for _ in range(10):
                await asyncio.sleep(0)
            now = self.daemon.feed.newest
            resting = all(part.wake._waiters and not part.wake.is_set() for part in self.daemon.passes)
            quiet, before = (quiet + 1, now) if now == before and resting else (0, now)

    async def advance(self, ms: float) -> None:
        assert isinstance(self.clock, ManualClock)
        await self.settle()
        until = self.clock._now + ms
        while (callback := self.clock.next_timer(until)) is not None:
            callback()
            await self.settle()
        await self.settle()

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()


def _nothing(tx: Tx, request: None) -> None:
    """An empty command: its reply means that the writer has run everything before it."""


def setting(home: Path, clock: Clock, text: str = "", seed: int = 0) -> Setting:
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    where = paths.find({"SEMANTICA_HOME": str(home)})
    config_file = Path(where.config)
    config_file.write_text(text)
    return Setting(where, config.load(config_file), clock, Random(seed))


@asynccontextmanager
async def daemon(home: Path, clock: Clock | None = None, text: str = "", seed: int = 0) -> AsyncIterator[Harness]:
    """`text` is the config file. Without a clock, real time."""
    given = setting(home, clock or SystemClock(), text, seed)
    async with running(given) as started:
        harness = Harness(started, given.clock, given.paths)
        try:
            yield harness
        finally:
            await harness.close()


class Process:
    """A daemon as a process of its own; calls are synchronous. `module` is what Python runs, in the root of the
    repository."""

    def __init__(self, home: Path, module: str = "semantica_daemon", **env: str) -> None:
        self.home = home
        self.module = module
        self.socket = home / "daemon.sock"
        clean = {key: value for key, value in os.environ.items() if not key.startswith("SEMANTICA_")}
        self.environment = {**clean, "SEMANTICA_HOME": str(home), **env}
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, ready: bool = True) -> "Process":
        command = [sys.executable, "-m", self.module]
        self.home.mkdir(parents=True, exist_ok=True, mode=0o700)
        with open(self.home / "stderr.log", "ab") as log:
            self.process = subprocess.Popen(command, env=self.environment, stderr=log, stdin=subprocess.DEVNULL)
        if ready:
            self.wait_ready()
        return self

    def wait_ready(self, seconds: float = PATIENCE_S) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if self.process is not None and self.process.poll() is not None:
                raise AssertionError(f"semanticad left with {self.process.returncode}: {self.stderr()}")
            try:
                if self.call("admin.health")["status"] == "ready":
                    return
            except (OSError, EOFError):
                time.sleep(0.01)
        raise AssertionError(f"not ready after {seconds} s: {self.stderr()}")

    def stderr(self) -> str:
        return (self.home / "stderr.log").read_text()[-4000:]

    def connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(PATIENCE_S)
        connection.connect(str(self.socket))
        return connection

    def call(self, method: str, /, **params: Any) -> Any:
        with self.connect() as connection, connection.makefile("rwb") as stream:
            request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            stream.write(json.dumps(request).encode() + b"\n")
            stream.flush()
            line = stream.readline()
        if not line:
            raise EOFError
        reply = json.loads(line)
        if "error" in reply:
            raise RpcError(reply["error"])
        return reply["result"]

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Sends SIGTERM and returns the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(PATIENCE_S)

    def __enter__(self) -> "Process":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()
