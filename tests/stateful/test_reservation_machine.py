"""Random histories of reservations and direct executions: one is ACTIVE at most, only its own job starts meanwhile, and
no end of a job, no expiry and no restart leaves one behind."""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from semantica_daemon.errors import ReservationOver, Reserved
from semantica_daemon.model.outcome import Outcome
from semantica_daemon.model.reservation import Reservation
from semantica_daemon.store.database import Command
from semantica_daemon.store.run_transition import Claim
from semantica_daemon.store.selected import Portion
from semantica_daemon.store.writes.cancel import cancel
from semantica_daemon.store.writes.claim import claim
from semantica_daemon.store.writes.clock import Reading, set_clock
from semantica_daemon.store.writes.direct import execute
from semantica_daemon.store.writes.enqueue import enqueue
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.lifecycle import stopping
from semantica_daemon.store.writes.promote import Promote, promote
from semantica_daemon.store.writes.recover import recover
from semantica_daemon.store.writes.reservations import acquire, recover_reservation, release
from semantica_daemon.wire.reservation import Acquired, AcquireParams, ReleaseParams
from tests.builders import Store, admitted
from tests.store import invariants
from tests.store.steps import BAD, GOOD, HOPELESS

pytestmark = pytest.mark.timeout(400)
WALKS = int(os.environ.get("SEMANTICA_WALKS", "25"))
LIVE = ("QUEUED", "SCHEDULED", "RUNNING")
SLOTS = 2
TEN_MINUTES = 600_000
specs = st.fixed_dictionaries({
    "priority": st.sampled_from([0, 0, 5]),
    "max_attempts": st.sampled_from([1, 2]),
    "subject_key": st.sampled_from([None, None, "s"]),
    "concurrency_key": st.sampled_from([None, None, "k"]),
    "on_interrupt": st.sampled_from(["fail", "requeue"]),
    "ttl_ms": st.sampled_from([None, None, 500]),
})  # fmt: skip
outcomes = st.sampled_from([GOOD, GOOD, BAD, HOPELESS, Outcome(unstarted=True, error=BAD.error)])


