"""The store's verbs in any order, against a dict: same answers, same rows, and the invariants after every step."""

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random, SystemRandom
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from semantica_daemon.errors import Refusal
from semantica_daemon.model.event import Recorded
from semantica_daemon.model.outcome import CRASHED, SHUT_DOWN, Error, Outcome
from semantica_daemon.model.queue import QueueRules
from semantica_daemon.store.database import Command, Committed
from semantica_daemon.store.transition import Claim, Running
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes.begin import Begun, begin
from semantica_daemon.store.writes.cancel import Cancel, cancel
from semantica_daemon.store.writes.claim import claim
from semantica_daemon.store.writes.enqueue import enqueue
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.promote import Promote, promote
from semantica_daemon.store.writes.queues import Pause, Resume, pause, resume
from semantica_daemon.store.writes.recover import recover
from tests.builders import Store, admitted
from tests.stateful.reference import LIVE, Job, Reference
from tests.store import invariants
from tests.store.steps import BAD, GOOD, HOPELESS

# Ten seconds when all is well; a failure is made small before it is shown, and that takes its time.
pytestmark = pytest.mark.timeout(400)

SLOTS = 3
QUEUES = {"one": QueueRules(slots=1), "small": QueueRules(max_queued=3)}

# Few values of each kind, so that jobs meet; instants are relative to now, generations to the newest of the lane.
SPEC: dict[str, list[Any]] = {
    "job_type": ["semantica.noop", "semantica.noop", "semantica.echo"],
    "execution_mode": [None, None, "SUBPROCESS"],
    "queue": ["default", "default", "one", "small"],
    "subject_key": ["a", "a", "a", "b", None],
    "generation": [None, None, 1, 1, 2, 0, -1, -2],
    "supersede": ["lane", "lane", "lane", "subject", "none"],
    "on_running": ["finish", "cancel"],
    "max_interrupts": [0, 1, 2],
    "priority": [0, -1, 1],
    "schedule": [None, None, None, ("AFTER", 0), ("AFTER", 50), ("AT", 200), ("AT", -5)],
    "ttl_ms": [None, None, None, None, 0, 40],
    "deadline": [None, None, None, None, 0, 30],
    "max_attempts": [0, 1, 2, 3],
    "backoff_base_ms": [0, 100],
    "on_interrupt": ["fail", "requeue"],
    "idempotency_key": [None, None, None, None, "k", "l"],
}
UNSTARTED = Outcome(error=Error("E_SPAWN", "infra", "no process to be had"), unstarted=True)
OUTCOMES = [GOOD, GOOD, BAD, BAD, HOPELESS, CRASHED, SHUT_DOWN, UNSTARTED]
STEPS_MS = [1, 10, 50, 200, 500, 5000, 86_400_000]
PAUSABLE = ["default", "one", None]

specs = st.fixed_dictionaries({field: st.sampled_from(values) for field, values in SPEC.items()})
outcomes = st.sampled_from(OUTCOMES)
picks = st.integers(0, 10**6)


def spoil(tx: Tx, spec: dict[str, Any]) -> None:
    """A command that does its work and then fails: it must leave no trace."""
    enqueue(tx, admitted(**spec))
    claim(tx)
    raise RuntimeError("poison")


def nothing(tx: Tx) -> list[Claim]:
    return []


