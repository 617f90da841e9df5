"""Clients that send more than they read: bounded memory, nobody else slowed, nothing lost once they read on."""

import json
import select
import socket
import statistics
import time
from pathlib import Path
from typing import Any

import pytest

from tests.harness import PATIENCE_S, Process
from tests.rpc.wire import request

MB = 1_000_000
LONG = {"type": "AFTER", "delay_ms": 3_600_000}


class Line:
    """One blocking connection of lines that reads only when told to."""

    def __init__(self, process: Process, receive_buffer: int | None = None) -> None:
        self.socket = process.connect()
        if receive_buffer is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.stream = self.socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self) -> Any:
        line = self.stream.readline()
        assert line, "the connection has ended"
        return json.loads(line)

    def call(self, method: str, /, **params: Any) -> Any:
        self.send(request(method, **params) + b"\n")
        return self.read()["result"]

    def send_until_it_blocks(self, data: bytes, caller: "Line") -> int:
        """How many bytes the daemon and the socket take: blocked means so over many turns of the daemon's loop."""
        self.socket.setblocking(False)
        sent = blocked = 0
        while sent < len(data) and blocked < 50:
            try:
                sent += self.socket.send(data[sent : sent + 65_536])
                blocked = 0
            except BlockingIOError:
                blocked += 1
                caller.call("initialized")
        self.socket.settimeout(30)
        return sent

    def close(self) -> None:
        self.stream.close()
        self.socket.close()


@pytest.fixture
def process(home: Path) -> Any:
    with Process(home).start() as started:
        yield started


def rss(caller: Line) -> int:
    return int(caller.call("admin.stats")["system"]["rss_bytes"])


def test_calls_beyond_what_may_be_in_flight_wait_in_the_socket_and_are_all_answered(process: Process) -> None:
    """Far more waiting calls than fit: the daemon stops reading. Then it goes on, and none is lost."""
    caller = Line(process)
    job_id = caller.call("job.enqueue", job_type="semantica.noop", schedule=LONG)["job_id"]
    before = rss(caller)
    calls = [request("job.wait", id=number, job_id=job_id, timeout_ms=60_000) + b"\n" for number in range(10_000)]
    sender = Line(process)
    sent = sender.send_until_it_blocks(b"".join(calls), caller)
    assert sent < 5_000 * len(calls[0]), "the daemon goes on reading"
    assert rss(caller) - before < 30 * MB
    caller.call("job.cancel", job_id=job_id)
    sender.close()
    assert_all_are_answered(process, caller)


def assert_all_are_answered(process: Process, caller: Line) -> None:
    """2,500 on a connection that writes and reads at once."""
    job_id = caller.call("job.enqueue", job_type="semantica.noop", schedule=LONG)["job_id"]
    calls = b"".join(request("job.wait", id=n, job_id=job_id, timeout_ms=200) + b"\n" for n in range(2500))
    sender = Line(process)
    seen: list[int] = []
    sender.socket.setblocking(False)
    rest = memoryview(calls)
    buffered = b""
    until = time.monotonic() + PATIENCE_S
    while len(seen) < 2500 and time.monotonic() < until:
        readable, writable, _ = select.select([sender.socket], [sender.socket] if rest else [], [], 5)
        if writable:
            rest = rest[sender.socket.send(rest[:65_536]) :]
        if readable:
            *lines, buffered = (buffered + sender.socket.recv(1 << 20)).split(b"\n")
            seen += [json.loads(line)["id"] for line in lines]
    assert sorted(seen) == list(range(2500))


def test_large_answers_nobody_reads_are_not_piled_up(process: Process) -> None:
    """A hundred calls for a megabyte each, none of them read."""
    caller = Line(process)
    job = caller.call("job.enqueue", job_type="semantica.noop", payload={"t": "x" * MB})
    caller.call("job.wait", job_id=job["job_id"])
    before = rss(caller)
    calls = b"".join(request("job.get", id=number, job_id=job["job_id"]) + b"\n" for number in range(100))
    sender = Line(process)
    sender.send_until_it_blocks(calls, caller)
    settle(caller)
    grown = rss(caller) - before
    assert sorted(sender.read()["id"] for _ in range(100)) == list(range(100))
    assert grown < 60 * MB, f"{grown / MB:.0f} MB for answers that nobody reads"


def test_large_answers_that_many_clients_do_not_read_are_bounded_together(process: Process) -> None:
    """Thirty clients ask for 18 MB each: some answers are made, the other calls are refused, small ones never."""
    caller = Line(process)
    job_id = job_of_18_mb(caller)
    before = rss(caller)
    stuck = [Line(process, receive_buffer=4096) for _ in range(30)]
    for one in stuck:
        one.send(request("job.get", job_id=job_id) + b"\n")
    for one in stuck:
        one.socket.recv(1, socket.MSG_PEEK)  # its answer is there
    grown = rss(caller) - before
    replies = [one.read() for one in stuck]
    assert grown < 300 * MB, f"{grown / MB:.0f} MB for answers that nobody reads"
    errors = [reply["error"] for reply in replies if "error" in reply]
    assert {(error["code"], error["data"]["code"], error["data"]["retryable"]) for error in errors} == {
        (4003, "E_UNREAD_REPLIES", True)
    }
    assert 3 <= len(errors) < 30
    assert caller.call("job.get", job_id=job_id)["state"] == "DONE", "they have read by now"


