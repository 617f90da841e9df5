"""The processes a benchmark starts: eight clients, the echo server, and the daemon under test with its own home."""

import fcntl
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
READY_WITHIN_S = 30.0
CLIENTS = 8


class Client:
    """One client process and its answers."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "client.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def prepare(self, **order: Any) -> None:
        self._write(json.dumps(order))
        self._read()

    def go(self) -> None:
        self._write("go")

    def result(self) -> Any:
        return self._read()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _write(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a client process has failed; its message stands above")
        return json.loads(line)


class Clients:
    """Eight clients, started once for all measurements, so that no figure has the start of a process in it."""

    def __init__(self) -> None:
        self._all = [Client() for _ in range(CLIENTS)]

    def pipelined(self, path: Path, request: str, count: int) -> tuple[float, float]:
        """Sends `count` requests from all clients at once: the instants of the first request and of the last reply."""
        share, rest = divmod(count, len(self._all))
        for number, client in enumerate(self._all):
            client.prepare(mode="pipelined", socket=str(path), request=request, count=share + (number < rest))
        for client in self._all:
            client.go()
        results = [client.result() for client in self._all]
        return min(one["start"] for one in results), max(one["end"] for one in results)

    def one_by_one(self, path: Path, request: str, count: int) -> list[float]:
        return self._alone(mode="one_by_one", socket=str(path), request=request, count=count)

    def timed(self, path: Path, request: str, count: int) -> list[tuple[float, float]]:
        """As one_by_one, with the wall-clock instant at which each began."""
        result = self._measure(mode="one_by_one", socket=str(path), request=request, count=count)
        return list(zip(result["starts"], result["taken"], strict=True))

    def until_started(self, path: Path, request: str, count: int, pause_s: float) -> list[float]:
        return self._alone(mode="until_started", socket=str(path), request=request, count=count, pause_s=pause_s)

    def workers(self, path: Path, count: int) -> tuple[int, float]:
        """So many external workers claim and complete jobs until there are none: the claims, and the seconds."""
        chosen = self._all[:count]
        for client in chosen:
            client.prepare(mode="worker", socket=str(path))
        for client in chosen:
            client.go()
        results = [client.result() for client in chosen]
        seconds = max(one["end"] for one in results) - min(one["start"] for one in results)
        return sum(one["claims"] for one in results), seconds

    def close(self) -> None:
        for client in self._all:
            client.close()

    def _alone(self, **order: Any) -> list[float]:
        taken: list[float] = self._measure(**order)["taken"]
        return taken

    def _measure(self, **order: Any) -> Any:
        self._all[0].prepare(**order)
        self._all[0].go()
        return self._all[0].result()


def other_work(over_s: float = 0.5) -> float:
    """How many cores other processes keep busy; 0 without /proc."""
    with suppress(OSError):
        before = _busy_s()
        time.sleep(over_s)
        return (_busy_s() - before) / over_s
    return 0.0


def _busy_s() -> float:
    user, nice, system, _, _, *interrupts = map(int, Path("/proc/stat").read_text().split("\n")[0].split()[1:9])
    return (user + nice + system + sum(interrupts)) / os.sysconf("SC_CLK_TCK")


@contextmanager
def echo_server(path: Path) -> Iterator[Path]:
    process = subprocess.Popen(
        [sys.executable, str(HERE / "echo.py"), str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        if not process.stdout.readline():
            raise RuntimeError("the echo server has failed; its message stands above")
        yield path
    finally:
        process.kill()
        process.wait()


class Daemon:
    """A real semanticad with its own home. `slots` is its max_slots, which only a restart changes; `config` is the rest
    of its config.toml."""

    def __init__(self, home: Path, slots: int, config: str = "") -> None:
        self.home = home
        self.socket = home / "daemon.sock"
        self.slots = slots
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: socket.socket | None = None
        home.mkdir(mode=0o700, exist_ok=True)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def env(self) -> dict[str, str]:
        """For the daemon and for clients that have to find it."""
        env = {key: value for key, value in os.environ.items() if not key.startswith("SEMANTICA_")}
        return {**env, "SEMANTICA_HOME": str(self.home)}

    def start(self) -> "Daemon":
        (self.home / "config.toml").write_text(f"{self._config}[daemon]\nmax_slots = {self.slots}\n")
        with open(self.home / "stderr.log", "ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "semantica_daemon"], env=self.env, stderr=log, stdin=subprocess.DEVNULL
            )
        self._wait_ready()
        return self

    def with_slots(self, slots: int) -> "Daemon":
        if slots != self.slots:
            self.stop()
            self.slots = slots
            self.start()
        return self

    def stop(self) -> None:
        self._disconnect()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(READY_WITHIN_S)

    def kill(self) -> None:
        self._disconnect()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def end(self) -> None:
        """Kills the daemon and waits until its supervisor has ended every job: until then that holds a lock."""
        self.kill()
        with suppress(FileNotFoundError), open(self.home / "supervisor.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)

    def call(self, method: str, /, **params: Any) -> Any:
        """On one connection that is kept open, so that no figure has connecting in it."""
        if self._connection is None:
            self._connection = socket.socket(socket.AF_UNIX)
            self._connection.settimeout(120)
            self._connection.connect(str(self.socket))
        request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        self._connection.sendall(json.dumps(request).encode() + b"\n")
        line = b""
        while not line.endswith(b"\n"):
            part = self._connection.recv(1 << 16)
            if not part:
                raise ConnectionError("the daemon has closed the connection")
            line += part
        reply = json.loads(line)
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']}")
        return reply["result"]

    def counts(self, queue: str) -> dict[str, int]:
        """The jobs of the queue by state: queued, running, done …"""
        found = {one["queue"]: one for one in self.call("admin.stats")["queues"]}
        return {"queued": 0, "running": 0, "done": 0, **found.get(queue, {})}

    def cpu_s(self) -> float:
        """CPU time of all threads, to the nanosecond: /proc/PID/stat counts in steps of 10 ms."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def wakeups(self) -> int:
        """How often its threads have waited, and so were woken."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(
            int((task / "status").read_text().split("\nvoluntary_ctxt_switches:")[1].split()[0]) for task in tasks
        )

    def rss_bytes(self) -> int:
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def _wait_ready(self) -> None:
        until = time.monotonic() + READY_WITHIN_S
        while time.monotonic() < until:
            assert self._process is not None
            if self._process.poll() is not None:
                break
            with suppress(OSError):
                if self.call("admin.health")["status"] == "ready":
                    return
            self._disconnect()
            time.sleep(0.005)
        log = (self.home / "stderr.log").read_text()[-2000:]
        raise RuntimeError(f"semanticad did not become ready: {log}")

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