class ReservationMachine(RuleBasedStateMachine):
    """The model is one value: the id of the ACTIVE reservation, until when it holds, and its job."""

    @initialize()
    def open(self) -> None:
        self.home = Path(tempfile.mkdtemp(prefix="sem-machine-"))
        self.store = Store(self.home / "meta.db", SLOTS)
        self.uptime = self.starts = 0
        self.holder: tuple[str, int, str | None] | None = None  # until when: in uptime
        self.ended: dict[str, str] = {}
        self.claims: dict[str, Claim] = {}
        self.transact(Command(set_clock, self.reading))

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.home)

    @property
    def reading(self) -> Reading:
        return Reading("boot", self.store.now - self.uptime)

    def transact(self, *commands: Command, claiming: bool = True) -> Any:
        """One commit, as the writer makes it; the model then follows what time, the command and the ends of jobs have
        done. Under a reservation its own job may be claimed and no other."""
        committed = self.store.database.transact(list(commands), self.store.now, claim if claiming else None)
        result = committed.results[0] if commands else None
        self.expire()
        if commands and not isinstance(result, Exception):
            self.follow(commands[0], result)
        if self.holder is not None and self.holder[2] is not None and self.state(self.holder[2]) not in LIVE:
            self.end("RELEASED")
        self.claims |= {one.run.job_id: one for one in committed.claims}
        if self.holder is not None:
            assert {one.run.job_id for one in committed.claims} <= {self.holder[2]}
        return result

    def follow(self, command: Command, result: Any) -> None:
        if command.verb is acquire:
            self.holder = (result.reservation_id, self.uptime + command.request.ttl_ms, None)
        elif command.verb is release:
            self.end("RELEASED")
        elif command.verb is execute:
            made = self.store.rows("SELECT reservation_id FROM direct_reservations WHERE job_id = ?", result.job_id)
            self.holder = (made[0]["reservation_id"], self.uptime + TEN_MINUTES, result.job_id)

    def expire(self) -> None:
        if self.holder is not None and self.holder[1] <= self.uptime:
            self.end("EXPIRED")

    def end(self, status: str) -> None:
        assert self.holder is not None
        self.ended[self.holder[0]] = status
        self.holder = None

    def state(self, job_id: str) -> str:
        return str(self.store.job(job_id)["state"])

    # What happens. An empty commit first ends what is over, so that a rule knows whether it will be refused.

    @rule(spec=specs)
    def enqueues(self, spec: dict[str, Any]) -> None:
        self.transact(Command(enqueue, admitted(**spec)))

    @rule(spec=specs)
    def executes(self, spec: dict[str, Any]) -> None:
        self.transact()
        was_held, jobs = self.holder is not None, self.count()
        ack = self.transact(Command(execute, admitted(**spec)))
        if was_held:
            assert isinstance(ack, Reserved)
            assert self.count() == jobs, "a refusal stores nothing"
            return
        job = self.store.job(ack.job_id)
        assert job["state"] == "RUNNING" or job["blocked_by"] is not None or self.key_is_taken(job), job
        assert self.holder is not None
        assert self.holder[2] == ack.job_id

    def key_is_taken(self, job: dict[str, Any]) -> bool:
        taken = "SELECT 1 FROM jobs WHERE state = 'RUNNING' AND concurrency_key = ?"
        return bool(self.store.rows(taken, job["concurrency_key"]))

    def count(self) -> int:
        return int(self.store.rows("SELECT count(*) AS n FROM jobs")[0]["n"])

    @rule(ttl_ms=st.sampled_from([50, 1000, TEN_MINUTES]))
    def acquires(self, ttl_ms: int) -> None:
        self.transact()
        was_held = self.holder is not None
        made = self.transact(Command(acquire, AcquireParams("client", ttl_ms)))
        assert isinstance(made, Reserved if was_held else Acquired)

    @precondition(lambda self: self.holder or self.ended)
    @rule(pick=st.integers(0, 50), ttl_ms=st.sampled_from([50, 5000]), extend=st.booleans())
    def releases_or_extends(self, pick: int, ttl_ms: int, extend: bool) -> None:
        self.transact()
        known = [*([self.holder[0]] * 3 if self.holder else []), *self.ended]
        chosen, held = known[pick % len(known)], self.holder
        request: Any = AcquireParams("client", ttl_ms, 0, chosen) if extend else ReleaseParams(chosen)
        done = self.transact(Command(acquire if extend else release, request))
        if held is None or held[0] != chosen:
            assert isinstance(done, ReservationOver)
        elif held[2] is not None:
            assert isinstance(done, Reserved), "that of a job ends with its job only"
        else:
            assert not isinstance(done, Exception)

    @precondition(lambda self: self.running())
    @rule(pick=st.integers(0, 50), outcome=outcomes)
    def finishes(self, pick: int, outcome: Outcome) -> None:
        claimed = self.claims[self.running()[pick % len(self.running())]]
        self.transact(Command(finish, Finish(claimed.run, outcome, None, claimed.job)))

    def running(self) -> list[str]:
        return [row["id"] for row in self.store.rows("SELECT id FROM jobs WHERE state = 'RUNNING' ORDER BY number")]

    @rule(pick=st.integers(0, 50))
    def cancels(self, pick: int) -> None:
        live = self.store.rows("SELECT id FROM jobs WHERE finished_at IS NULL ORDER BY number")
        if live:
            self.transact(Command(cancel, Portion((live[pick % len(live)]["id"],))))

    @rule(ms=st.sampled_from([0, 20, 60, 3000, TEN_MINUTES]), looks=st.booleans())
    def time_passes(self, ms: int, looks: bool) -> None:
        self.store.now += ms
        self.uptime += ms
        if looks:
            due = self.transact(Command(promote, Promote(100)))
            if self.holder is not None:
                assert due.at is not None
                assert due.at <= self.store.now + self.holder[1] - self.uptime, "it knows when the reservation ends"

    @rule(ms=st.sampled_from([3_600_000, -3_600_000]))
    def the_clock_is_set(self, ms: int) -> None:
        self.store.now += ms
        self.transact(Command(set_clock, self.reading), claiming=False)

    @rule(away=st.sampled_from([0, 100]), clean=st.booleans())
    def restarts(self, away: int, clean: bool) -> None:
        if clean:
            self.transact(Command(stopping, "enough"), claiming=False)
            self.released_direct()
        self.store.connection.close()
        now = self.store.now + away
        self.uptime += away
        self.starts += 1
        self.store = Store(self.home / "meta.db", SLOTS, seed=self.starts)
        self.store.now = now
        for command in (Command(set_clock, self.reading), Command(recover, frozenset())):
            self.transact(command, claiming=False)
        self.transact(Command(recover_reservation, None), claiming=False)
        self.released_direct()

    def released_direct(self) -> None:
        if self.holder is not None and self.holder[2] is not None:
            self.end("RELEASED")

    @rule()
    def nothing_waits_beside_a_free_slot(self) -> None:
        """Except under a reservation, and where a lane or a key has no room."""
        self.transact()
        assert self.store.claim() == []
        if self.holder is None and len(self.running()) < SLOTS:
            free = "SELECT id FROM jobs WHERE state = 'QUEUED' AND blocked_by IS NULL AND concurrency_key IS NULL"
            assert self.store.rows(free) == []

    # What always holds

    @invariant()
    def the_table_and_the_memory_are_the_model_s(self) -> None:
        if not hasattr(self, "store"):
            return
        rows = self.store.rows("SELECT * FROM direct_reservations")
        by_status = {row["reservation_id"]: row["status"] for row in rows}
        assert by_status == {**self.ended, **({self.holder[0]: "ACTIVE"} if self.holder else {})}
        active = self.store.database.context.reservations.active
        if self.holder is None:
            assert active is None
            return
        (row,) = (row for row in rows if row.pop("status") == "ACTIVE")
        assert active == Reservation(**row)
        assert (row["reservation_id"], row["job_id"]) == (self.holder[0], self.holder[2])
        assert row["expires_at"] - self.store.now == self.holder[1] - self.uptime, "in time that passes"

    @invariant()
    def the_store_is_sound(self) -> None:
        if hasattr(self, "store"):
            invariants.check_stream(self.store)
            invariants.check_lanes(self.store)
            invariants.check_ready(self.store)
            invariants.check_counts(self.store)


def test_a_reservation_whose_time_is_over_at_a_stop_is_expired() -> None:
    """A history that the random ones have found."""
    machine = ReservationMachine()
    machine.open()
    machine.executes({})
    machine.time_passes(ms=TEN_MINUTES, looks=False)
    machine.restarts(away=0, clean=True)
    machine.the_table_and_the_memory_are_the_model_s()
    assert list(machine.ended.values()) == ["EXPIRED"]
    machine.teardown()


TestReservations = ReservationMachine.TestCase
TestReservations.settings = settings(
    max_examples=WALKS, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
