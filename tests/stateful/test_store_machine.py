"""The store's verbs in any order, against a dict: same answers, same rows, and the invariants after every step."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from semantica_daemon.errors import Refusal
from semantica_daemon.model.event import Recorded
from semantica_daemon.model.outcome import CRASHED, SHUT_DOWN, Outcome
from semantica_daemon.model.queue import QueueRules
from semantica_daemon.store.database import Command, Committed
from semantica_daemon.store.transition import Claim, Running
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes.cancel import Cancel, cancel
from semantica_daemon.store.writes.claim import claim
from semantica_daemon.store.writes.enqueue import enqueue
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.promote import Promote, promote
from semantica_daemon.store.writes.queues import Pause, Resume, pause, resume
from semantica_daemon.store.writes.recover import recover
from tests.builders import Store, admitted
from tests.stateful.reference import Job, Reference
from tests.store import invariants
from tests.store.steps import BAD, GOOD, HOPELESS

# Ten seconds when all is well; a failure is made small before it is shown, and that takes its time.
pytestmark = pytest.mark.timeout(400)

SLOTS = 2
QUEUES = {"one": QueueRules(slots=1), "small": QueueRules(max_queued=3)}

# Few values of each kind, so that jobs meet; instants are given relative to now.
specs = st.fixed_dictionaries(
    {
        "job_type": st.sampled_from(["semantica.noop", "semantica.echo"]),
        "queue": st.sampled_from(["default", "one", "small"]),
        "subject_key": st.sampled_from([None, "a", "a", "b"]),
        "generation": st.none() | st.integers(0, 6),
        "supersede": st.sampled_from(["lane", "lane", "subject", "none"]),
        "on_running": st.sampled_from(["finish", "cancel"]),
        "max_interrupts": st.integers(0, 2),
        "priority": st.integers(-1, 1),
        "schedule": st.sampled_from([None, None, ("AFTER", 0), ("AFTER", 50), ("AT", 200), ("AT", -5)]),
        "ttl_ms": st.sampled_from([None, None, 0, 40, 400]),
        "deadline": st.sampled_from([None, None, 0, 30, 300]),
        "max_attempts": st.integers(0, 3),
        "backoff_base_ms": st.sampled_from([0, 100]),
        "on_interrupt": st.sampled_from(["fail", "requeue"]),
        "idempotency_key": st.sampled_from([None, None, None, "k", "l"]),
    }
)
outcomes = st.sampled_from([GOOD, GOOD, BAD, BAD, HOPELESS, CRASHED, SHUT_DOWN])
picks = st.integers(0, 10**6)


def spoil(tx: Tx, spec: dict[str, Any]) -> None:
    """A command that does its work and then fails: it must leave no trace."""
    enqueue(tx, admitted(**spec))
    claim(tx)
    raise RuntimeError("poison")


def nothing(tx: Tx) -> list[Claim]:
    return []


class StoreMachine(RuleBasedStateMachine):
    @initialize()
    def open(self) -> None:
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

    def transact(self, commands: list[Command], claiming: bool = False) -> Committed:
        """As the writer does it: the commands, then the claim, in one commit."""
        committed = self.store.database.transact(commands, self.now, claim if claiming else nothing)
        self.live += committed.events
        return committed

    def run(self, verb: Any, request: Any) -> Any:
        return self.transact([Command(verb, request)]).results[0]

    def spec(self, drawn: dict[str, Any]) -> dict[str, Any]:
        """With instants of now, and no generation where there is no subject."""
        spec = dict(drawn)
        kind, ms = spec["schedule"] or ("IMMEDIATE", 0)
        field = {"AFTER": {"delay_ms": ms}, "AT": {"scheduled_at": self.now + ms}}.get(kind, {})
        spec["schedule"] = {"type": kind, **field}
        spec["deadline"] = None if spec["deadline"] is None else self.now + spec["deadline"]
        spec["generation"] = spec["generation"] if spec["subject_key"] else None
        return spec

    @rule(drawn=specs)
    def enqueues(self, drawn: dict[str, Any]) -> None:
        spec = self.spec(drawn)
        self.model.enqueue(spec, self.now, self.run(enqueue, admitted(**spec)))

    @rule(first=specs, spoilt=specs, last=specs)
    def batches_with_poison_inside(self, first: Any, spoilt: Any, last: Any) -> None:
        first, spoilt, last = self.spec(first), self.spec(spoilt), self.spec(last)
        commands = [Command(enqueue, admitted(**first)), Command(spoil, spoilt), Command(enqueue, admitted(**last))]
        committed = self.transact(commands, claiming=True)
        self.model.enqueue(first, self.now, committed.results[0])
        assert isinstance(committed.results[1], RuntimeError | Refusal)
        self.model.enqueue(last, self.now, committed.results[2])
        self.claimed(committed.closing)

    @rule()
    def claims(self) -> None:
        self.claimed(self.transact([], claiming=True).closing)
        assert self.transact([], claiming=True).closing == [], "a runnable job stood beside a free slot"

    def claimed(self, found: list[Claim]) -> None:
        self.model.claim(self.now, found)
        assert len(self.model.running()) <= SLOTS
        assert sum(job.queue == "one" for job in self.model.running()) <= 1

    @precondition(lambda self: self.model.running())
    @rule(pick=picks, outcome=outcomes)
    def finishes(self, pick: int, outcome: Outcome) -> None:
        job = self.model.running()[pick % len(self.model.running())]
        assert job.run is not None
        self.finished(job, outcome, self.run(finish, Finish(job.run, outcome)))

    def finished(self, job: Job, outcome: Outcome, became: str | None) -> None:
        assert job.run is not None
        self.over.append(job.run)
        self.model.finish(job, outcome, self.now, became, self.store.job(job.id)["scheduled_at"])

    @precondition(lambda self: self.over)
    @rule(pick=picks, outcome=outcomes)
    def answers_late(self, pick: int, outcome: Outcome) -> None:
        committed = self.transact([Command(finish, Finish(self.over[pick % len(self.over)], outcome))])
        assert (committed.results, committed.events) == ([None], [])

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks)
    def cancels(self, pick: int) -> None:
        """Mostly what is live; what is over stays as it is."""
        jobs = [job for job in self.model.jobs.values() if job.state in ("QUEUED", "SCHEDULED", "RUNNING")]
        chosen = list(self.model.jobs.values()) if pick % 5 == 0 or not jobs else jobs
        job = chosen[pick % len(chosen)]
        told = self.run(cancel, Cancel((job.id,)))
        assert getattr(told, self.model.cancel(job)) == [job.id]

    @rule(ms=st.sampled_from([1, 10, 50, 500, 5000, 86_400_000]), looks=st.booleans())
    def time_passes(self, ms: int, looks: bool) -> None:
        """The timer may look late; a claim must not take what is past its time all the same."""
        self.store.now += ms
        if looks:
            due = self.run(promote, Promote())
            self.model.promote(self.now)
            assert due == self.model.next_due()

    @rule(queue=st.sampled_from(["default", "one", None]), after=st.none() | st.integers(1, 100))
    def pauses(self, queue: str | None, after: int | None) -> None:
        self.run(pause, Pause(queue, after))
        self.model.paused[queue or "*"] = None if after is None else self.now + after

    @precondition(lambda self: self.model.paused)
    @rule(pick=picks)
    def resumes(self, pick: int) -> None:
        queue = list(self.model.paused)[pick % len(self.model.paused)]
        self.run(resume, Resume(None if queue == "*" else queue))
        del self.model.paused[queue]

    @rule(away=st.sampled_from([0, 100]))
    def restarts(self, away: int) -> None:
        """Killed without a word and started again: what ran has crashed, everything else is as it was."""
        now, self.starts = self.now + away, self.starts + 1
        self.store.connection.close()
        self.store = Store(self.home / "meta.db", SLOTS, QUEUES, seed=self.starts)
        self.store.now = now
        became = self.run(recover, None).jobs
        assert set(became) == {job.id for job in self.model.running()}
        for job_id, state in became.items():
            self.finished(self.model.jobs[job_id], CRASHED, state)

    @invariant()
    def rows_are_the_model_s(self) -> None:
        for row in self.store.rows("SELECT * FROM jobs"):
            job = self.model.jobs[row["id"]]
            found = (row["state"], row["generation"], row["attempts"], row["run_count"], bool(row["stale"]))
            assert found == (job.state, job.generation, job.attempts, job.run_count, job.stale)
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
TestStoreMachine.settings = settings(max_examples=80, stateful_step_count=40, deadline=None, print_blob=True)
