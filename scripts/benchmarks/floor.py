"""The reference floor of every write: the leanest SQL that keeps what the daemon promises of a job. Frozen: its schema
and statements never change with the product, or a ratio to it would no longer show what the product has become.

It keeps: a durable row for each job, found by its id; the order of a queue; the newest generation of a lane as the only
live one (a unique index; the jobs measured have no lane); a row for each run; one sequence of events without gaps; and
the counts of each queue; each change in one transaction. Rows are made before the clock starts. It has none of the
daemon's other columns, checks, indexes, schedules, limits and readers.
"""

import ctypes
import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

SCHEMA = """
CREATE TABLE jobs (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  queue TEXT NOT NULL,
  priority INTEGER NOT NULL,
  state INTEGER NOT NULL,
  lane TEXT,
  generation INTEGER,
  attempts INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER,
  spec TEXT NOT NULL
);
CREATE INDEX next_of_queue ON jobs (queue, priority DESC) WHERE state = 0;
CREATE UNIQUE INDEX newest_of_lane ON jobs (lane) WHERE lane IS NOT NULL AND state = 0;
CREATE TABLE runs (
  job INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  status INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  finished_at INTEGER,
  PRIMARY KEY (job, attempt)
) WITHOUT ROWID;
CREATE TABLE events (
  sequence INTEGER PRIMARY KEY,
  job INTEGER NOT NULL,
  at INTEGER NOT NULL,
  type TEXT NOT NULL,
  payload TEXT NOT NULL
);
CREATE TABLE counts (queue TEXT PRIMARY KEY, queued INTEGER, running INTEGER, done INTEGER) WITHOUT ROWID;
INSERT INTO counts VALUES ('default', 0, 0, 0), ('held', 0, 0, 0);
"""
PRAGMAS = ("PRAGMA journal_mode = WAL", "PRAGMA synchronous = NORMAL", "PRAGMA wal_autocheckpoint = 8000")
INSERT = "INSERT INTO jobs (number, id, queue, priority, state, created_at, spec) VALUES (?, ?, ?, 0, 0, ?, ?)"
EVENT = "INSERT INTO events VALUES (?, ?, ?, ?, ?)"
NEXT = "SELECT number FROM jobs WHERE state = 0 AND queue = ? ORDER BY priority DESC, number LIMIT ?"
START = "UPDATE jobs SET state = 1, attempts = attempts + 1, started_at = ? WHERE number = ?"
INSERT_RUN = "INSERT INTO runs (job, attempt, status, started_at) VALUES (?, 1, 1, ?)"
END = "UPDATE jobs SET state = 2, finished_at = ? WHERE number = ? AND state = 1"
END_RUN = "UPDATE runs SET status = 2, finished_at = ? WHERE job = ? AND attempt = 1"
COUNT = "UPDATE counts SET queued = queued + ?, running = running + ?, done = done + ? WHERE queue = ?"


class Life(NamedTuple):
    """A job of the floor: its number, its row, and the payloads of its three events."""

    number: int
    row: tuple[Any, ...]
    queued: str
    started: str
    done: str


class Floor:
    def __init__(self, path: Path) -> None:
        keep_freed_memory()
        self._connection = sqlite3.connect(path, isolation_level=None)
        for pragma in PRAGMAS:
            self._connection.execute(pragma)
        self._connection.executescript(SCHEMA)
        self._random = Random(0)
        self._number = 0
        self._sequence = 0

    def close(self) -> None:
        self._connection.close()

    def enqueue(self, count: int, batch: int) -> list[float]:
        """Seconds for each transaction of `batch` jobs."""
        taken = []
        for part in parts(self.lives(count, "held"), batch):
            start = time.perf_counter()
            self.insert(part, "held")
            taken.append(time.perf_counter() - start)
        return taken

    def life(self, count: int, batch: int) -> float:
        """Seconds for all, each of its three steps with `batch` jobs a transaction."""
        lives = self.lives(count, "default")
        start = time.perf_counter()
        for part in parts(lives, batch):
            self.insert(part, "default")
            self.claim(part)
            self.finish(part)
        return time.perf_counter() - start

    def insert(self, part: list[Life], queue: str) -> None:
        def statements(now: int) -> None:
            self._connection.executemany(INSERT, [life.row for life in part])
            self._emit(now, "job.queued", [(life.number, life.queued) for life in part])
            self._connection.execute(COUNT, (len(part), 0, 0, queue))

        self._commit(statements)

    def claim(self, part: list[Life]) -> None:
        def statements(now: int) -> None:
            found = self._connection.execute(NEXT, ("default", len(part))).fetchall()
            if [number for (number,) in found] != [life.number for life in part]:
                raise RuntimeError("the floor did not find the jobs it had inserted")
            self._connection.executemany(START, [(now, life.number) for life in part])
            self._connection.executemany(INSERT_RUN, [(life.number, now) for life in part])
            self._emit(now, "job.started", [(life.number, life.started) for life in part])
            self._connection.execute(COUNT, (-len(part), len(part), 0, "default"))

        self._commit(statements)

    def finish(self, part: list[Life]) -> None:
        def statements(now: int) -> None:
            ended = self._connection.executemany(END, [(now, life.number) for life in part]).rowcount
            if ended != len(part):
                raise RuntimeError("the floor did not end the jobs it had started")
            self._connection.executemany(END_RUN, [(now, life.number) for life in part])
            self._emit(now, "job.done", [(life.number, life.done) for life in part])
            self._connection.execute(COUNT, (0, -len(part), len(part), "default"))

        self._commit(statements)

    def lives(self, count: int, queue: str) -> list[Life]:
        return [self._life(queue) for _ in range(count)]

    def _life(self, queue: str) -> Life:
        self._number += 1
        job_id, run_id = (f"{self._random.getrandbits(128):032x}" for _ in range(2))
        spec = json.dumps({"job_type": "semantica.noop", "payload": {}})
        run = {"run_id": run_id, "attempt": 1}
        payloads = ({"queue": queue, "job_type": "semantica.noop"}, run, {**run, "duration_ms": 1})
        return Life(self._number, (self._number, job_id, queue, _now(), spec), *map(json.dumps, payloads))

    def _commit(self, statements: Callable[[int], None]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        statements(_now())
        self._connection.execute("COMMIT")

    def _emit(self, now: int, kind: str, jobs: list[tuple[int, str]]) -> None:
        rows = [(number, job, now, kind, text) for number, (job, text) in enumerate(jobs, self._sequence + 1)]
        self._connection.executemany(EVENT, rows)
        self._sequence += len(rows)


def keep_freed_memory() -> None:
    """Without this, some runs of the floor gave the top of glibc's heap back to the kernel and took it again with every
    statement (48 page faults a job, half the speed) and others did not. The daemon was never seen to."""
    if sys.platform == "linux":
        trim_threshold, mmap_threshold = -1, -3
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            libc.mallopt(trim_threshold, 256 << 20)
            libc.mallopt(mmap_threshold, 32 << 20)


def parts(lives: list[Life], size: int) -> Iterator[list[Life]]:
    return (lives[at : at + size] for at in range(0, len(lives), size))


def _now() -> int:
    return int(time.time() * 1000)