class StoreMachine(RuleBasedStateMachine):
    @initialize(claiming=st.booleans())
    def open(self, claiming: bool) -> None:
        """`claiming`: every commit claims too, as the daemon's does; else only the rule of that name."""
        self.claiming = claiming
        self.home = Path(tempfile.mkdtemp(prefix="sem-machine-"))
        self.store = Store(self.home / "meta.db", SLOTS, QUEUES)
        self.model = Reference(SLOTS, {"one": 1}, {"small": 3})
        self.starts = 0
        self.live: list[Recorded] = []
        self.over: list[Running] = []

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.home)

    @property
    def now(self) -> int:
        return self.store.now

    def transact(self, commands: list[Command], claiming: bool) -> Committed:
        """As the writer does it: the commands, then the claim, in one commit."""
        committed = self.store.database.transact(commands, self.now, claiming)
        self.live += committed.events
        return committed

    @contextmanager
    def commit(self, verb: Any, request: Any) -> Iterator[Any]:
        """The verb's result; the block tells the model of it, and then it is told of what was claimed."""
        committed = self.transact([Command(verb, request)], self.claiming)
        yield committed.results[0]
        self.claimed(committed.claims)

    def spec(self, drawn: dict[str, Any]) -> dict[str, Any]:
        """With instants and generations as they are now; a lane's owner mostly numbers it."""
        spec = {**drawn, "payload": {"argv": ["true"]}}
        kind, ms = spec["schedule"] or ("IMMEDIATE", 0)
        field = {"AFTER": {"delay_ms": ms}, "AT": {"scheduled_at": self.now + ms}}.get(kind, {})
        spec["schedule"] = {"type": kind, **field}
        spec["deadline"] = None if spec["deadline"] is None else self.now + spec["deadline"]
        known = self.model.lanes.get((spec["subject_key"], spec["job_type"]))
        if spec["subject_key"] is None or (known and known.owner == "server" and spec["generation"] != 2):
            spec["generation"] = None
        elif spec["generation"] is not None or (known and spec["priority"]):
            spec["generation"] = max(0, (known.newest if known else 0) + (spec["generation"] or 1))
        return spec

    @rule(drawn=specs)
    def enqueues(self, drawn: dict[str, Any]) -> None:
        spec = self.spec(drawn)
        with self.commit(enqueue, admitted(**spec)) as told:
            self.model.enqueue(spec, self.now, told)

    @rule(first=specs, spoilt=specs, last=specs)
    def batches_with_poison_inside(self, first: Any, spoilt: Any, last: Any) -> None:
        first, spoilt, last = self.spec(first), self.spec(spoilt), self.spec(last)
        commands = [Command(enqueue, admitted(**first)), Command(spoil, spoilt), Command(enqueue, admitted(**last))]
        committed = self.transact(commands, self.claiming)
        self.model.enqueue(first, self.now, committed.results[0])
        assert isinstance(committed.results[1], RuntimeError | Refusal)
        self.model.enqueue(last, self.now, committed.results[2])
        self.claimed(committed.claims)

    @rule()
    def claims(self) -> None:
        self.claimed(self.transact([], claiming=True).claims, asked=True)
        assert self.transact([], claiming=True).claims == [], "a runnable job stood beside a free slot"

    def claimed(self, found: list[Claim], asked: bool = False) -> None:
        if self.claiming or asked:
            self.model.claim(self.now, found)
        assert len(self.model.running()) <= SLOTS
        assert sum(job.queue == "one" for job in self.model.running()) <= 1

    @precondition(lambda self: self.model.running())
    @rule(pick=picks, outcome=outcomes)
    def finishes(self, pick: int, outcome: Outcome) -> None:
        job = self.model.running()[pick % len(self.model.running())]
        assert job.run is not None
        outcome = BAD if job.begun and outcome.unstarted else outcome
        with self.commit(finish, Finish(job.run, outcome)) as became:
            self.finished(job, outcome, became)

    @precondition(lambda self: self.model.running())
    @rule(pick=picks)
    def begins(self, pick: int) -> None:
        """A command's process exists: only now is it told that the job has started, and only once."""
        job = self.model.running()[pick % len(self.model.running())]
        assert job.run is not None
        if not job.begun:
            with self.commit(begin, Begun(job.run, 7, 1, "boot", "log")):
                job.begun = True
            assert self.store.rows("SELECT pid FROM job_runs WHERE run_id = ?", job.run.run_id) == [{"pid": 7}]

    def finished(self, job: Job, outcome: Outcome, became: str | None) -> None:
        assert job.run is not None
        self.over.append(job.run)
        self.model.finish(job, outcome, self.now, became, self.store.job(job.id)["scheduled_at"])

    @precondition(lambda self: self.over)
    @rule(pick=picks, outcome=outcomes)
    def answers_late(self, pick: int, outcome: Outcome) -> None:
        run = self.over[pick % len(self.over)]
        late = [Command(finish, Finish(run, outcome)), Command(begin, Begun(run, 8, 2, "boot", "late"))]
        committed = self.transact(late, claiming=False)
        assert (committed.results, committed.events) == ([None, None], [])

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks)
    def cancels(self, pick: int) -> None:
        """Mostly what is live; what is over stays as it is."""
        jobs = [job for job in self.model.jobs.values() if job.state in LIVE]
        chosen = list(self.model.jobs.values()) if pick % 5 == 0 or not jobs else jobs
        job = chosen[pick % len(chosen)]
        with self.commit(cancel, Cancel((job.id,))) as told:
            assert getattr(told, self.model.cancel(job)) == [job.id]

    @rule(ms=st.sampled_from(STEPS_MS), looks=st.booleans())
    def time_passes(self, ms: int, looks: bool) -> None:
        """The timer may look late; a claim must not take what is past its time all the same."""
        self.store.now += ms
        if looks:
            with self.commit(promote, Promote()) as due:
                self.model.promote(self.now)
                assert due == self.model.next_due()

    @precondition(lambda self: len(self.model.jobs) % 4 == 3 and not self.model.paused)
    @rule(queue=st.sampled_from(PAUSABLE), after=st.none() | st.integers(1, 100))
    def pauses(self, queue: str | None, after: int | None) -> None:
        with self.commit(pause, Pause(queue, after)):
            self.model.paused[queue or "*"] = None if after is None else self.now + after

    @precondition(lambda self: self.model.paused)
    @rule(pick=picks)
    def resumes(self, pick: int) -> None:
        queue = list(self.model.paused)[pick % len(self.model.paused)]
        with self.commit(resume, Resume(None if queue == "*" else queue)):
            del self.model.paused[queue]

    @precondition(lambda self: len(self.live) % 4 == 3)
    @rule(away=st.sampled_from([0, 100]))
    def restarts(self, away: int) -> None:
        """Killed without a word and started again: what ran has crashed, everything else is as it was."""
        now, self.starts = self.now + away, self.starts + 1
        self.store.connection.close()
        self.store = Store(self.home / "meta.db", SLOTS, QUEUES, seed=self.starts)
        self.store.now = now
        became = self.transact([Command(recover, frozenset())], claiming=False).results[0].jobs
        assert set(became) == {job.id for job in self.model.running()}
        for job_id, state in became.items():
            self.finished(self.model.jobs[job_id], CRASHED, state)

    @invariant()
    def rows_are_the_model_s(self) -> None:
        for row in self.store.rows("SELECT * FROM jobs"):
            job = self.model.jobs[row["id"]]
            found = (row["state"], row["generation"], row["attempts"], row["run_count"], bool(row["stale"]))
            assert found == (job.state, job.generation, job.attempts, job.run_count, job.stale)
            assert job.stop or row["claim_attempts"] == job.claim_attempts
            assert (row["superseded_by"], row["stop_state"]) == (job.superseded_by, job.stop)
            if job.state == "QUEUED":
                assert row["expires_at"] == job.expires_at
            if job.state == "SCHEDULED":
                assert row["scheduled_at"] == job.scheduled_at
        assert self.store.rows("SELECT count(*) AS n FROM jobs") == [{"n": len(self.model.jobs)}]

    @invariant()
    def the_store_is_sound(self) -> None:
        invariants.check(self.store)

    @invariant()
    def what_was_told_live_is_what_is_replayed(self) -> None:
        stored = [(row["sequence"], row["job_id"], row["event_type"], row["payload"]) for row in self.store.events()]
        told = [one.event for one in self.live]
        assert stored == [(one.sequence, one.job_id, one.event_type, bytes(one.payload).decode()) for one in told]


