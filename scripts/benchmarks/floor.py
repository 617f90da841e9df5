"""The floor of every write: plain sqlite3 executing the daemon's own statements on the same schema, on rows that are
all made before the clock starts. Nothing is planned, no savepoint is set, nobody is told."""

import ctypes
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, NamedTuple, TypeVar

import msgspec

from semantica_daemon.store.arrival import INSERT, NewJob
from semantica_daemon.store.database import connect
from semantica_daemon.store.ids import Ids
from semantica_daemon.store.migrate import migrate
from semantica_daemon.store.transition import END, END_RUN, INSERT_RUN, START
from semantica_daemon.store.tx import INSERT_EVENT
from semantica_daemon.store.writes.claim import POP
from semantica_daemon.store.writes.finish import STANDING

T = TypeVar("T")

JOB_TYPE = "semantica.noop"
NOTHING_FAILED: dict[str, Any] = dict.fromkeys(("exit_code", "code", "class", "message", "details", "result"))
NOTHING_FAILED |= {"unstarted": 0, "given_back": 0}


class Cycle(NamedTuple):
    """A job of the floor: its row, its run's id, and the three events of its life."""

    row: tuple[Any, ...]
    job_id: str
    run_id: str
    queued: tuple[Any, ...]
    started: tuple[Any, ...]
    done: tuple[Any, ...]


class Floor:
    def __init__(self, path: Path) -> None:
        keep_freed_memory()
        self._connection = connect(path)
        self._execute = self._connection.execute
        migrate(self._connection, _now())
        self._ids = Ids(Random())
        self._position = 0

    def close(self) -> None:
        self._connection.close()

    def enqueue(self, count: int, batch: int) -> list[float]:
        """Insert job and event, `batch` a transaction: seconds for each transaction."""
        cycles = self._cycles(count, "held")
        taken = []
        for part in _parts(cycles, batch):
            start = time.perf_counter()
            self._insert(part)
            taken.append(time.perf_counter() - start)
        return taken

    def life(self, count: int, batch: int) -> float:
        """Insert, claim and finish, each `batch` a transaction: seconds for all."""
        cycles = self._cycles(count, "default")
        start = time.perf_counter()
        for part in _parts(cycles, batch):
            self._insert(part)
            self._claim(part)
            self._finish(part)
        return time.perf_counter() - start

    def _insert(self, part: list[Cycle]) -> None:
        execute = self._execute
        execute("BEGIN IMMEDIATE")
        for cycle in part:
            execute(INSERT, cycle.row)
        self._connection.executemany(INSERT_EVENT, [cycle.queued for cycle in part])
        execute("COMMIT")

    def _claim(self, part: list[Cycle]) -> None:
        execute, now = self._execute, _now()
        execute("BEGIN IMMEDIATE")
        found = execute(POP, {"queue": "default"})
        ids = [row[3] for row in islice(found, len(part))]
        found.close()
        for job_id, cycle in zip(ids, part, strict=True):
            run_id = cycle.run_id
            execute(START, {"job_id": job_id, "run_id": run_id, "now": now}).fetchall()
            values = {"run_id": run_id, "job_id": job_id, "attempt": 1, "payload": "{}", "now": now}
            execute(INSERT_RUN, {**values, "template_id": None})
        self._connection.executemany(INSERT_EVENT, [cycle.started for cycle in part])
        execute("COMMIT")

    def _finish(self, part: list[Cycle]) -> None:
        execute, now = self._execute, _now()
        execute("BEGIN IMMEDIATE")
        for cycle in part:
            run = {"job_id": cycle.job_id, "run_id": cycle.run_id}
            execute(STANDING, run).fetchone()
            if not execute(END, {**NOTHING_FAILED, **run, "now": now, "to": "DONE"}).fetchall():
                raise RuntimeError("the floor did not end the job it had begun")
            execute(END_RUN, {**run, "status": "DONE", "now": now, "exit_code": None, "error": None})
        self._connection.executemany(INSERT_EVENT, [cycle.done for cycle in part])
        execute("COMMIT")

    def _cycles(self, count: int, queue: str) -> list[Cycle]:
        """A millisecond for every batch, as if made while they are written: run ids are ordered by time."""
        now = _now()
        return [self._cycle(now + number // 100, queue) for number in range(count)]

    def _cycle(self, now: int, queue: str) -> Cycle:
        job_id, run_id = self._ids.job(), self._ids.run(now)
        self._position += 100
        row = msgspec.structs.astuple(new_job(job_id, queue, now, self._position))
        run = {"run_id": run_id, "attempt": 1}
        return Cycle(
            row,
            job_id,
            run_id,
            event(job_id, 1, now, "job.queued", {"queue": queue, "job_type": JOB_TYPE}, queue),
            event(job_id, 2, now, "job.started", run, queue),
            event(job_id, 3, now, "job.done", {**run, "duration_ms": 1}, queue),
        )


def keep_freed_memory() -> None:
    """Some runs of the floor gave the top of glibc's heap back to the kernel and took it again with every statement (48
    page faults a job, half the speed), others did not; none does with trimming off, and the daemon was never seen to.
    A floor that is slow by luck would flatter the daemon."""
    if sys.platform == "linux":
        trim_threshold, mmap_threshold = -1, -3
        libc = ctypes.CDLL(None)
        if hasattr(libc, "mallopt"):
            libc.mallopt(trim_threshold, 256 << 20)
            libc.mallopt(mmap_threshold, 32 << 20)


def new_job(job_id: str, queue: str, now: int, position: int) -> NewJob:
    """The row the daemon makes of a spec that names nothing but its type and queue."""
    return NewJob(
        id=job_id,
        trace_id=None,
        queue=queue,
        job_type=JOB_TYPE,
        subject_key="",
        generation=0,
        priority=0,
        state="QUEUED",
        created_at=now,
        updated_at=now,
        finished_at=None,
        execution_mode="IN_PROCESS",
        max_attempts=0,
        backoff_factor=2.0,
        backoff_base_ms=1000,
        deadline=None,
        ttl_ms=None,
        timeout_ms=None,
        grace_ms=None,
        on_interrupt="fail",
        schedule_type="IMMEDIATE",
        scheduled_at=None,
        schedule_delay_ms=None,
        chain_group_id=None,
        user_tag=None,
        payload="{}",
        supersede="lane",
        on_running="finish",
        max_interrupts=3,
        superseded_by=None,
        position=position,
        queued_at=now,
        expires_at=None,
        idempotency_key=None,
        spec_hash=None,
        env_vars=None,
        leftovers="end",
    )


def event(job_id: str, number: int, now: int, kind: str, payload: dict[str, Any], queue: str) -> tuple[Any, ...]:
    """As INSERT_EVENT takes it. Without a sequence: the table gives the next one."""
    body = msgspec.json.encode(payload).decode()
    return (None, job_id, number, now, kind, "info", "", body, None, queue, None)


def _parts(cycles: list[T], size: int) -> Iterator[list[T]]:
    return (cycles[at : at + size] for at in range(0, len(cycles), size))


def _now() -> int:
    return int(time.time() * 1000)
