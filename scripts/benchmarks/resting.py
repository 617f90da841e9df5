"""The figures of an idle daemon, of its memory after many jobs, and of a restart."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.figures import HELD, Stand, hold, until_done
from benchmarks.processes import Daemon
from benchmarks.results import Figure, Result, Target

NAMES = ("idle", "memory", "restart")
SETTLE_S = 2.0
WINDOW_S = 10.0
PART = 10_000

Log = Callable[[str], None]


def idle(home: Path, repeats: int, log: Log) -> Iterator[Result]:
    """A daemon that never had a job, with one connection that sends nothing."""
    daemon = Daemon(home, slots=32)
    try:
        daemon.start()
        time.sleep(SETTLE_S)
        busy, memory = [], []
        for number in range(repeats):
            before = daemon.cpu_s()
            time.sleep(WINDOW_S)
            busy.append((daemon.cpu_s() - before) / WINDOW_S * 100)
            memory.append(daemon.rss_bytes() / 1e6)
            log(f"idle {number + 1}/{repeats}: {busy[-1]:.3f} % of a core, {memory[-1]:.1f} MB")
    finally:
        daemon.kill()
    yield Figure("idle-cpu", f"CPU idle, over {WINDOW_S:.0f} s", "%", Target(0.1)).result(busy)
    yield Figure("idle-rss", "RSS idle", "MB", Target(45)).result(memory)


def memory(home: Path, stand: Stand, jobs: int, log: Log) -> Iterator[Result]:
    """Measured once: a second run in the same process could only grow less."""
    daemon = Daemon(home, slots=32)
    first = 0.0
    try:
        daemon.start()
        for done in range(PART, jobs + 1, PART):
            until_done(stand, daemon, PART)
            time.sleep(0.5)
            last = daemon.rss_bytes() / 1e6
            first = first or last
            log(f"memory: {last:.1f} MB after {done:,} jobs")
    finally:
        daemon.kill()
    target = Target(1.1, times=f"after {PART:,}")
    yield Figure("memory", f"RSS after {jobs:,} no-op jobs", "MB", target).result([last], [first])


def restart(daemon: Daemon, stand: Stand, repeats: int, log: Log) -> Iterator[Result]:
    """From the signal to the first `ready`. After kill -9 the daemon first recovers a WAL of 2,000 jobs."""
    stopped, killed = [], []
    for number in range(repeats):
        start = time.monotonic()
        daemon.stop()
        daemon.start()
        stopped.append(time.monotonic() - start)
        hold(daemon)
        stand.clients.pipelined(daemon.socket, HELD, 2_000)
        start = time.monotonic()
        daemon.kill()
        daemon.start()
        killed.append(time.monotonic() - start)
        log(f"restart {number + 1}/{repeats}: {stopped[-1]:.2f} s after SIGTERM, {killed[-1]:.2f} s after kill -9")
    yield Figure("restart", "SIGTERM until ready again", "s", Target(2)).result(stopped)
    yield Figure("restart-killed", "kill -9 until ready again", "s", Target(2)).result(killed)
