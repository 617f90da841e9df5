"""A home whose tables are full of finished jobs. The store's own verbs make a first block of them; SQL then copies its
rows with other ids, numbers and times, whatever columns they have."""

import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.floor import keep_freed_memory
from benchmarks.instructions.prepare import prepare
from benchmarks.instructions.store import Store
from semantica_daemon.model.queue import QueueRules
from semantica_daemon.wire.job import JobSpec

BLOCK = 5_000
BATCH = 100
MOST_EVENTS = 1_000_000  # retention keeps no more
WEEK_MS = 7 * 86_400_000
RULES = {queue: QueueRules(slots=BATCH) for queue in ("default", "held")}

# How a copy differs from its original, by column; `k` is the number of the copy, :NAME the largest value of the block.
TIME = "{} + k * :apart_ms"
ID = "substr({0}, 1, length({0}) - 8) || printf('%08x', k)"
CHANGED = {
    ("jobs", "id"): ID, ("jobs", "number"): "{} + k * :jobs", ("jobs", "run_id"): ID,
    ("jobs", "position"): "{} + k * :positions", ("jobs", "last_event"): "{} + k * :events",
    ("jobs", "generation"): "iif({0} = 0, 0, {0} + k * :generations)",
    ("job_runs", "run_id"): ID, ("job_runs", "job_id"): ID, ("job_runs", "job_number"): "{} + k * :jobs",
    ("job_events", "sequence"): "{} + k * :events", ("job_events", "previous"): "{} + k * :events",
    ("job_events", "job_id"): ID, ("job_events", "job_number"): "{} + k * :jobs",
}  # fmt: skip
COPIES = "WITH RECURSIVE copies(k) AS (VALUES (:first) UNION ALL SELECT k + 1 FROM copies WHERE k < :last)"
LARGEST = """
SELECT (SELECT max(rowid) FROM jobs) AS jobs, (SELECT max(position) FROM jobs) AS positions,
  (SELECT max(generation) FROM jobs) AS generations, (SELECT max(sequence) FROM job_events) AS events
"""


def fill(home: Path, count: int, log: Callable[[str], None], now: int | None = None) -> None:
    """About `count` jobs that have ended in the week before `now`: whole blocks."""
    keep_freed_memory()
    now = now or int(time.time() * 1000)
    block = min(count, BLOCK)
    connection = first_block(home, block, now - WEEK_MS)
    for pragma in ("journal_mode = OFF", "synchronous = OFF", "foreign_keys = OFF", "cache_size = -262144"):
        connection.execute(f"PRAGMA {pragma}")
    copies = count // block - 1
    if copies:
        log(f"history: {count:,} finished jobs …")
        copy(connection, copies)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()


def first_block(home: Path, jobs: int, start: int) -> sqlite3.Connection:
    """Both queues that are measured share the jobs; every second job has a subject, and each subject has two jobs."""
    admission = prepare(home, start)
    store = Store(home, BATCH, start, RULES)
    for first in range(0, jobs, BATCH):
        specs = [spec(number, jobs) for number in range(first, min(first + BATCH, jobs))]
        store.enqueue_jobs([admission.admit(one) for one in specs])
        store.finish(store.claim())
    return store.connection


def spec(number: int, jobs: int) -> JobSpec:
    subject = f"file:src/module_{number % (jobs // 2)}.py" if number // 2 % 2 else None
    return JobSpec(job_type="semantica.noop", queue=("default", "held")[number % 2], subject_key=subject)


def copy(connection: sqlite3.Connection, copies: int) -> None:
    connection.row_factory = sqlite3.Row
    values = dict(connection.execute(LARGEST).fetchone())
    values |= {"last": copies, "apart_ms": WEEK_MS // (copies + 1)}
    kept = max(1, copies + 1 - MOST_EVENTS // values["events"])
    connection.execute("BEGIN IMMEDIATE")
    for table, first in (("jobs", 1), ("job_runs", 1), ("job_events", kept)):
        connection.execute(f"CREATE TEMP TABLE block AS SELECT * FROM {table}")
        connection.execute(copied(connection, table), {**values, "first": first})
        connection.execute("DROP TABLE block")
    if kept > 1:
        connection.execute("DELETE FROM job_events WHERE sequence <= ?", (values["events"],))
    job_id = ID.format("job_id").replace("k", ":last")
    connection.execute(f"UPDATE lanes SET generation = generation + :last * :generations, job_id = {job_id}", values)
    totals = [name for name in columns(connection, "queue_counts") if name not in ("queue", "recent_run_ms")]
    counted = [f"{name} = {name} * (:last + 1)" for name in totals]
    connection.execute(f"UPDATE queue_counts SET {', '.join(counted)}", values)
    connection.execute("COMMIT")


def copied(connection: sqlite3.Connection, table: str) -> str:
    """In the order of time, so that rows lie as if they had been written one after the other."""
    names = columns(connection, table)
    changes = [CHANGED.get((table, name), TIME if name.endswith("_at") else "{}").format(name) for name in names]
    insert = f"INSERT INTO {table} ({', '.join(names)})"
    return f"{COPIES} {insert} SELECT {', '.join(changes)} FROM copies CROSS JOIN block"


def columns(connection: sqlite3.Connection, table: str) -> list[str]:
    return [row["name"] for row in connection.execute(f"PRAGMA table_info({table})")]
