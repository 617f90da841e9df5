"""A client in a process of its own. It reads an order on stdin, prepares the requests, waits for one more line, sends
them, and prints what it measured, one JSON document a line. It imports only the standard library."""

import json
import os
import select
import socket
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

CHUNK = 1 << 18
SUBSCRIBE = {"jsonrpc": "2.0", "id": 0, "method": "event.subscribe", "params": {"event_types": ["job.started"]}}

Run = Callable[[], dict[str, Any]]


def connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(path)
    return connection


def checked(replies: bytes, count: int) -> None:
    """Raises unless every request had a result: errors are fast, and would look good. Called after the measurement."""
    lines = replies.splitlines()
    bad = [line for line in lines if b'"error":' in line]
    if bad or len(lines) != count:
        raise RuntimeError(f"{len(lines)} replies to {count} requests, {len(bad)} of them errors: {bad[:1]!r}")


def pipelined(order: dict[str, Any]) -> Run:
    """Writes as fast as the server reads, and counts the replies."""
    request, count = order["request"], order["count"]
    out = memoryview("".join(request % number + "\n" for number in range(count)).encode())
    connection = connect(order["socket"])
    connection.setblocking(False)

    def run() -> dict[str, Any]:
        poller = select.poll()
        poller.register(connection, select.POLLIN | select.POLLOUT)
        sent, answered, replies = 0, 0, []
        start = time.monotonic()
        while answered < count:
            [(_, ready)] = poller.poll()
            if ready & select.POLLOUT:
                sent += connection.send(out[sent:])
                if sent == len(out):
                    poller.modify(connection, select.POLLIN)
            if ready & ~select.POLLOUT:
                replies.append(connection.recv(CHUNK))
                answered += replies[-1].count(b"\n")
                if not replies[-1]:
                    break
        end = time.monotonic()
        connection.close()
        checked(b"".join(replies), count)
        return {"start": start, "end": end}

    return run


def place(connection: socket.socket, cores: set[int]) -> None:
    """Pins this client and every thread of the server to these cores. Else the kernel keeps the two on one core or on
    two by chance, which on a virtual machine makes a round trip 12 µs or 67 µs."""
    if sys.platform != "linux":
        return
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    os.sched_setaffinity(0, cores)
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), cores)


def one_by_one(order: dict[str, Any]) -> Run:
    """Sends each request after the reply to the one before: seconds for each. Client and server share one core."""
    lines = [(order["request"] % number + "\n").encode() for number in range(order["count"])]
    connection = connect(order["socket"])

    def run() -> dict[str, Any]:
        taken, starts, replies = [], [], []
        everywhere = os.sched_getaffinity(0) if sys.platform == "linux" else set()
        place(connection, {min(everywhere, default=0)})
        for line in lines:
            starts.append(time.time())
            start = time.perf_counter()
            connection.sendall(line)
            reply = connection.recv(CHUNK)
            while reply[-1:] != b"\n":
                reply += connection.recv(CHUNK)
            taken.append(time.perf_counter() - start)
            replies.append(reply)
        place(connection, everywhere)
        connection.close()
        checked(b"".join(replies), len(lines))
        return {"taken": taken, "starts": starts}

    return run


def until_started(order: dict[str, Any]) -> Run:
    """One job at a time, `pause_s` apart: seconds from the request to the arrival of its job.started."""
    lines = [(order["request"] % number + "\n").encode() for number in range(1, order["count"] + 1)]
    connection = connect(order["socket"])
    connection.sendall(json.dumps(SUBSCRIBE).encode() + b"\n")
    checked(connection.recv(CHUNK), 1)

    def run() -> dict[str, Any]:
        taken = []
        for line in lines:
            time.sleep(order["pause_s"])
            start = time.perf_counter()
            connection.sendall(line)
            received = connection.recv(CHUNK)
            while b'"job.started"' not in received:
                received += connection.recv(CHUNK)
            taken.append(time.perf_counter() - start)
            while received.count(b"\n") < 2:
                received += connection.recv(CHUNK)
            checked(received, 2)
        connection.close()
        return {"taken": taken}

    return run


def worker(order: dict[str, Any]) -> Run:
    """An external worker: claims a job and completes it, until there are none."""
    connection = connect(order["socket"])

    def call(method: str, **params: Any) -> bytes:
        connection.sendall(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode() + b"\n")
        reply = connection.recv(CHUNK)
        while reply[-1:] != b"\n":
            reply += connection.recv(CHUNK)
        if b'"result":' not in reply[:60]:
            raise RuntimeError(f"{method}: {reply!r}")
        return reply

    worker_id = json.loads(call("worker.register", name="bench"))["result"]["worker_id"]

    def run() -> dict[str, Any]:
        claims = 0
        start = time.monotonic()
        while (place := (reply := call("worker.claim", worker_id=worker_id, wait_ms=0)).find(b'"run_id":"')) > 0:
            call("worker.complete", worker_id=worker_id, run_id=reply[place + 10 : place + 46].decode())
            claims += 1
        end = time.monotonic()
        call("worker.leave", worker_id=worker_id)
        connection.close()
        return {"start": start, "end": end, "claims": claims}

    return run


MODES: dict[str, Callable[[dict[str, Any]], Run]] = {
    "pipelined": pipelined,
    "one_by_one": one_by_one,
    "until_started": until_started,
    "worker": worker,
}


def report(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Ends with stdin, so that no client outlives the benchmark."""
    while line := sys.stdin.readline():
        order = json.loads(line)
        run = MODES[order["mode"]](order)
        report({"ready": True})
        if not sys.stdin.readline():
            return
        report(run())


if __name__ == "__main__":
    main()
