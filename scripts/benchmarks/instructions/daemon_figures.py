"""The figures of a whole daemon: instructions that it executes for a job."""

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.instructions.daemon import Client, Counted, counted, request

BATCH = 100
FEW = 300  # jobs of a figure with many small commits: more would make SQLite checkpoint in between
HELD = request("job.enqueue", job_type="semantica.noop", queue="held")
NOOP = {"job_type": "semantica.noop"}
TRUE = {"job_type": "true", "execution_mode": "SUBPROCESS", "payload": {"argv": ["/bin/true"], "cwd": "/"}}

Work = Callable[[Client, int, int], None]


def enqueue() -> dict[str, float]:
    return {"enqueue": measure(pipelined, 500).daemon}


def single() -> dict[str, float]:
    return {"single": measure(one_at_a_time, FEW).daemon}


def inflight() -> dict[str, float]:
    return {"inflight": measure(flooded, 1000).daemon}


def noop() -> dict[str, float]:
    return {f"noop{slots}": measure(drained(NOOP), FEW, slots).daemon for slots in (32, 2)}


def true() -> dict[str, float]:
    found = measure(drained(TRUE), BATCH, slots=2)
    return {"true-daemon": found.daemon, "true-supervisor": found.supervisor}


def pipelined(client: Client, jobs: int, times: int) -> None:
    """100 requests in one write, 100 replies, and so on."""
    for _ in range(jobs * times // BATCH):
        client.exchange([HELD] * BATCH)


def one_at_a_time(client: Client, jobs: int, times: int) -> None:
    for _ in range(jobs * times):
        client.exchange([HELD])


def flooded(client: Client, jobs: int, times: int) -> None:
    client.flood([HELD] * (jobs * times))


def drained(spec: dict[str, Any]) -> Work:
    """Two paused queues get the same jobs in every run, so that no enqueue is in the difference; then one of them is
    resumed, or one after the other."""

    def work(client: Client, jobs: int, times: int) -> None:
        for queue in ("a", "b"):
            client.call("queue.pause", queue=queue)
            for _ in range(jobs // BATCH):
                client.call("job.enqueue_many", jobs=[{**spec, "queue": queue}] * BATCH)
        for queue in ("a", "b")[:times]:
            client.call("queue.resume", queue=queue)
            client.until_done(queue)

    return work


def measure(work: Work, jobs: int, slots: int = 32) -> Counted:
    """The difference between 2N and N jobs, divided by N: start, imports and first steps are in both and fall out."""
    once, twice = run(work, jobs, 1, slots), run(work, jobs, 2, slots)
    return Counted((twice.daemon - once.daemon) / jobs, (twice.supervisor - once.supervisor) / jobs)


def run(work: Work, jobs: int, times: int, slots: int) -> Counted:
    with tempfile.TemporaryDirectory(prefix="si-") as folder:
        with counted(Path(folder) / "home", slots) as (client, found):
            client.call("queue.pause", queue="held")
            work(client, jobs, times)
        return found
