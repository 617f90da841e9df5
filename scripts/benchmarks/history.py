"""A home whose table is already full of finished jobs, written straight into the database while no daemon runs: jobs,
their runs, the events that retention would have kept, the lanes, and the counts."""

import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from benchmarks.floor import JOB_TYPE, event, keep_freed_memory, new_job
from semantica_daemon.store.arrival import NewJob
from semantica_daemon.store.counts import COLUMNS, STORE
from semantica_daemon.store.database import connect
from semantica_daemon.store.ids import Ids
from semantica_daemon.store.migrate import migrate
from semantica_daemon.store.tx import INSERT_EVENT

PART = 10_000
MOST_EVENTS = 1_000_000
EVENTS_A_JOB = 3
SUBJECTS = 10_000
WEEK_MS = 7 * 86_400_000
RAN_MS = 5
QUEUES = ("default", "held")

FIELDS = (*NewJob.__struct_fields__, "started_at", "run_id", "attempts", "run_count")
INSERT_JOB = f"INSERT INTO jobs ({', '.join(FIELDS)}) VALUES ({', '.join('?' * len(FIELDS))})"
INSERT_RUN = """
INSERT INTO job_runs (run_id, job_id, attempt, status, params_snapshot, started_at, finished_at)
VALUES (?, ?, 1, 'DONE', '{}', ?, ?)
"""
INSERT_LANE = """
INSERT OR REPLACE INTO lanes (subject_key, job_type, generation, job_id, ended, numbered_by)
VALUES (?, ?, ?, ?, 'DONE', 'server')
"""


class Past:
    """The rows of one part, table by table."""

    def __init__(self) -> None:
        self.jobs: list[tuple[Any, ...]] = []
        self.runs: list[tuple[Any, ...]] = []
        self.lanes: list[tuple[Any, ...]] = []
        self.events: list[tuple[Any, ...]] = []


def fill(home: Path, count: int, say: Callable[[str], None]) -> None:
    """The two queues that are measured share the jobs; every second job has a subject."""
    home.mkdir(mode=0o700)
    keep_freed_memory()
    connection = connect(home / "meta.db")
    now = int(time.time() * 1000)
    migrate(connection, now)
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA cache_size = -262144")
    ids = Ids(Random())
    for first in range(0, count, PART):
        past = Past()
        for number in range(first, min(first + PART, count)):
            _add(past, ids, number, count, now - WEEK_MS + number * WEEK_MS // count)
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany(INSERT_JOB, past.jobs)
        connection.executemany(INSERT_RUN, past.runs)
        connection.executemany(INSERT_LANE, past.lanes)
        connection.executemany(INSERT_EVENT, past.events)
        connection.execute("COMMIT")
        if (first // PART) % 10 == 9:
            say(f"history: {first + PART:,} of {count:,} finished jobs")
    connection.executemany(STORE, _counts(count))
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    connection.close()


def _add(past: Past, ids: Ids, number: int, count: int, at: int) -> None:
    job_id, run_id, queue = ids.job(), ids.run(at), QUEUES[number % 2]
    subject, generation = "", 0
    if number % 4 >= 2:
        turn, lane = divmod(number // 4 * 2 + number % 2, SUBJECTS)
        generation = turn + 1
        subject = f"file:src/module_{lane}.py"
        past.lanes.append((subject, JOB_TYPE, generation, job_id))
    job = msgspec.structs.replace(
        new_job(job_id, queue, at, (number + 1) * 100),
        state="DONE", finished_at=at + RAN_MS, updated_at=at + RAN_MS, event_count=EVENTS_A_JOB,
        subject_key=subject, generation=generation,
    )  # fmt: skip
    past.jobs.append((*msgspec.structs.astuple(job), at, run_id, 1, 1))
    past.runs.append((run_id, job_id, at, at + RAN_MS))
    if (count - number) * EVENTS_A_JOB <= MOST_EVENTS:
        past.events += _events(number * EVENTS_A_JOB, job_id, run_id, at, queue)


def _events(before: int, job_id: str, run_id: str, at: int, queue: str) -> list[tuple[Any, ...]]:
    """Numbered as if the older ones had been pruned; sqlite_sequence follows the largest by itself."""
    run = {"run_id": run_id, "attempt": 1}
    life = [
        event(job_id, 1, at, "job.queued", {"queue": queue, "job_type": JOB_TYPE}, queue),
        event(job_id, 2, at, "job.started", run, queue),
        event(job_id, 3, at + RAN_MS, "job.done", {**run, "duration_ms": RAN_MS}, queue),
    ]
    return [(number, *one[1:]) for number, one in enumerate(life, before + 1)]


def _counts(count: int) -> list[tuple[Any, ...]]:
    shares = {"default": count - count // 2, "held": count // 2}
    known = {queue: {"done": n, "runs": n, "ended_runs": n, "run_ms": n * RAN_MS} for queue, n in shares.items()}
    return [(queue, *(values.get(column, 0) for column in COLUMNS)) for queue, values in known.items()]
