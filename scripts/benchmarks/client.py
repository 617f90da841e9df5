"""A client in a process of its own: told on stdin what to do, it makes everything ready, waits for the word, and says
on stdout how it went; one JSON document a line. Only the standard library, and little work while the clock runs."""

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
    """Only after the clock has stopped: a benchmark of refusals would be a fast one."""
    lines = replies.splitlines()
    bad = [line for line in lines if b'"error":' in line]
    if bad or len(lines) != count:
        raise RuntimeError(f"{len(lines)} replies to {count} requests, {len(bad)} of them errors: {bad[:1]!r}")


def pipelined(told: dict[str, Any]) -> Run:
    """Writes as fast as the server reads, and counts replies."""
    request, count = told["request"], told["count"]
    out = memoryview("".join(request % number + "\n" for number in range(count)).encode())
    connection = connect(told["socket"])
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
    """This client and every thread of the server behind the connection. Left to itself the kernel keeps a pair on one
    core or on two, as it likes, and on a virtual machine that alone is 12 µs or 67 µs a round trip."""
    if sys.platform != "linux":
        return
    pid, _, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    os.sched_setaffinity(0, cores)
    for thread in os.listdir(f"/proc/{pid}/task"):
        os.sched_setaffinity(int(thread), cores)


def one_by_one(told: dict[str, Any]) -> Run:
    """The next request only after the last reply: seconds for each. Both ends on one core, echo and daemon alike."""
    lines = [(told["request"] % number + "\n").encode() for number in range(told["count"])]
    connection = connect(told["socket"])

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


def until_started(told: dict[str, Any]) -> Run:
    """One job at a time, `pause_s` apart: seconds from the request to the arrival of its job.started."""
    lines = [(told["request"] % number + "\n").encode() for number in range(1, told["count"] + 1)]
    connection = connect(told["socket"])
    connection.sendall(json.dumps(SUBSCRIBE).encode() + b"\n")
    checked(connection.recv(CHUNK), 1)

    def run() -> dict[str, Any]:
        taken = []
        for line in lines:
            time.sleep(told["pause_s"])
            start = time.perf_counter()
            connection.sendall(line)
            heard = connection.recv(CHUNK)
            while b'"job.started"' not in heard:
                heard += connection.recv(CHUNK)
            taken.append(time.perf_counter() - start)
            while heard.count(b"\n") < 2:
                heard += connection.recv(CHUNK)
            checked(heard, 2)
        connection.close()
        return {"taken": taken}

    return run


MODES: dict[str, Callable[[dict[str, Any]], Run]] = {
    "pipelined": pipelined,
    "one_by_one": one_by_one,
    "until_started": until_started,
}


def say(document: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Ends when stdin does, so that no client outlives the benchmark."""
    while line := sys.stdin.readline():
        told = json.loads(line)
        run = MODES[told["mode"]](told)
        say({"ready": True})
        if not sys.stdin.readline():
            return
        say(run())


if __name__ == "__main__":
    main()
