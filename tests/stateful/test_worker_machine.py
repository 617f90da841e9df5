"""Workers that claim, die, come late and leave, leases that run out and a store that is opened again, between any two
steps, against a small model: every item ends once, no two runs overlap, and the order is what the model says."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from semantica_daemon.errors import LeaseLost, WorkerNotFound
from semantica_daemon.model.outcome import GIVEN_BACK, NOT_TAKEN, Outcome
from semantica_daemon.store.writes.queues import pause, resume
from semantica_daemon.store.writes.recover import recover
from semantica_daemon.store.writes.worker_runs import GivenBack, give_back
from semantica_daemon.wire.queue import PauseParams, ResumeParams
from tests.builders import NOW, Store
from tests.stateful.worker_model import WorkerModel
from tests.store import invariants
from tests.store.steps import BAD, GOOD, HOPELESS, stop, tick
from tests.store.workers import GRACE, beat, end_external, leave, put_external, registered, take

pytestmark = pytest.mark.timeout(400)
WALKS = int(os.environ.get("SEMANTICA_WALKS", "6"))
ONE = st.integers(0, 1000)  # which of the workers, runs or jobs there are
QUEUES, TYPES = ("a", "b"), ("x", "y")
FILTER = st.one_of(st.none(), st.lists(st.sampled_from(QUEUES), unique=True))
TYPE_FILTER = st.one_of(st.none(), st.lists(st.sampled_from(TYPES), unique=True))


class WorkerMachine(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
        """With two workers and a few jobs, so that something can happen."""
        self.home = Path(tempfile.mkdtemp(prefix="sem-workers-"))
        self.store = Store(self.home / "meta.db")
        self.model = WorkerModel(NOW, GRACE)
        self.starts = 0
        self.left: list[str] = []
        self.runs: list[tuple[str, str]] = []  # of all times: (run, worker)
        self.claims: list[Any] = []
        for number in range(2):
            self.register()
            spec = {"priority": 0, "max_attempts": 2, "on_interrupt": "fail", "timeout_ms": None}
            self.enqueue(job_type=TYPES[number], queue=QUEUES[number], **spec)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.home)

    # What happens

    @rule(
        priority=st.sampled_from([0, 0, 5]), queue=st.sampled_from(QUEUES), job_type=st.sampled_from(TYPES),
        max_attempts=st.integers(1, 3), on_interrupt=st.sampled_from(["fail", "requeue"]),
        timeout_ms=st.sampled_from([None, None, 1500]),
    )  # fmt: skip
    def enqueue(self, job_type: str, **spec: Any) -> None:
        given = {name: value for name, value in spec.items() if value is not None}
        job_id = put_external(self.store, job_type, backoff_base_ms=0, **given)
        self.model.enqueue(job_id, job_type=job_type, **spec)

    @rule()
    def register(self) -> None:
        self.model.workers[registered(self.store)] = [0, 0]

    @precondition(lambda self: self.model.workers)
    @rule(
        which=ONE, most=st.integers(1, 3), queues=FILTER, types=TYPE_FILTER, lease_ms=st.sampled_from([400, 1000, 3000])
    )
    def claim(self, which: int, most: int, queues: list[str] | None, types: list[str] | None, lease_ms: int) -> None:
        worker_id = self._worker(which)
        if worker_id in self.left:
            with pytest.raises(WorkerNotFound):
                take(self.store, worker_id)
            return
        expected = self.model.order(queues, types)[:most]
        found = take(self.store, worker_id, most, queues, types, lease_ms)
        assert [one.run.job_id for one in found] == expected
        for one in found:
            lease = self.model.claimed(one.run.run_id, one.run.job_id, worker_id, lease_ms)
            assert one.lease_expires_at == lease.expires_at
            self.runs.append((one.run.run_id, worker_id))
            self.claims.append(one)

    @precondition(lambda self: self.model.workers)
    @rule(which=ONE, others=st.lists(ONE, max_size=2))
    def heartbeat(self, which: int, others: list[int]) -> None:
        """Of all its runs, and perhaps of some that are over or somebody else's."""
        worker_id = self._worker(which)
        if worker_id in self.left:
            return
        own = [run_id for run_id, lease in self.model.leases.items() if lease.worker_id == worker_id]
        asked = list(dict.fromkeys([*own, *(self.runs[one % len(self.runs)][0] for one in others if self.runs)]))
        leases, lost, stops = self.model.heartbeat(worker_id, asked)
        answer = beat(self.store, worker_id, *(asked or ["none"]))
        assert {lease.run_id: lease.lease_expires_at for lease in answer.leases} == leases
        assert (answer.lost, answer.cancel) == (lost or ([] if asked else ["none"]), stops)

    @precondition(lambda self: self.runs)
    @rule(which=ONE, outcome=st.sampled_from([GOOD, BAD, HOPELESS]), foreign=st.sampled_from([None, None, None, 0, 1]))
    def end(self, which: int, outcome: Outcome, foreign: int | None) -> None:
        """The end of any run there ever was, reported by its worker, which may be late, or by another one."""
        run_id, worker_id = self.runs[which % len(self.runs)]
        worker_id = worker_id if foreign is None else self._worker(foreign)
        if worker_id in self.left:
            with pytest.raises(WorkerNotFound):
                end_external(self.store, worker_id, run_id, outcome)
        elif not self.model.owns(worker_id, run_id):
            with pytest.raises(LeaseLost):
                end_external(self.store, worker_id, run_id, outcome)
        else:
            job_id = self.model.leases[run_id].job_id
            if outcome is GOOD:
                self.model.succeed(run_id)
            else:
                self.model.fail(run_id, permanent=outcome is HOPELESS)
            assert end_external(self.store, worker_id, run_id, outcome).state == self.model.jobs[job_id].state

    @precondition(lambda self: self.claims)
    @rule(which=ONE, outcome=st.sampled_from([NOT_TAKEN, GIVEN_BACK]))
    def take_back(self, which: int, outcome: Outcome) -> None:
        """A claim that did not reach its worker; too late, it changes nothing."""
        run = self.claims[which % len(self.claims)].run
        if run.run_id in self.model.leases:
            self.model.give_back(run.run_id, failed_claim=outcome is NOT_TAKEN)
        self.store.run(give_back, GivenBack(run, outcome))

    @precondition(lambda self: self.model.workers)
    @rule(which=ONE)
    def leave(self, which: int) -> None:
        worker_id = self._worker(which)
        if worker_id in self.left:
            return
        own = [lease for lease in self.model.leases.values() if lease.worker_id == worker_id]
        for lease in sorted(own, key=lambda lease: lease.run_id):
            self.model.give_back(lease.run_id)
        assert sorted(leave(self.store, worker_id).given_back) == sorted(lease.job_id for lease in own)
        self.left.append(worker_id)

    @precondition(lambda self: self.model.jobs)
    @rule(which=ONE)
    def cancel(self, which: int) -> None:
        job_id = list(self.model.jobs)[which % len(self.model.jobs)]
        self.model.cancel(job_id)
        stop(self.store, job_id)

    @rule(queue=st.sampled_from(QUEUES))
    def pause_or_resume(self, queue: str) -> None:
        is_paused = queue in self.model.paused
        self.model.paused ^= {queue}
        self.store.run(*((resume, ResumeParams(queue)) if is_paused else (pause, PauseParams(queue))))

    @rule(ms=st.sampled_from([0, 100, 300, 400, 1000, 3000]))
    def time_passes(self, ms: int) -> None:
        self.model.now += ms
        self.model.lapse()
        tick(self.store, ms)

    @rule(ms=st.sampled_from([0, 500, 5000]))
    def restart(self, ms: int) -> None:
        """Nothing is left of the daemon but its database; it may be away for longer than a lease."""
        self.store.close()
        self.starts += 1
        self.model.now += ms
        self.store = Store(self.home / "meta.db", seed=self.starts)
        self.store.now = self.model.now
        assert self.store.run(recover, frozenset()) == {}
        self.model.restart()

    # What holds

    @invariant()
    def is_what_the_model_says(self) -> None:
        if not hasattr(self, "store"):
            return
        rows = self.store.rows("SELECT id, state, attempts, claim_attempts FROM jobs")
        found = {row["id"]: (row["state"], row["attempts"], row["claim_attempts"]) for row in rows}
        expected = {job.job_id: (job.state, job.attempts, job.claim_attempts) for job in self.model.jobs.values()}
        assert found == expected
        leases = {row["run_id"]: row["expires_at"] for row in self.store.rows("SELECT run_id, expires_at FROM leases")}
        assert leases == {run_id: lease.expires_at for run_id, lease in self.model.leases.items()}
        rows = self.store.rows("SELECT worker_id, items_processed, items_failed FROM workers")
        assert {row["worker_id"]: [row["items_processed"], row["items_failed"]] for row in rows} == self.model.workers
        assert all(job.done <= 1 for job in self.model.jobs.values())
        invariants.check(self.store)

    def _worker(self, which: int) -> str:
        return list(self.model.workers)[which % len(self.model.workers)]


