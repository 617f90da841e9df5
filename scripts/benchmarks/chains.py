"""The figures of chains: jobs in a row, and many children of one parent, with enqueues meanwhile. The longest of those
bounds the time for which the writer was held."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.figures import HELD, Stand, hold
from benchmarks.processes import Daemon
from benchmarks.results import Figure, Result, shown

NAMES = ("chain", "fanout")
NOOP: dict[str, Any] = {"job_type": "semantica.noop"}
GATE = "gate"  # the queue of the first job, which is paused until the measurement begins
CALL = 1_000
WITHIN_S = 120

Log = Callable[[str], None]


def chain(home: Path, repeats: int, count: int, log: Log) -> Iterator[Result]:
    """From the start of the first job to the end of the last."""
    samples = []
    daemon = Daemon(home, slots=2)
    try:
        daemon.start()
        row_ms(daemon, 100)
        for number in range(repeats):
            samples.append(row_ms(daemon, count))
            log(f"chain {number + 1}/{repeats}: {shown(samples[-1], 'ms')}")
    finally:
        daemon.end()
    yield Figure("chain", f"chain of {count:,} no-op jobs", "ms", None).result(samples)


def row_ms(daemon: Daemon, count: int) -> float:
    daemon.call("queue.pause", queue=GATE)
    rest = [{**NOOP, "parents": [f"#{number}"]} for number in range(count - 1)]
    last = daemon.call("job.enqueue_many", jobs=[{**NOOP, "queue": GATE}, *rest])["jobs"][-1]["job_id"]
    start = time.monotonic()
    daemon.call("queue.resume", queue=GATE)
    if daemon.call("job.wait", job_id=last, timeout_ms=WITHIN_S * 1000)["job"]["state"] != "DONE":
        raise RuntimeError(f"the last job of the chain, {last}, is not DONE")
    return (time.monotonic() - start) * 1000


def fanout(home: Path, stand: Stand, repeats: int, count: int, log: Log) -> Iterator[Result]:
    """Until all children of one job are DONE, or CANCELLED with it; and the longest enqueue of a client meanwhile.
    Beside it: the longest while nothing happens."""
    done, cancelled, longest, quiet = [], [], [], []
    daemon = Daemon(home, slots=32)
    try:
        hold(daemon.start())
        stand.clients.one_by_one(daemon.socket, HELD, 200)
        for number in range(repeats):
            quiet.append(max(stand.clients.one_by_one(daemon.socket, HELD, count // 4)) * 1000)
            done.append(children_ms(daemon, count, "done"))
            cancelled.append(children_ms(daemon, count, "cancelled"))
            longest.append(max(meanwhile_ms(stand, daemon, count, end) for end in ("done", "cancelled")))
            ended = f"{shown(done[-1], 'ms')} until DONE, {shown(cancelled[-1], 'ms')} until CANCELLED"
            enqueue = f"longest enqueue {shown(quiet[-1], 'ms')} before, {shown(longest[-1], 'ms')} meanwhile"
            log(f"fanout {number + 1}/{repeats}: {ended}, {enqueue}")
    finally:
        daemon.end()
    yield Figure("fanout", f"{count:,} no-op children until DONE", "ms", None).result(done)
    yield Figure("fanout-cancel", f"{count:,} children until CANCELLED", "ms", None).result(cancelled)
    yield Figure("fanout-longest", "longest enqueue meanwhile", "ms", None).result(longest, quiet)


def children_ms(daemon: Daemon, count: int, end: str) -> float:
    """From the end of the parent to that of the last child."""
    wanted, parent = _with_children(daemon, count, end)
    start = time.monotonic()
    _end_parent(daemon, parent, end)
    _all_ended(daemon, end, wanted)
    return (time.monotonic() - start) * 1000


def meanwhile_ms(stand: Stand, daemon: Daemon, count: int, end: str) -> float:
    """The longest call of a client that begins with the end of the parent."""
    wanted, parent = _with_children(daemon, count, end)
    _end_parent(daemon, parent, end)
    taken = stand.clients.one_by_one(daemon.socket, HELD, count // 10)
    _all_ended(daemon, end, wanted)
    return max(taken) * 1000


def _with_children(daemon: Daemon, count: int, end: str) -> tuple[int, str]:
    """How many jobs of the queue `default` will have ended, and the parent, which waits in a paused queue."""
    daemon.call("queue.pause", queue=GATE)
    parent = daemon.call("job.enqueue", **NOOP, queue=GATE)["job_id"]
    wanted = daemon.counts("default")[end] + count
    for _ in range(count // CALL):
        daemon.call("job.enqueue_many", jobs=[{**NOOP, "parents": [parent]}] * CALL)
    return wanted, parent


def _end_parent(daemon: Daemon, parent: str, end: str) -> None:
    if end == "done":
        daemon.call("queue.resume", queue=GATE)
    else:
        daemon.call("job.cancel", job_id=parent)


def _all_ended(daemon: Daemon, end: str, wanted: int) -> None:
    until = time.monotonic() + WITHIN_S
    while daemon.counts("default")[end] < wanted:
        if time.monotonic() > until:
            raise RuntimeError(f"not all children are {end}: {daemon.counts('default')}")
