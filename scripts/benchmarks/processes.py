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
    """One client process, and what it says."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "client.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def prepare(self, **told: Any) -> None:
        self._tell(json.dumps(told))
        self._hear()

    def go(self) -> None:
        self._tell("go")

    def result(self) -> Any:
        return self._hear()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    def _tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError("a client process has failed; what it says about it stands above")
        return json.loads(line)


class Clients:
    """Started once and used for every measurement, so that no figure holds the start of a process."""

    def __init__(self) -> None:
        self._all = [Client() for _ in range(CLIENTS)]

    def pipelined(self, path: Path, request: str, count: int) -> tuple[float, float]:
        """Together `count` requests from all clients at once: when the first was sent, when the last was answered."""
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
        """As one_by_one: when each began, by the wall clock, and what it took."""
        result = self._told(mode="one_by_one", socket=str(path), request=request, count=count)
        return list(zip(result["starts"], result["taken"], strict=True))

    def until_started(self, path: Path, request: str, count: int, pause_s: float) -> list[float]:
        return self._alone(mode="until_started", socket=str(path), request=request, count=count, pause_s=pause_s)

    def close(self) -> None:
        for client in self._all:
            client.close()

    def _alone(self, **told: Any) -> list[float]:
        taken: list[float] = self._told(**told)["taken"]
        return taken

    def _told(self, **told: Any) -> Any:
        self._all[0].prepare(**told)
        self._all[0].go()
        return self._all[0].result()


def other_work(over_s: float = 0.5) -> float:
    """How many cores are busy while we are not; 0 where /proc does not say."""
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
            raise RuntimeError("the echo server has failed; what it says about it stands above")
        yield path
    finally:
        process.kill()
        process.wait()


class Daemon:
    """semanticad as it is run in earnest; `slots` is its max_slots, and to change it is to restart it. `config` is what
    stands in its config.toml beside that."""

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
        """For the daemon and whoever is to find it."""
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
        self._hang_up()
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(READY_WITHIN_S)

    def kill(self) -> None:
        self._hang_up()
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def end(self) -> None:
        """Kills it and all that it started: its supervisor holds a lock until every job's process is gone."""
        self.kill()
        with suppress(FileNotFoundError), open(self.home / "supervisor.lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)

    def call(self, method: str, /, **params: Any) -> Any:
        """On one connection, kept open: the daemon's own bookkeeping of connections stays out of the figures."""
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
                raise ConnectionError("the daemon has hung up")
            line += part
        reply = json.loads(line)
        if "error" in reply:
            raise RuntimeError(f"{method}: {reply['error']}")
        return reply["result"]

    def counts(self, queue: str) -> dict[str, int]:
        """How many are queued, running, done …"""
        found = {one["queue"]: one for one in self.call("admin.stats")["queues"]}
        return {"queued": 0, "running": 0, "done": 0, **found.get(queue, {})}

    def cpu_s(self) -> float:
        """In nanoseconds' detail, thread by thread; /proc/PID/stat counts in steps of 10 ms, a tenth of a percent of
        ten seconds."""
        tasks = Path(f"/proc/{self.pid}/task").iterdir()
        return sum(int((task / "schedstat").read_text().split()[0]) for task in tasks) / 1e9

    def wakeups(self) -> int:
        """How often any of its threads has gone to sleep by itself, and so was woken."""
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
            self._hang_up()
            time.sleep(0.005)
        said = (self.home / "stderr.log").read_text()[-2000:]
        raise RuntimeError(f"semanticad did not become ready: {said}")

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