TestStoreMachine = StoreMachine.TestCase
TestStoreMachine.settings = settings(max_examples=50, stateful_step_count=50, deadline=None, print_blob=True)


def step(machine: StoreMachine, chance: Random) -> None:
    """One rule with values of its own, the everyday ones more often than the rest."""
    spec, other = ({field: chance.choice(values) for field, values in SPEC.items()} for _ in range(2))
    pick, outcome = chance.randrange(10**6), chance.choice(OUTCOMES)
    ways: dict[str, tuple[int, Callable[[], Any]]] = {
        "enqueue": (30, lambda: machine.enqueues(drawn=spec)),
        "batch": (4, lambda: machine.batches_with_poison_inside(first=spec, spoilt=spec, last=other)),
        "claim": (10, lambda: machine.claims()),
        "time": (10, lambda: machine.time_passes(ms=chance.choice(STEPS_MS[:-1]), looks=pick % 3 > 0)),
        "pause": (3, lambda: pause_or_resume(machine, chance)),
        "restart": (2, lambda: machine.restarts(away=100)),
    }
    if machine.model.jobs:
        ways["cancel"] = (6, lambda: machine.cancels(pick=pick))
    if machine.model.running():
        ways["begin"] = (10, lambda: machine.begins(pick=pick))
        ways["finish"] = (30, lambda: machine.finishes(pick=pick, outcome=outcome))
    if machine.over:
        ways["late"] = (3, lambda: machine.answers_late(pick=pick, outcome=outcome))
    weights = [weight for weight, _ in ways.values()]
    chance.choices(list(ways.values()), weights)[0][1]()


def pause_or_resume(machine: StoreMachine, chance: Random) -> None:
    if machine.model.paused:
        machine.resumes(pick=chance.randrange(100))
    else:
        machine.pauses(queue=chance.choice(PAUSABLE), after=chance.choice([None, 50]))


@pytest.mark.parametrize("walk", range(10))
def test_a_long_walk_through_the_verbs(walk: int) -> None:
    """Hypothesis finds the small surprises; a long even walk reaches third attempts and full lanes."""
    seed = int(os.environ.get("SEMANTICA_SEED") or SystemRandom().randrange(2**32))
    chance, machine = Random(seed), StoreMachine()
    machine.open(claiming=walk % 2 == 0)
    try:
        for _ in range(250):
            step(machine, chance)
            machine.rows_are_the_model_s()
            machine.the_store_is_sound()
        machine.what_was_told_live_is_what_is_replayed()
    except BaseException as error:
        error.add_note(f"again with SEMANTICA_SEED={seed}, walk {walk}")
        raise
    finally:
        machine.teardown()
