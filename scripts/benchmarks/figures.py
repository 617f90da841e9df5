"""The figures that are measured in turns with a floor, or with an empty database: how each is taken, and its target."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from benchmarks.floor import Floor
from benchmarks.processes import Clients, Daemon
from benchmarks.results import Figure, Target

BATCH = 100
PAUSE_S = 0.01
HELD = '{"jsonrpc":"2.0","id":%d,"method":"job.enqueue","params":{"job_type":"semantica.noop","queue":"held"}}'
NOOP = '{"jsonrpc":"2.0","id":%d,"method":"job.enqueue","params":{"job_type":"semantica.noop"}}'


class Stand(Struct, frozen=True):
    """What a measurement needs beside the daemon."""

    clients: Clients
    floor: Floor
    echo: Path
    folder: Path


class Taken(Struct, frozen=True):
    """A figure, and the functions that take one sample of it with `count` jobs (`quick` with --quick)."""

    figure: Figure
    slots: int
    count: int
    quick: int
    of_daemon: Callable[[Stand, Daemon, int], float]
    of_floor: Callable[[Stand, int], float] | None = None


def hold(daemon: Daemon) -> None:
    """The queue `held` takes any number of jobs and starts none; both are durable."""
    daemon.call("queue.pause", queue="held")
    daemon.call("queue.configure", queue="held", max_queued=100_000_000)


def pipelined(stand: Stand, daemon: Daemon, count: int) -> float:
    start, end = stand.clients.pipelined(daemon.socket, HELD, count)
    return count / (end - start)


def rows_inserted(stand: Stand, count: int) -> float:
    return count / sum(stand.floor.enqueue(count, BATCH))


def one_by_one(stand: Stand, daemon: Daemon, count: int) -> float:
    return statistics.median(stand.clients.one_by_one(daemon.socket, HELD, count)) * 1000


def round_trip_and_commit(stand: Stand, count: int) -> float:
    trip = statistics.median(stand.clients.one_by_one(stand.echo, HELD, count))
    return (trip + statistics.median(stand.floor.enqueue(count, 1))) * 1000


def until_done(stand: Stand, daemon: Daemon, count: int) -> float:
    """One more job with the lowest priority ends last, and one call waits for it: the daemon has no other requests
    while the jobs run. All of them must then be DONE."""
    wanted = daemon.counts("default")["done"] + count + 1
    start, _ = stand.clients.pipelined(daemon.socket, NOOP, count)
    last = daemon.call("job.enqueue", job_type="semantica.noop", priority=-100)["job_id"]
    daemon.call("job.wait", job_id=last, timeout_ms=60_000)
    return count / (all_done(daemon, "default", wanted) - start)


def all_done(daemon: Daemon, queue: str, wanted: int) -> float:
    """The instant at which the queue was empty; a few jobs may outlive the one with the lowest priority. `wanted` jobs
    must then be DONE."""
    end = time.monotonic()
    until = end + 120
    while (counts := daemon.counts(queue))["queued"] + counts["running"] and end < until:
        end = time.monotonic()
    if counts["done"] != wanted:
        raise RuntimeError(f"{counts['done']} jobs of queue {queue} are DONE instead of {wanted}: {counts}")
    return end


def lives(stand: Stand, count: int) -> float:
    return count / stand.floor.life(count, BATCH)


def until_started(stand: Stand, daemon: Daemon, count: int) -> float:
    return statistics.median(stand.clients.until_started(daemon.socket, NOOP, count, PAUSE_S)) * 1000


# The targets of rates are the instructions of the floor over the budget of the daemon: 33k over 200k for an enqueue,
# 107k over 550k and 650k for a job's whole life with 32 and with 2 slots.
TAKEN = [
    Taken(
        Figure("enqueue", "enqueue, 8 clients pipelined", "/s", Target(0.16, True, "floor")),
        32,
        16_000,
        4_000,
        pipelined,
        rows_inserted,
    ),
    Taken(
        Figure("single", "enqueue, one at a time, p50", "ms", Target(3, False, "floor")),
        32,
        2_000,
        300,
        one_by_one,
        round_trip_and_commit,
    ),
    Taken(
        Figure("noop32", "no-op until DONE, 32 slots", "/s", Target(0.19, True, "floor")),
        32,
        8_000,
        2_000,
        until_done,
        lives,
    ),
    Taken(
        Figure("noop2", "no-op until DONE, 2 slots", "/s", Target(0.16, True, "floor")),
        2,
        3_000,
        800,
        until_done,
        lives,
    ),
    Taken(
        Figure("start", "enqueue until started, idle, p50", "ms", Target(1.5)),
        32,
        100,
        40,
        until_started,
    ),
]