TestWorkerMachine = WorkerMachine.TestCase
TestWorkerMachine.settings = settings(
    max_examples=25 * max(1, WALKS // 6), stateful_step_count=40, deadline=None, print_blob=True
)


def step(machine: WorkerMachine, chance: Random) -> None:
    """One rule with values of its own. Mostly claims, heartbeats and ends, so that there are many runs."""
    which, names = chance.randrange(10**6), (None, None, ["a"], ["x"], ["a", "b"], ["y"])
    spec = {
        "priority": chance.choice([0, 0, 5]), "queue": chance.choice(QUEUES), "job_type": chance.choice(TYPES),
        "max_attempts": chance.randint(1, 3), "on_interrupt": chance.choice(["fail", "requeue"]),
        "timeout_ms": chance.choice([None, None, 1500]),
    }  # fmt: skip
    queues, types = (chance.choice([one for one in names if one is None or one[0] in some]) for some in (QUEUES, TYPES))
    wanted = {"most": chance.randint(1, 3), "queues": queues, "types": types}
    foreign, others = chance.choice([None, None, None, None, 0]), chance.choices(range(100), k=chance.randrange(3))
    outcome = chance.choice([GOOD, BAD, HOPELESS])
    ways: list[tuple[int, Callable[[], object]]] = [
        (20, lambda: machine.enqueue(**spec)),
        (3, lambda: machine.register()),
        (25, lambda: machine.claim(which=which, lease_ms=chance.choice([400, 1000, 3000]), **wanted)),
        (20, lambda: machine.heartbeat(which=which, others=others)),
        (8, lambda: machine.leave(which=which) if chance.random() < 0.1 else None),
        (8, lambda: machine.cancel(which=which)),
        (3, lambda: machine.pause_or_resume(queue=chance.choice(QUEUES))),
        (20, lambda: machine.time_passes(ms=chance.choice([0, 100, 100, 300, 400, 1000]))),
        (5, lambda: machine.restart(ms=chance.choice([0, 500, 5000]))),
    ]
    if machine.runs:
        recent = max(0, len(machine.runs) - 8) + chance.randrange(8)
        ways.append((20, lambda: machine.end(which=recent, outcome=outcome, foreign=foreign)))
        ways.append((5, lambda: machine.take_back(which=recent, outcome=chance.choice([NOT_TAKEN, GIVEN_BACK]))))
    chance.choices([way for _, way in ways], [weight for weight, _ in ways])[0]()


@pytest.mark.parametrize("walk", range(WALKS))
def test_a_long_walk_with_workers(walk: int) -> None:
    """Hypothesis finds the small surprises; a long even walk reaches third attempts and many lost leases."""
    seed = int(os.environ.get("SEMANTICA_SEED") or SystemRandom().randrange(2**32))
    chance, machine = Random(seed), WorkerMachine()
    machine.open()
    try:
        for _ in range(200):
            step(machine, chance)
            machine.is_what_the_model_says()
    except BaseException as error:
        error.add_note(f"again with SEMANTICA_SEED={seed}, walk {walk}")
        raise
    finally:
        machine.teardown()
