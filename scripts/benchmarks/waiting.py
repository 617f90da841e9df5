"""The figures of jobs that wait: many that are due at one instant and enqueues meanwhile, the lateness of a job, and
how often a daemon wakes up for jobs that are not due."""

import json
import socket
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.figures import HELD, Stand, hold
from benchmarks.processes import Daemon
from benchmarks.results import Figure, Result, Target, shown

NAMES = ("due", "lateness", "wakeups")
LEAD_S = 1.5
APART_MS = 20
FAR_MS = 86_400_000
WINDOW_S = 60.0

Log = Callable[[str], None]


def due(home: Path, stand: Stand, repeats: int, count: int, log: Log) -> Iterator[Result]:
    """`count` jobs of a paused queue are due at one instant. Beside it: the same daemon while no job is due."""
    samples, quiet, rates = [], [], []
    daemon = Daemon(home, slots=2)
    try:
        hold(daemon.start())
        p99_ms(stand.clients.one_by_one(daemon.socket, HELD, 200))
        for number in range(repeats):
            quiet.append(p99_ms(stand.clients.one_by_one(daemon.socket, HELD, 1_000)))
            busy, rate = meanwhile(stand, daemon, count)
            samples.append(p99_ms(busy))
            rates.append(rate)
            log(
                f"due {number + 1}/{repeats}: {shown(rate, '/s')}, enqueue p99 {shown(quiet[-1], 'ms')} before, "
                f"{shown(samples[-1], 'ms')} meanwhile ({len(busy)} calls)"
            )
    finally:
        daemon.end()
    yield Figure("due-rate", f"promotion of {count:,} jobs due at once", "/s", None).result(rates)
    what = f"enqueue p99 while {count:,} become due"
    yield Figure("due-p99", what, "ms", Target(3, times="idle")).result(samples, quiet)


def meanwhile(stand: Stand, daemon: Daemon, count: int) -> tuple[list[float], float]:
    """Seconds of each call that began while jobs were promoted, and the promotions a second."""
    at = int(time.time() * 1000) + int(LEAD_S * 1000) + count // 2
    spec = {"job_type": "semantica.noop", "queue": "held", "schedule": {"type": "AT", "scheduled_at": at}}
    for _ in range(count // 1_000):
        daemon.call("job.enqueue_many", jobs=[spec] * 1_000)
    since = daemon.call("admin.stats")["system"]["sequence"]
    time.sleep(max(0, at / 1000 - time.time() - 0.05))
    calls = stand.clients.timed(daemon.socket, HELD, count // 4)
    promoted = queued_at(daemon, since, count)
    first, last = promoted[0] / 1000, promoted[-1] / 1000
    busy = [taken for start, taken in calls if first <= start <= last]
    if len(busy) < 50:
        raise RuntimeError(f"only {len(busy)} calls fell into the {last - first:.2f} s of promotion")
    return busy, count / max(0.001, last - first)


def queued_at(daemon: Daemon, since: int, count: int) -> list[int]:
    """When each of them became QUEUED; the event of a job that was enqueued meanwhile has a payload."""
    found: list[int] = []
    until = time.monotonic() + 60
    while len(found) < count and time.monotonic() < until:
        page = daemon.call("event.list", since=since, event_types=["job.queued"], limit=1_000)
        found += [event["timestamp_at"] for event in page["events"] if not event["payload"]]
        since = page["next_sequence"]
    if len(found) != count:
        raise RuntimeError(f"{len(found)} of {count} jobs were promoted within a minute")
    return found


def lateness(home: Path, repeats: int, count: int, log: Log) -> Iterator[Result]:
    """From the time at which a job is due to the arrival of its job.started at a client."""
    middle, worst = [], []
    daemon = Daemon(home, slots=2)
    try:
        daemon.start()
        late_ms(daemon, 20)
        for number in range(repeats):
            taken = late_ms(daemon, count)
            middle.append(statistics.median(taken))
            worst.append(p99_ms([one / 1000 for one in taken]))
            log(f"lateness {number + 1}/{repeats}: p50 {shown(middle[-1], 'ms')}, p99 {shown(worst[-1], 'ms')}")
    finally:
        daemon.end()
    yield Figure("late-p50", "AT job: time until started, p50", "ms", None).result(middle)
    yield Figure("late-p99", "AT job: time until started, p99", "ms", None).result(worst)


def late_ms(daemon: Daemon, count: int) -> list[float]:
    with socket.socket(socket.AF_UNIX) as connection, connection.makefile("rb") as lines:
        connection.settimeout(30)
        connection.connect(str(daemon.socket))
        subscribe = {"jsonrpc": "2.0", "id": 0, "method": "event.subscribe", "params": {"event_types": ["job.started"]}}
        connection.sendall(json.dumps(subscribe).encode() + b"\n")
        lines.readline()
        first = int(time.time() * 1000) + 500
        specs = [
            {"job_type": "semantica.noop", "schedule": {"type": "AT", "scheduled_at": first + number * APART_MS}}
            for number in range(count)
        ]
        jobs = daemon.call("job.enqueue_many", jobs=specs)["jobs"]
        wanted = {job["job_id"]: first + number * APART_MS for number, job in enumerate(jobs)}
        taken: list[float] = []
        while len(taken) < count:
            received = json.loads(lines.readline())
            now = time.time() * 1000
            taken += [now - wanted[event["job_id"]] for event in received["params"]["events"]]
    if min(taken) < 0:
        raise RuntimeError(f"a job has started {-min(taken):.1f} ms before its time")
    return taken


def wakeups(home: Path, log: Log) -> Iterator[Result]:
    """A thousand jobs and a schedule wait for tomorrow, and nothing is due."""
    daemon = Daemon(home, slots=2)
    try:
        daemon.start()
        spec = {"job_type": "semantica.noop", "schedule": {"type": "AFTER", "delay_ms": FAR_MS}}
        daemon.call("job.enqueue_many", jobs=[spec] * 1_000)
        daemon.call("template.put", name="t", spec={"job_type": "semantica.noop"})
        daemon.call("schedule.put", name="s", template_id="t", cron_expression="0 0 1 1 *")
        time.sleep(2.5)
        before = daemon.wakeups()
        time.sleep(WINDOW_S)
        count = (daemon.wakeups() - before) * 60 / WINDOW_S
        log(f"wakeups: {count:.0f} a minute")
    finally:
        daemon.end()
    yield Figure("wakeups", "wake-ups a minute, nothing due", "", Target(12)).result([count])


def p99_ms(taken: list[float]) -> float:
    return statistics.quantiles(taken, n=100)[98] * 1000
