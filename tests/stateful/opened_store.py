"""A store with its reference beside it, and what holds of the two after every step; `store_machine` does the steps."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant

from semantica_daemon.model.event import StoredEvent
from semantica_daemon.model.queue import QueueRules
from semantica_daemon.store.database import Command, CommitResult, FailedAfterWrite
from semantica_daemon.store.run_transition import Claim, Running
from semantica_daemon.store.tx import Job as ClaimedJob
from semantica_daemon.store.tx import StopRun
from semantica_daemon.store.writes.claim import claim
from semantica_daemon.store.writes.clock import Reading, set_clock
from tests.builders import NOW, Store
from tests.stateful.known import Environment, Time
from tests.stateful.queue_settings import Queues
from tests.stateful.reference import Reference
from tests.stateful.retries import Retries
from tests.stateful.timetable import Timetable
from tests.store import invariants

SLOTS = 3
QUEUES = {"one": QueueRules(slots=1), "small": QueueRules(max_queued=3)}


def environment_from(row: dict[str, Any]) -> Environment:
    variables, secrets = msgspec.json.decode(row["variables"]), msgspec.json.decode(row["secrets"] or "[]")
    return Environment(variables, secrets, bool(row["left_out"]))


class OpenedStore(RuleBasedStateMachine):
    @initialize(claiming=st.booleans())
    def open(self, claiming: bool) -> None:
        """`claiming`: every commit claims too, as the daemon's does; else only the rule of that name."""
        self.claiming = claiming
        self.home = Path(tempfile.mkdtemp(prefix="sem-machine-"))
        self.time = Time(NOW)
        self.uptime, self.boots = 0, 1
        self.store = Store(self.home / "meta.db", SLOTS, QUEUES)
        self.queues = Queues(SLOTS, {"one": {"slots": 1}, "small": {"max_queued": 3}})
        self.model = Reference(self.queues, self.time)
        self.retries = Retries(self.model)
        self.timetable = Timetable(self.model, lambda job_id: self.store.job(job_id)["schedule_delay_ms"] or 0)
        self.starts, self.was_set_back, self.apart = 0, False, False
        self.live: list[StoredEvent] = []
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.queued: list[str] = []
        self.stops: list[StopRun] = []
        self.to_stop: set[str] = set()
        self.over: list[Running] = []
        self.as_claimed: dict[str, ClaimedJob] = {}
        self.transact([Command(set_clock, self.reading)], claiming=False)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.home)

    @property
    def reading(self) -> Reading:
        return Reading(f"boot {self.boots}", self.time.now - self.uptime)

    def passes(self, ms: int) -> None:
        self.time.passes(ms)
        self.uptime += ms

    def transact(self, commands: list[Command], claiming: bool) -> CommitResult:
        """As the writer does it: the commands, then the claim, in one commit; or each command alone when one of them
        fails after it has written."""
        self.apart = False
        try:
            committed = self.store.database.transact(commands, self.time.now, claim if claiming else None)
        except FailedAfterWrite:
            self.apart = True
            committed = self._each_alone(commands, claiming)
        self.live += committed.events
        self.stops = committed.stops
        told = [one.event for one in committed.events if one.event.event_type.startswith("schedule.")]
        self.told = [(one.event_type, msgspec.json.decode(one.payload)) for one in told]
        self.queued = [str(one.event.job_id) for one in committed.events if one.event.event_type == "job.queued"]
        return committed

    def _each_alone(self, commands: list[Command], claiming: bool) -> CommitResult:
        results: list[Any] = []
        events: list[StoredEvent] = []
        for command in commands:
            try:
                committed = self.store.database.transact([command], self.time.now, None)
                results, events = results + committed.results, events + committed.events
            except FailedAfterWrite as failed:
                results.append(failed.error)
        last = self.store.database.transact([], self.time.now, claim if claiming else None)
        return msgspec.structs.replace(last, results=results, events=events + last.events)

    @contextmanager
    def commit(self, verb: Any, request: Any) -> Iterator[Any]:
        """The verb's result; the block tells the model of it, and then it is told of what was claimed."""
        committed = self.transact([Command(verb, request)], self.claiming)
        yield committed.results[0]
        self.model.settle()
        self.model.queue_opened(self.queued)
        self.claimed(committed.claims)

    def claimed(self, found: list[Claim], asked: bool = False) -> None:
        if self.claiming or asked:
            self.model.claim(found)
            self.as_claimed |= {claim.run.run_id: claim.job for claim in found}
        assert not found or len(self.model.running()) <= self.queues.max_slots
        for one in found:
            queue, environment = one.job.queue, self.model.jobs[one.run.job_id].environment
            assert sum(job.queue == queue for job in self.model.running()) <= self.queues.slots(queue)
            assert (one.environment and msgspec.json.decode(one.environment)) == (environment and environment.variables)

    # What always holds

    @invariant()
    def rows_are_the_model_s(self) -> None:
        for row in self.store.rows("SELECT * FROM jobs"):
            job = self.model.jobs[row["id"]]
            found = (row["state"], row["generation"], row["attempts"], row["run_count"], bool(row["stale"]))
            assert found == (job.state, job.generation, job.attempts, job.run_count, job.stale)
            assert job.stop or row["claim_attempts"] == job.claim_attempts
            assert (row["superseded_by"], row["stop_state"]) == (job.superseded_by, job.stop)
            assert (row["schedule_id"], row["retry_of"]) == (job.schedule_id, job.retry_of)
            assert row["parent_job_id"] == (job.needs[0] if job.needs else None)
            assert msgspec.json.decode(row["payload"]) == job.payload
            if job.state == "QUEUED":
                assert (row["blocked_by"] is None) == job.has_room
                assert row["expires_at"] == self.time.shown(job.expires)
            if job.state == "SCHEDULED":
                assert (row["scheduled_at"] or 0) == self.model.time_of(job)
                assert row["unmet"] == job.unmet
                assert (row["held_at"] is not None) == job.held
        assert self.store.rows("SELECT count(*) AS n FROM jobs") == [{"n": len(self.model.jobs)}]
        links = self.store.rows("SELECT job_id, parent_id FROM job_parents")
        expected = [(job.id, parent) for job in self.model.jobs.values() for parent in job.needs]
        assert sorted((link["job_id"], link["parent_id"]) for link in links) == sorted(expected)

    @invariant()
    def schedules_are_the_model_s(self) -> None:
        rows = {row["schedule_id"]: row for row in self.store.rows("SELECT * FROM schedules")}
        assert rows.keys() == self.timetable.schedules.keys()
        for schedule_id, schedule in self.timetable.schedules.items():
            row = rows[schedule_id]
            found = (row["name"], row["template_id"], row["next_trigger_at"], row["last_triggered_at"])
            following = self.timetable.shown(schedule, schedule.next)
            assert found == (schedule.asked.name, schedule.template_id, following, schedule.last)
            assert bool(row["enabled"]) == schedule.is_on
            assert sum(not job.awaits_turn for job in self.model.of_schedule(schedule_id)) <= 1

    @invariant()
    def environments_are_the_model_s(self) -> None:
        """Each content once, with its secrets or without."""
        rows = {row["environment_id"]: row for row in self.store.rows("SELECT * FROM environments")}
        contents = {(row["variables"], row["secrets"], row["left_out"]) for row in rows.values()}
        assert len(contents) == len(rows)
        for job_id, number in self.environment_ids().items():
            expected, row = self.model.jobs[job_id].environment, rows.get(number or 0)
            assert (row and environment_from(row)) == expected

    def environment_ids(self) -> dict[str, int | None]:
        return {row["id"]: row["environment_id"] for row in self.store.rows("SELECT id, environment_id FROM jobs")}

    @invariant()
    def the_store_is_sound(self) -> None:
        """Where the clock was set back, runs one after the other may look as if they overlapped."""
        invariants.check_stream(self.store)
        invariants.check_states(self.store)
        invariants.check_lanes(self.store)
        invariants.check_retries(self.store)
        invariants.check_rooms(self.store)
        invariants.check_ready(self.store)
        invariants.check_waiting(self.store)
        invariants.check_turns(self.store)
        invariants.check_counts(self.store)
        if not self.was_set_back:
            invariants.check_runs(self.store)

    @invariant()
    def what_was_told_live_is_what_is_replayed(self) -> None:
        stored = [(row["sequence"], row["job_id"], row["event_type"], row["payload"]) for row in self.store.events()]
        told = [one.event for one in self.live]
        assert stored == [(one.sequence, one.job_id, one.event_type, bytes(one.payload).decode()) for one in told]
