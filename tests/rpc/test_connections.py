"""Who may connect and how many: our own uid only, a private socket, a thousand at once, and none that is long gone."""

import contextlib
import json
import os
import resource
import socket
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness import Harness, Process, daemon
from tests.rpc.wire import Wire, request

MOST = 1000
LONG = {"type": "AFTER", "delay_ms": 3_600_000}
NOBODY = 65_534


@pytest.fixture
def many_files() -> Iterator[None]:
    """Room for more than a thousand sockets in this process; the daemon makes its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + 400
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"RLIMIT_NOFILE cannot be raised to {wanted} here (hard limit {hard})")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Caller:
    """A connection that is kept, for calls in between."""

    def __init__(self, process: Process) -> None:
        self.connection = process.connect()
        self.stream = self.connection.makefile("rwb")

    def call(self, method: str) -> dict[str, object]:
        self.stream.write(request(method) + b"\n")
        self.stream.flush()
        return dict(json.loads(self.stream.readline())["result"])

    def connections(self) -> int:
        parts = self.call("admin.health")["parts"]
        assert isinstance(parts, dict)
        return int(parts["server"]["connections"])

    def until(self, connections: int) -> None:
        until = time.monotonic() + 10
        while self.connections() != connections:
            assert time.monotonic() < until, f"{self.connections()} connections, not {connections}"


def connected(process: Process) -> socket.socket:
    """Waits while the listener's backlog is full, which a socket with a timeout does not."""
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(str(process.socket))
    connection.settimeout(10)
    return connection


def test_a_thousand_connections_are_served_and_the_next_is_told(home: Path, many_files: None) -> None:
    with Process(home).start() as process, contextlib.ExitStack() as stack:
        first = Caller(process)
        first.until(1)
        opened = [stack.enter_context(connected(process)) for _ in range(MOST - 1)]
        first.until(MOST)
        refused = [stack.enter_context(connected(process)) for _ in range(3)]
        for connection in refused:
            check_refused(connection)
        for connection in opened:
            connection.sendall(request("initialized", id="each") + b"\n")
        for connection in opened:
            assert json.loads(connection.recv(4096))["id"] == "each"
        assert first.call("admin.health")["status"] == "ready"
        opened.pop().close()
        first.until(MOST - 1)
        assert process.call("admin.health")["status"] == "ready"


def test_a_burst_of_connections_is_held_to_the_limit_too(home: Path, many_files: None) -> None:
    """More at once than there are places: the loop has not seen any of them when the last one connects."""
    with Process(home).start() as process, contextlib.ExitStack() as stack:
        first = Caller(process)
        first.until(1)
        burst = [stack.enter_context(connected(process)) for _ in range(MOST + 200)]
        first.until(MOST)
        told = [connection for connection in burst if readable(connection)]
        until = time.monotonic() + 10
        while len(told) < 201 and time.monotonic() < until:
            told = [connection for connection in burst if readable(connection)]
        assert (len(told), first.connections()) == (201, MOST)
        for connection in told:
            check_refused(connection)


def readable(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return False
    finally:
        connection.settimeout(10)


def check_refused(connection: socket.socket) -> None:
    with connection.makefile("rb") as stream:
        reply = json.loads(stream.readline())
        assert stream.readline() == b""
    assert (reply["id"], reply["error"]["code"]) == (None, 4003)
    data = reply["error"]["data"]
    assert (data["code"], data["retryable"], bool(data["hint"])) == ("E_TOO_MANY_CONNECTIONS", True, True)


async def connections(harness: Harness) -> int:
    return int((await harness.call("admin.health"))["parts"]["server"]["connections"])


@pytest.mark.parametrize(
    "doing", ["nothing", "wait", "more waits than may be in flight", "subscribe", "subscribe to one job"]
)
async def test_a_client_that_is_gone_gives_its_place_back(manual: Harness, doing: str) -> None:
    """Also one whose connection has nothing to say: otherwise a thousand of them would lock everybody out."""
    job_id = (await manual.enqueue(schedule=LONG))["job_id"]
    assert await connections(manual) == 1
    wire = await Wire.open(manual.paths.socket)
    wait = request("job.wait", job_id=job_id, timeout_ms=86_400_000)
    calls = {
        "nothing": request("initialized"),
        "wait": wait,
        "more waits than may be in flight": b"\n".join([wait] * 1500),
        "subscribe": request("event.subscribe", event_types=["daemon.recovered"]),
        "subscribe to one job": request("event.subscribe", job_id=job_id),
    }
    wire.put(calls[doing])
    if "wait" not in doing:
        await wire.message()
    await manual.settle()
    assert await connections(manual) == 2
    wire.close()
    for _ in range(10):
        await manual.advance(1000)
    assert await connections(manual) == 1


async def test_a_half_closed_subscriber_is_not_taken_for_gone(manual: Harness) -> None:
    """socat - UNIX:… < request: the client has said all it wants to say, and reads on."""
    wire = await Wire.open(manual.paths.socket)
    await wire.request(request("event.subscribe"))
    wire.half_close()
    for _ in range(10):
        await manual.advance(1000)
    await manual.enqueue(schedule=LONG)
    assert (await wire.message())["params"]["events"][0]["event_type"] == "job.scheduled"


# Private


async def test_the_socket_is_ours_alone(home: Path) -> None:
    before = os.umask(0)
    try:
        async with daemon(home / "new") as harness:
            found = harness.paths.socket.lstat()
            assert stat.S_ISSOCK(found.st_mode)
            assert stat.S_IMODE(found.st_mode) == 0o600
            assert os.umask(0) == 0, "the umask is only changed while binding"
    finally:
        os.umask(before)


def test_the_folder_is_ours_alone_whatever_the_umask(home: Path) -> None:
    """The process itself makes its folder, also under a umask that hides nothing."""
    before = os.umask(0)
    try:
        process = Process(home, SEMANTICA_SOCKET=str(home / "run" / "daemon.sock"))
        process.socket = home / "run" / "daemon.sock"
        with process.start():
            assert stat.S_IMODE((home / "run").stat().st_mode) == 0o700
            assert stat.S_IMODE(process.socket.lstat().st_mode) == 0o600
            assert stat.S_IMODE((home / "meta.db").stat().st_mode) & 0o077 == 0
    finally:
        os.umask(before)


def test_another_user_is_disconnected_and_logged_whatever_the_permissions(home: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("NOT TESTED: only root can connect as another user (run this test as root)")
    if not sys.platform.startswith("linux"):
        pytest.skip("NOT TESTED: the peer's uid is only asked for on Linux")
    with Process(home).start() as process:
        home.chmod(0o711)
        process.socket.chmod(0o666)
        assert as_nobody(process.socket) == b"connected, then nothing"
        (refused,) = [line for line in process.stderr().splitlines() if "foreign_peer_refused" in line]
        assert json.loads(refused)["uid"] == NOBODY
        assert process.call("job.list")["items"] == []


def as_nobody(path: Path) -> bytes:
    """What a child of another uid gets for an enqueue. Forked, since nobody may not read our Python."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(write, try_to_enqueue(path))
        except BaseException as error:
            os.write(write, repr(error).encode())
        os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read, "rb") as pipe:
        return pipe.read()


def try_to_enqueue(path: Path) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(10)
        connection.connect(str(path))
        try:
            connection.sendall(request("job.enqueue", job_type="semantica.noop") + b"\n")
            answer = connection.recv(4096)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
    return answer or b"connected, then nothing"
