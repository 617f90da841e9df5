"""The daemon's loop is never held: a handler inside it measures how long it has to wait while others ask much."""

import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.engine import sample_handlers
from tests.harness import Process

LONGEST_MS = 250
# By the clock on the wall, where a busy machine counts too: what only a loop that waits for something reaches.
STUCK_MS = 1500


@pytest.fixture
def process(home: Path) -> Iterator[Process]:
    (home / "config.toml").write_text(sample_handlers.config(slots=4))
    with Process(home).start() as started:
        yield started


class Caller(threading.Thread):
    """Calls over one connection, one after the other; what went wrong is in `error`."""

    def __init__(self, process: Process, calls: list[bytes]) -> None:
        super().__init__()
        self._connection = process.connect()
        self._calls = calls
        self.error: str | None = None

    def run(self) -> None:
        with self._connection, self._connection.makefile("rb") as replies:
            for call in self._calls:
                self._connection.sendall(call)
                reply = json.loads(replies.readline())
                if "error" in reply:
                    self.error = str(reply["error"])
        self._connection.close()


def request(method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n"


def never_held(process: Process, watch: str) -> None:
    process.call("job.cancel", job_id=watch, wait_ms=5000)
    progress = process.call("job.get", job_id=watch)["progress"]
    assert progress["items_completed"] < LONGEST_MS
    assert progress["items_total"] < STUCK_MS


def test_listing_and_large_payloads_never_hold_the_loop(process: Process) -> None:
    watch = process.call("job.enqueue", job_type="watch_loop", queue="watch")["job_id"]
    large = {"numbers": list(range(400_000)), "text": "x" * 1_000_000}
    many = [{"job_type": "semantica.noop", "payload": {"n": n, "filler": "y" * 3000}} for n in range(200)]
    callers = [
        Caller(process, [request("job.enqueue", job_type="semantica.noop", payload=large)] * 4),
        Caller(process, [request("job.enqueue_many", jobs=many)] * 5),
        Caller(process, [request("job.list", limit=200), request("event.list", limit=1000)] * 20),
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert [caller.error for caller in callers] == [None, None, None]
    never_held(process, watch)


def test_a_subscriber_that_never_reads_slows_nobody(process: Process) -> None:
    with process.connect() as deaf:
        deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deaf.sendall(request("event.subscribe", since=0))
        watch = process.call("job.enqueue", job_type="watch_loop", queue="watch")["job_id"]
        chatter = process.call("job.enqueue", job_type="chatter", payload={"lines": 30_000})["job_id"]
        assert process.call("job.wait", job_id=chatter, timeout_ms=40_000)["finished"]
        never_held(process, watch)