def test_a_batch_does_not_collect_large_answers_without_bound(process: Process) -> None:
    caller = Line(process)
    job_id = job_of_18_mb(caller)
    caller.send(b"[" + b",".join(request("job.get", id=number, job_id=job_id) for number in range(12)) + b"]\n")
    replies = caller.read()
    assert sorted(reply["id"] for reply in replies) == list(range(12))
    assert {reply["error"]["data"]["code"] for reply in replies if "error" in reply} == {"E_UNREAD_REPLIES"}
    assert sum("result" in reply for reply in replies) >= 3


def job_of_18_mb(caller: Line) -> str:
    job = caller.call("job.enqueue", job_type="semantica.echo", payload={"t": "x" * 9 * MB})
    caller.call("job.wait", job_id=job["job_id"])
    return str(job["job_id"])


def settle(caller: Line) -> None:
    """Until the daemon's memory stands still over a few hundred turns of its loop."""
    before = -1
    while (now := rss(caller)) != before:
        before = now
        for _ in range(200):
            caller.call("initialized")


def make_events(caller: Line, jobs: int) -> None:
    """Three events for each job, and all of them over."""
    spec = {"job_type": "semantica.noop", "queue": "busy", "payload": {"t": "x" * 100}}
    for _ in range(jobs // 500):
        acks = caller.call("job.enqueue_many", jobs=[spec] * 500)["jobs"]
        for ack in acks[-2:]:
            assert caller.call("job.wait", job_id=ack["job_id"], timeout_ms=40_000)["finished"]


def test_a_subscriber_that_never_reads_costs_bounded_memory_and_misses_nothing(process: Process) -> None:
    caller = Line(process)
    make_events(caller, 1000)  # what the daemon keeps at hand is warm
    before = rss(caller)
    stuck = [Line(process, receive_buffer=4096) for _ in range(5)]
    for one in stuck:
        one.send(request("event.subscribe", since=0) + b"\n")
    make_events(caller, 3000)
    assert rss(caller) - before < 25 * MB
    newest = caller.call("event.list", since=0, limit=1000)
    while newest["events"]:
        newest = caller.call("event.list", since=newest["next_sequence"], limit=1000)
    assert newest["next_sequence"] >= 12_000
    assert read_all(stuck[0], newest["next_sequence"]) == list(range(1, newest["next_sequence"] + 1))


def read_all(subscriber: Line, newest: int) -> list[int]:
    assert "result" in subscriber.read()
    seen: list[int] = []
    while not seen or seen[-1] < newest:
        message = subscriber.read()
        assert message["method"] == "event"
        seen += [event["sequence"] for event in message["params"]["events"]]
    return seen


def test_subscribers_that_never_read_do_not_slow_the_writer(process: Process) -> None:
    """The quickest quarter of many calls, interleaved: other load on the machine slows the rest of them."""
    caller = Line(process)
    make_events(caller, 1000)
    alone: list[float] = []
    beside: list[float] = []
    for _ in range(4):
        alone += enqueue_times(caller)
        stuck = [Line(process, receive_buffer=4096) for _ in range(20)]
        for one in stuck:
            one.send(request("event.subscribe", since=0) + b"\n")
        make_events(caller, 500)  # fills their sockets
        beside += enqueue_times(caller)
        for one in stuck:
            one.close()
    assert statistics.quantiles(beside)[0] < 2 * statistics.quantiles(alone)[0] + 0.0005


def enqueue_times(caller: Line) -> list[float]:
    times = []
    for _ in range(100):
        began = time.perf_counter()
        caller.call("job.enqueue", job_type="semantica.noop", schedule=LONG)
        times.append(time.perf_counter() - began)
    return times


def test_a_subscriber_that_reads_slowly_gets_everything_while_more_is_made(process: Process) -> None:
    """It reads a little, events come, it reads a little more: from the table and from what is at hand in turn."""
    caller, slow = Line(process), Line(process, receive_buffer=4096)
    slow.call("event.subscribe", since=0)
    seen: list[int] = []
    for _ in range(4):
        make_events(caller, 500)
        seen += [event["sequence"] for event in slow.read()["params"]["events"]]
    newest = caller.call("admin.stats")["system"]["sequence"]
    while seen[-1] < newest:
        seen += [event["sequence"] for event in slow.read()["params"]["events"]]
    assert seen == list(range(1, newest + 1))


def test_a_stuck_reader_and_a_thousand_waits_do_not_hold_up_the_end(process: Process) -> None:
    caller = Line(process)
    make_events(caller, 500)
    stuck = Line(process, receive_buffer=4096)
    stuck.send(request("event.subscribe", since=0) + b"\n")
    job_id = caller.call("job.enqueue", job_type="semantica.noop", schedule=LONG)["job_id"]
    waiting = Line(process)
    waiting.send(b"".join(request("job.wait", id=n, job_id=job_id, timeout_ms=60_000) + b"\n" for n in range(1000)))
    caller.call("initialized")
    assert process.stop() == 0, "though the calls wait for a minute"
