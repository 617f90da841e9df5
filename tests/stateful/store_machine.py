"""The machine: each rule does one thing to the store and tells the reference of it. `test_store_machine` runs it."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from semantica_daemon.errors import Refusal
from semantica_daemon.model.machine import Facts
from semantica_daemon.model.outcome import CRASHED, LOST, Outcome
from semantica_daemon.store.database import Command
from semantica_daemon.store.run_transition import Begun
from semantica_daemon.store.selected import Portion
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes import schedules, templates
from semantica_daemon.store.writes.begin import begin
from semantica_daemon.store.writes.cancel import cancel
from semantica_daemon.store.writes.claim import claim
from semantica_daemon.store.writes.clock import set_clock
from semantica_daemon.store.writes.emit import Emit, emit
from semantica_daemon.store.writes.enqueue import enqueue
from semantica_daemon.store.writes.environments import tidy_at_start
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.fire import fire_at_reboot
from semantica_daemon.store.writes.lost import lost
from semantica_daemon.store.writes.promote import Due, Promote, promote
from semantica_daemon.store.writes.queues import configure, pause, resume
from semantica_daemon.store.writes.queues import delete as delete_queue
from semantica_daemon.store.writes.recover import recover
from semantica_daemon.store.writes.retry import retry
from semantica_daemon.wire.job import RetryParams
from semantica_daemon.wire.queue import ConfigureParams, DeleteQueueParams, PauseParams, ResumeParams
from semantica_daemon.wire.schedule import PutScheduleParams, ScheduleParams
from semantica_daemon.wire.template import PutTemplateParams, TemplateParams
from tests.builders import Store, admitted
from tests.stateful import choices
from tests.stateful.choices import names, outcomes, picks, schedule_of, spec_of, specs, template_of
from tests.stateful.editing_machine import EditingMachine
from tests.stateful.known import LIVE, Job
from tests.stateful.opened_store import QUEUES, SLOTS
from tests.store.steps import BAD


def spoil(tx: Tx, spec: dict[str, Any]) -> None:
    """A command that does its work and then fails: it must leave no trace."""
    enqueue(tx, admitted(**spec))
    claim(tx)
    raise RuntimeError("poison")


class StoreMachine(EditingMachine):
    # What arrives

    def spec(self, drawn: dict[str, Any]) -> dict[str, Any]:
        """With instants and generations as they are now; a lane's owner mostly numbers it."""
        jobs = list(self.model.jobs)
        parents = [jobs[-1 - back] for back in drawn["parents"] or () if back < len(jobs)]
        spec = spec_of(drawn, self.time.now) | {"parents": parents or None}
        known = self.model.lanes.get((spec["subject_key"], spec["job_type"]))
        if spec["supersede"] in ("keep", "append"):
            return spec | {"force": False}
        if spec["subject_key"] is None or (known and known.owner == "server" and spec["generation"] != 2):
            spec["generation"] = None
        elif spec["generation"] is not None or (known and spec["priority"]):
            spec["generation"] = max(0, (known.newest if known else 0) + (spec["generation"] or 1))
        return spec | {"force": spec["force"] and spec["generation"] is not None}

    @rule(drawn=specs)
    def enqueues(self, drawn: dict[str, Any]) -> None:
        spec = self.spec(drawn)
        with self.commit(enqueue, admitted(**spec)) as told:
            self.model.enqueue(spec, told)

    @rule(first=specs, spoilt=specs, last=specs)
    def batches_with_poison_inside(self, first: Any, spoilt: Any, last: Any) -> None:
        first, spoilt, last = self.spec(first), self.spec(spoilt), self.spec(last)
        commands = [Command(enqueue, admitted(**first)), Command(spoil, spoilt), Command(enqueue, admitted(**last))]
        committed = self.transact(commands, self.claiming)
        self.model.enqueue(first, committed.results[0])
        if self.apart:
            self.model.settle()
        assert isinstance(committed.results[1], RuntimeError | Refusal)
        self.model.enqueue(last, committed.results[2])
        self.model.settle()
        self.model.queue_opened(self.queued)
        self.claimed(committed.claims)

    @rule(name=names, priority=st.sampled_from([None, 1]))
    def enqueues_from_a_template(self, name: str, priority: int | None) -> None:
        given: dict[str, Any] = {"job_type": "semantica.noop", **({"priority": priority} if priority else {})}
        with self.commit(enqueue, admitted(**given, template_id=name)) as told:
            self.timetable.enqueue(name, given, told)

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, force=st.booleans(), payload=st.sampled_from(choices.PAYLOADS))
    def retries_a_job(self, pick: int, force: bool, payload: dict[str, Any] | None) -> None:
        """Mostly one that has ended, and a newer one rather than an older."""
        ended = [job for job in self.model.jobs.values() if job.state not in LIVE]
        chosen = list(self.model.jobs.values()) if pick % 8 == 0 or not ended else ended[-6:]
        self.retry(chosen[pick % len(chosen)], force, payload)

    @precondition(lambda self: self.model.lanes)
    @rule(pick=picks)
    def retries_the_jobs_of_a_lane(self, pick: int) -> None:
        """The oldest generation first; mostly of a lane in which a schedule makes its jobs."""
        of_schedules = {job.lane for job in self.model.jobs.values() if job.schedule_id and job.lane}
        lanes = sorted((pick % 4 and of_schedules) or self.model.lanes)
        for _, job_id in sorted(self.model.lanes[lanes[pick % len(lanes)]].generations.items())[-3:]:
            self.retry(self.model.jobs[job_id], True, None)

    def retry(self, job: Job, force: bool, payload: dict[str, Any] | None) -> None:
        with self.commit(retry, RetryParams(job_id=job.id, force=force, payload=payload)) as told:
            self.retries.retry(job, force, payload, told)

    @rule(drawn=specs)
    def enqueues_and_deletes_the_queue(self, drawn: dict[str, Any]) -> None:
        """In one commit; often it is the first job of the queue."""
        name = f"q{len(self.model.jobs)}" if len(self.model.jobs) % 2 else drawn["queue"]
        spec = self.spec(drawn | {"queue": name})
        commands = [Command(enqueue, admitted(**spec)), Command(delete_queue, DeleteQueueParams(spec["queue"]))]
        committed = self.transact(commands, self.claiming)
        self.model.enqueue(spec, committed.results[0])
        if self.apart:
            self.model.settle()
        self.deleted(spec["queue"], committed.results[1])
        self.model.settle()
        self.model.queue_opened(self.queued)
        self.claimed(committed.claims)

    # What runs

    @rule()
    def claims(self) -> None:
        claims = self.transact([], claiming=True).claims
        self.model.settle()
        self.claimed(claims, asked=True)
        assert self.transact([], claiming=True).claims == [], "a runnable job stood beside a free slot"
        self.model.settle()

    @precondition(lambda self: self.model.running())
    @rule(pick=picks, outcome=outcomes)
    def finishes(self, pick: int, outcome: Outcome) -> None:
        """Who was told to stop because the machine is lost ends by that, or well."""
        job = self.model.running()[pick % len(self.model.running())]
        assert job.run is not None
        if job.run.run_id in self.to_stop:
            outcome = LOST if outcome.error else outcome
        elif outcome.lost or (job.begun and outcome.unstarted):
            outcome = BAD
        claimed = self.as_claimed.get(job.run.run_id)
        with self.commit(finish, Finish(job.run, outcome, None, claimed)) as became:
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
        self.model.finish(job, outcome, became, self.store.job(job.id)["scheduled_at"])

    @precondition(lambda self: self.over)
    @rule(pick=picks, outcome=outcomes)
    def answers_late(self, pick: int, outcome: Outcome) -> None:
        self.transact([], claiming=False)
        self.model.settle()
        run = self.over[pick % len(self.over)]
        end = Finish(run, outcome, None, self.as_claimed.get(run.run_id))
        late = [Command(finish, end), Command(begin, Begun(run, 8, 2, "boot", "late"))]
        committed = self.transact(late, claiming=False)
        assert (committed.results, committed.events) == ([None, None], [])

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks)
    def cancels(self, pick: int) -> None:
        """Mostly what is live; what is over stays as it is."""
        jobs = [job for job in self.model.jobs.values() if job.state in LIVE]
        chosen = list(self.model.jobs.values()) if pick % 5 == 0 or not jobs else jobs
        job = chosen[pick % len(chosen)]
        with self.commit(cancel, Portion((job.id,))) as told:
            assert told == {self.model.cancel(job): [job.id]}

    # What it waits for

    @rule(ms=st.sampled_from(choices.STEPS_MS), looks=st.booleans())
    def time_passes(self, ms: int, looks: bool) -> None:
        """The timer may look late; a claim must not take what is past its time all the same."""
        self.passes(self.timetable.bounded(ms))
        if looks:
            self.looks()

    def looks(self) -> int | None:
        with self.commit(promote, Promote(most=100)) as due:  # the model knows no parts; `test_promote` does
            self.model.skip()
            self.timetable.fire(self.told)
            self.model.promote(self.queued)
            assert isinstance(due, Due), due
            first = min(
                (at for at in (*self.model.next_due(), *self.timetable.next_due()) if at is not None), default=None
            )
            needs = (self.model.needed_from(0), self.model.needed_from(1))
            assert self._from_now(due.at, due.needs.idle_at, due.needs.power_at) == self._from_now(first, *needs)
        return due.at

    def _from_now(self, *instants: int | None) -> list[int | None]:
        """What is over is due now, whenever it was."""
        return [at if at is None or at > self.time.now else 0 for at in instants]

    @rule()
    def settles(self) -> None:
        """Until nothing is due: what is then still SCHEDULED has something to wait for, by the rows alone."""
        while (at := self.looks()) is not None and at <= self.time.now:
            pass
        idle, charging = self.model.facts
        left = self.store.rows(
            "SELECT * FROM jobs WHERE state = 'SCHEDULED' AND unmet = 0 AND coalesce(scheduled_at, 0) <= ?"
            " AND wait_for_idle <= ? AND require_charging <= ?", self.time.now, idle, charging
        )  # fmt: skip
        assert left == []
        late = self.store.rows("SELECT * FROM schedules WHERE next_trigger_at <= ?", self.time.now)
        assert late == []

    @rule(said=st.sampled_from(choices.EVENTS))
    def emits(self, said: tuple[str, str | None]) -> None:
        with self.commit(emit, Emit(*said)) as told:
            before = set(self.model.jobs)
            assert told.fired == self.timetable.emit(*said, iter(self.told))
            assert sorted(told.matched) == sorted(self.model.emit(*said, before))
            assert not told.more

    @rule(facts=st.sampled_from(choices.FACTS), at_once=st.booleans())
    def the_machine_changes(self, facts: tuple[bool, bool], at_once: bool) -> None:
        """Claims go by it at once; that something is lost is told right after."""
        self.store.current.facts = Facts(*facts)
        self.model.facts = facts
        if at_once:
            self.it_is_told_of_the_machine()

    @rule()
    def it_is_told_of_the_machine(self) -> None:
        with self.commit(lost, None) as more:
            stopped = self.model.lose()
            assert sorted((one.run_id, one.cause) for one in self.stops) == sorted((one, "lost") for one in stopped)
            assert more is False
            self.to_stop.update(stopped)

    @rule(ms=st.sampled_from(choices.SETS_MS))
    def the_clock_is_set(self, ms: int) -> None:
        """No time passes by that."""
        ms = self.timetable.bounded(ms)
        self.time.now += ms
        self.was_set_back |= ms < 0
        with self.commit(set_clock, self.reading) as step:
            assert step == ms
            self.timetable.clock_was_set()

    # Queues

    @precondition(lambda self: len(self.model.jobs) % 4 == 3 and not self.queues.paused)
    @rule(queue=st.sampled_from(choices.PAUSABLE), after=st.none() | st.integers(1, 100))
    def pauses(self, queue: str | None, after: int | None) -> None:
        with self.commit(pause, PauseParams(queue, after)):
            self.queues.pause(queue or "*", None if after is None else self.time.elapsed + after)

    @precondition(lambda self: self.queues.paused)
    @rule(pick=picks)
    def resumes(self, pick: int) -> None:
        queue = list(self.queues.paused)[pick % len(self.queues.paused)]
        with self.commit(resume, ResumeParams(None if queue == "*" else queue)):
            del self.queues.paused[queue]

    @rule(queue=st.sampled_from(choices.QUEUES), given=st.sampled_from(choices.SETTINGS))
    def configures_a_queue(self, queue: str, given: dict[str, int]) -> None:
        with self.commit(configure, ConfigureParams(queue, given.get("slots"), None, given.get("max_queued"))) as told:
            self.queues.configure(queue, given, told)

    @rule(slots=st.sampled_from(choices.ALL_SLOTS))
    def configures_all_queues(self, slots: int) -> None:
        with self.commit(configure, ConfigureParams(slots=slots)) as told:
            self.queues.configure_all(slots, told)

    @rule(queue=st.sampled_from(choices.QUEUES))
    def deletes_a_queue(self, queue: str) -> None:
        with self.commit(delete_queue, DeleteQueueParams(queue)) as told:
            self.deleted(queue, told)

    def deleted(self, queue: str, told: Any) -> None:
        is_named = any(one.spec["queue"] == queue for one in self.timetable.templates.values())
        self.queues.delete(queue, sum(job.queue == queue for job in self.model.live()), is_named, told)

    # Templates and schedules

    @rule(name=names, drawn=specs)
    def puts_a_template(self, name: str, drawn: dict[str, Any]) -> None:
        spec = template_of(drawn)
        asked = msgspec.convert({"name": name, "spec": spec}, PutTemplateParams)
        with self.commit(templates.put, asked) as told:
            self.timetable.put_template(name, spec, told)

    @rule(name=names)
    def deletes_a_template(self, name: str) -> None:
        with self.commit(templates.delete, TemplateParams(name)) as told:
            self.timetable.delete_template(name, told)

    @rule(drawn=choices.schedules)
    def puts_a_schedule(self, drawn: dict[str, Any]) -> None:
        asked = PutScheduleParams(**schedule_of(drawn))
        with self.commit(schedules.put, asked) as told:
            self.timetable.put(asked, told)

    @rule(name=names, on=st.booleans())
    def switches_a_schedule(self, name: str, on: bool) -> None:
        with self.commit(schedules.enable if on else schedules.disable, ScheduleParams(name)) as told:
            self.timetable.switch(name, on, told)

    @rule(name=names)
    def deletes_a_schedule(self, name: str) -> None:
        with self.commit(schedules.delete, ScheduleParams(name)) as told:
            self.timetable.delete(name, told)

    @rule(name=names)
    def triggers_a_schedule(self, name: str) -> None:
        asked = ScheduleParams(name)
        with self.commit(schedules.trigger, asked) as answer:
            self.timetable.trigger(name, answer, iter(self.told))

    # Killed and started again

    @rule(away=st.sampled_from([0, 100, 5000]), set_by=choices.sets_while_away, rebooted=st.booleans())
    def restarts(self, away: int, set_by: int, rebooted: bool) -> None:
        """Killed without a word between any two steps: what ran has crashed, nobody knows the machine, and everything
        else is as it was. Of another boot nobody can tell whether the clock was set: then that time has passed, or will
        pass once more."""
        self.passes(away)
        self.was_set_back |= set_by < 0
        if rebooted:
            self.boots, self.uptime = self.boots + 1, 3
            self.time.passes(set_by)
        else:
            self.time.now += set_by
        self.starts += 1
        self.store.connection.close()
        self.store = Store(self.home / "meta.db", SLOTS, QUEUES, seed=self.starts)
        self.model.facts = (False, False)
        step = self.transact([Command(set_clock, self.reading)], claiming=False).results[0]
        assert step == (0 if rebooted else set_by)
        self.timetable.clock_was_set()
        self.model.settle()
        became = self.transact([Command(recover, frozenset())], claiming=False).results[0]
        assert set(became) == {job.id for job in self.model.running()}
        for job_id, state in became.items():
            self.finished(self.model.jobs[job_id], CRASHED, state)
        self.model.settle()
        self.model.queue_opened(self.queued)
        self.transact([Command(tidy_at_start, None)], claiming=False)
        for job in self.model.live():
            job.environment = job.environment and job.environment.without_secrets
        self.transact([Command(fire_at_reboot, None)], claiming=False)
        if rebooted:
            self.timetable.machine_started(iter(self.told))
            self.model.settle()
        assert (self.told == []) >= (not rebooted)
        self.model.queue_opened(self.queued)
        assert {number for number in self.environment_ids().values() if number} == {
            row["environment_id"] for row in self.store.rows("SELECT environment_id FROM environments")
        }
