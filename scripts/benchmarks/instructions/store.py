"""The daemon's store without a daemon: a migrated database and the verbs of a job's life, one transaction each call.
All that the instruction figures know of the store's inside is in this file and in `prepare`."""

import gc
import os
import pickle
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from semantica_daemon.model.admission import Admission, AdmittedJob
from semantica_daemon.model.machine import CurrentFacts
from semantica_daemon.model.outcome import Outcome
from semantica_daemon.model.queue import QueueRules, limits
from semantica_daemon.store.database import Command, Database, connect
from semantica_daemon.store.writes.claim import claim
from semantica_daemon.store.writes.enqueue import enqueue
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.wire.job import JobSpec

NOW = 1_800_000_000_000
RULES = {"default": QueueRules(max_queued=100_000_000), "held": QueueRules(slots=0, max_queued=100_000_000)}
DATABASE = "meta.db"
JOBS = "jobs.pickle"


class Store:
    """The database of a prepared folder, with a clock that advances a millisecond a transaction, and ids that depend on
    its first instant. `rules` may be others than those of the figures, which never claim a job of the queue `held`."""

    def __init__(self, folder: Path, slots: int, now: int = NOW, rules: dict[str, QueueRules] = RULES) -> None:
        self.wal = folder / f"{DATABASE}-wal"
        self.connection = connect(folder / DATABASE)
        admission = Admission({}, {}, 0)  # only a template's job would be admitted by the store
        self._database = Database(self.connection, limits(slots, rules), Random(now), admission, CurrentFacts())
        self._jobs = {queue: _decoded(job) for queue, job in pickle.loads((folder / JOBS).read_bytes()).items()}
        self._now = now

    def enqueue(self, count: int, queue: str = "default") -> None:
        self.enqueue_jobs([self._jobs[queue]] * count)

    def enqueue_jobs(self, jobs: list[Any]) -> None:
        self._transact([Command(enqueue, job) for job in jobs])

    def claim(self) -> list[Any]:
        """Starts as many waiting jobs as there are free slots."""
        claims: list[Any] = self._transact([], claiming=True).claims
        return claims

    def finish(self, claims: list[Any]) -> None:
        self._transact([Command(finish, Finish(one.run, Outcome(took_ms=1), None, one.job)) for one in claims])

    def _transact(self, commands: list[Command], claiming: bool = False) -> Any:
        self._now += 1
        committed = self._database.transact(commands, self._now, claim if claiming else None)
        failed = [result for result in committed.results if isinstance(result, Exception)]
        if failed:
            raise failed[0]
        return committed


def _decoded(job: AdmittedJob) -> AdmittedJob:
    """As admission makes it of a spec from the wire: its defaults are shared objects, those of a pickled one copies."""
    spec = JobSpec(job_type=job.spec.job_type, queue=job.spec.queue)
    return AdmittedJob(spec, job.mode, job.payload, job.spec_hash)


def discard_wal(folder: Path) -> None:
    """Undoes every commit since the folder was prepared: no run makes a checkpoint."""
    for suffix in ("-wal", "-shm"):
        Path(f"{folder / DATABASE}{suffix}").unlink(missing_ok=True)


def leave() -> NoReturn:
    """Ends the process without closing the database: closing would make a checkpoint."""
    os._exit(0)


def settle_garbage() -> None:
    """As the daemon does when it is ready: objects that are loaded by now are never scanned again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000)
