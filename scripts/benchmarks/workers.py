"""The figures of external workers: claims a second over the socket, each followed by its completion."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.figures import Stand
from benchmarks.processes import Daemon
from benchmarks.results import Figure, Result, shown

NAMES = ("workers",)
JOB: dict[str, Any] = {"job_type": "bench", "execution_mode": "EXTERNAL", "payload": {"n": 1}}
CALL = 1_000
COUNTS = (1, 8)

Log = Callable[[str], None]


def workers(home: Path, stand: Stand, repeats: int, count: int, log: Log) -> Iterator[Result]:
    samples: dict[int, list[float]] = {number: [] for number in COUNTS}
    daemon = Daemon(home, slots=2)
    try:
        daemon.start()
        claims_a_second(stand, daemon, 8, CALL)
        for number in range(repeats):
            for workers in COUNTS:
                samples[workers].append(claims_a_second(stand, daemon, workers, count))
            found = ", ".join(f"{shown(samples[one][-1], '/s')} with {one}" for one in COUNTS)
            log(f"workers {number + 1}/{repeats}: {found}")
    finally:
        daemon.end()
    for workers, found in samples.items():
        yield Figure(f"workers{workers}", f"claim and complete, {workers} external workers", "/s", None).result(found)


def claims_a_second(stand: Stand, daemon: Daemon, workers: int, count: int) -> float:
    for _ in range(count // CALL):
        daemon.call("job.enqueue_many", jobs=[JOB] * CALL)
    claims, seconds = stand.clients.workers(daemon.socket, workers)
    if claims != count:
        raise RuntimeError(f"{claims} claims of {count} jobs")
    return claims / seconds
