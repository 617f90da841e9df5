"""Templates and schedules as dicts, beside `reference`: what docs/semantics.md says of times, events, misfire, overlap.

All expressions here mean every so many seconds of the clock, in UTC: no cron is needed to say when they fire. An
interval goes by the time that has passed, so that a clock that is set cannot touch it.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from semantica_daemon.errors import InUse, Refusal, ScheduleNotFound, TemplateNotFound
from semantica_daemon.model.repeat import jitter
from semantica_daemon.model.schedule import CLOCK_CORRECTION_MS, MAX_FIRED, ON_TIME_MS
from semantica_daemon.wire.schedule import (
    DeleteScheduleResult,
    EnableResult,
    PutScheduleParams,
    ScheduleAck,
    TriggerResult,
)
from semantica_daemon.wire.template import DeleteTemplateResult, TemplateAck
from tests.stateful.known import Arrival, Job
from tests.stateful.reference import Reference
from tests.stateful.uniqueness import KeptAs

PERIODS = {"*/2 * * * * *": 2000, "0 * * * * *": 60_000, "*/10 * * * * *": 10_000, "0 * * * *": 3_600_000}
INTERVALS = {"@every 3s": 3000, " @Every 1m": 60_000}
REBOOT = "@reboot"

Told = Iterator[tuple[str, dict[str, Any]]]


@dataclass
class Template:
    id: str
    spec: dict[str, Any]


@dataclass
class Schedule:
    """`next` is the time that is fired or skipped next, `fired` the first and last of the times fired without a gap:
    times of the clock, for an interval moments of the time that has passed. `is_on`: it fires. `since`: when an
    interval began."""

    id: str
    asked: PutScheduleParams
    template_id: str
    number: int
    next: int | None
    last: int | None = None
    fired: tuple[int, int] | None = None
    is_on: bool = True
    since: int = 0

    @property
    def is_interval(self) -> bool:
        return self.asked.every_ms is not None or self.asked.cron_expression in INTERVALS

    @property
    def period(self) -> int:
        """0: it has no times."""
        return self.asked.every_ms or (PERIODS | INTERVALS).get(self.asked.cron_expression or "", 0)

    def after(self, instant: int) -> int | None:
        if not self.period:
            return None
        return (instant - self.since) // self.period * self.period + self.period + self.since

    def remembered(self, now: int) -> tuple[int, int] | None:
        return self.fired if self.fired and self.fired[1] < now + CLOCK_CORRECTION_MS else None

    def following(self, now: int) -> int | None:
        """The next time that was not fired before the clock was set back."""
        at, fired = self.after(now), self.remembered(now)
        return fired[1] + self.period if at and fired and fired[0] <= at <= fired[1] else at


@dataclass
class Timetable:
    """`delay_of`: by how much the store has delayed a job."""

    reference: Reference
    delay_of: Callable[[str], int]
    templates: dict[str, Template] = field(default_factory=dict)
    schedules: dict[str, Schedule] = field(default_factory=dict)
    numbers: int = 0

    @property
    def now(self) -> int:
        return self.reference.time.now

    def now_of(self, schedule: Schedule) -> int:
        return self.reference.time.elapsed if schedule.is_interval else self.now

    def shown(self, schedule: Schedule, at: int | None) -> int | None:
        """What the clock shows then."""
        return self.reference.time.shown(at) if schedule.is_interval else at

    # Templates

    def put_template(self, name: str, spec: dict[str, Any], told: Any) -> None:
        known = self.templates.get(name)
        assert isinstance(told, TemplateAck), told
        assert (told.name, told.created) == (name, known is None)
        assert known is None or known.id == told.template_id
        self.templates[name] = Template(told.template_id, spec)

    def delete_template(self, name: str, told: Any) -> None:
        if name not in self.templates:
            assert isinstance(told, TemplateNotFound), told
        elif any(one.template_id == self.templates[name].id for one in self.schedules.values()):
            assert isinstance(told, InUse), told
        else:
            assert told == DeleteTemplateResult(self.templates.pop(name).id)

    def enqueue(self, name: str, given: dict[str, Any], told: Any) -> None:
        """What the call says goes before what the template says."""
        if name not in self.templates:
            assert isinstance(told, TemplateNotFound), told
        else:
            self.reference.enqueue(self.templates[name].spec | given, told)

    # Schedules

    def put(self, asked: PutScheduleParams, told: Any) -> None:
        """An edit that leaves the times as they are loses none of them."""
        if asked.template_id not in self.templates:
            assert isinstance(told, TemplateNotFound), told
            return
        known = self.named(asked.name)
        assert isinstance(told, ScheduleAck), told
        assert (told.name, told.created) == (asked.name, known is None)
        template_id = self.templates[asked.template_id].id
        new = Schedule(told.schedule_id, asked, template_id, self.numbers + 1, None, is_on=bool(asked.enabled))
        if known is None:
            self.numbers += 1
        else:
            new.number, new.last = known.number, known.last
            assert known.id == new.id
        if known and known.next is not None and (known.is_interval, known.period) == (new.is_interval, new.period):
            new.next, new.fired, new.since = known.next, known.fired, known.since
        else:
            self._begin(new)
        new.next = new.next if new.is_on else None
        self.schedules[new.id] = new
        assert told.next_trigger_at == self.shown(new, new.next)

    def _begin(self, schedule: Schedule) -> None:
        schedule.since = self.now_of(schedule) if schedule.is_interval else 0
        schedule.next, schedule.fired = schedule.after(self.now_of(schedule)), None

    def switch(self, name: str, on: bool, told: Any) -> None:
        """Switched on again it begins anew: what it would have fired meanwhile was not wanted."""
        schedule = self.named(name)
        if schedule is None:
            assert isinstance(told, ScheduleNotFound), told
            return
        schedule.is_on = on
        if not on:
            schedule.next = schedule.fired = None
        elif schedule.next is None:
            self._begin(schedule)
        assert told == EnableResult(schedule.id, on, self.shown(schedule, schedule.next))

    def delete(self, name: str, told: Any) -> None:
        """The jobs it has made stay."""
        schedule = self.named(name)
        if schedule is None:
            assert isinstance(told, ScheduleNotFound), told
        else:
            assert told == DeleteScheduleResult(schedule.id)
            del self.schedules[schedule.id]

    def trigger(self, name: str, answer: Any, told: Told) -> None:
        """Now and once, also when it is switched off; a refusal is the caller's to hear."""
        schedule = self.named(name)
        if schedule is None:
            assert isinstance(answer, ScheduleNotFound), answer
            return
        on_event, value = schedule.asked.on_event, schedule.asked.event_value
        due = self._due(schedule, on_event and (on_event, value))
        if isinstance(due, type):
            assert isinstance(answer, due), answer
            return
        job = self._make(schedule, self.now, due, told, at_its_time=False)
        assert isinstance(answer, TriggerResult), answer
        skipped = None if job else "overlap"
        assert (answer.schedule_id, answer.skipped, answer.next_trigger_at) == (
            schedule.id,
            skipped,
            self.shown(schedule, schedule.next),
        )
        assert (answer.job and answer.job.job_id) == (job and job.id)

    def named(self, name: str) -> Schedule | None:
        return next((one for one in self.schedules.values() if one.asked.name == name), None)

    # What fires

    def fire(self, told: list[tuple[str, dict[str, Any]]]) -> None:
        """One look at what is due: some of it at least."""
        due = {one.id: one for one in self.schedules.values() if one.next is not None and one.next <= self.now_of(one)}
        for schedule_id, own in groupby(told, key=lambda one: one[1]["schedule_id"]):
            self._fire(due.pop(schedule_id), list(own))
        for schedule in due.values():
            self._fire(schedule, [])

    def _fire(self, schedule: Schedule, told: list[tuple[str, dict[str, Any]]]) -> None:
        """Of the missed times the newest, or none, or all fire, by the policy; the older are skipped, and an event says
        so. Many jobs may be more than one look's work: the rest stays due."""
        assert schedule.next is not None
        now = self.now_of(schedule)
        fired, since = schedule.remembered(now), range(schedule.next, now + 1, schedule.period)
        missed = [at for at in since if not (fired and fired[0] <= at <= fired[1])]
        most = MAX_FIRED if schedule.asked.misfire == "run_all" else 1
        if schedule.asked.misfire == "skip" and missed and now - missed[-1] > ON_TIME_MS:
            most = 0
        skipped, fire = missed[: max(0, len(missed) - most)], missed[max(0, len(missed) - most) :]
        if skipped:
            event, about = told.pop(0)
            assert (event, about["reason"]) == ("schedule.skipped", "misfire")
            shown = [self.shown(schedule, at) for at in (skipped[0], skipped[-1])]
            assert [about["first_at"], about["last_at"]] == shown
            assert about["count"] < len(skipped) if about["more"] else about["count"] == len(skipped)
        assert len(fire) >= len(told) >= min(len(fire), 1)
        fire, left = fire[: len(told)], fire[len(told) :]
        schedule.fired = self._fired(fired, fire, bool(skipped), now)
        schedule.next = left[0] if left else schedule.following(now)
        for at, one in zip(fire, told, strict=True):
            self._make(schedule, self.shown(schedule, at), self._due(schedule), iter([one]))

    def _fired(self, fired: tuple[int, int] | None, fire: list[int], gap: bool, now: int) -> tuple[int, int] | None:
        if fired and fired[1] > now:
            return fired
        if fire:
            return (fired[0] if fired and not gap else fire[0]), fire[-1]
        return None if gap else fired

    def emit(self, key: str, value: str | None, told: Told) -> list[str]:
        """Each schedule for it makes a job, once, by name; the ids of the jobs."""
        on = [one for one in self.schedules.values() if one.is_on and one.asked.on_event == key]
        matching = [one for one in on if one.asked.event_value in (None, value)]
        return self._make_now(matching, told, (key, value))

    def machine_started(self, told: Told) -> None:
        self._make_now([one for one in self.schedules.values() if one.is_on and is_at_reboot(one.asked)], told, None)

    def _make_now(self, schedules: list[Schedule], told: Told, event: tuple[str, str | None] | None) -> list[str]:
        by_name = sorted(schedules, key=lambda one: one.asked.name)
        made = [self._make(one, self.now, self._due(one, event), told) for one in by_name]
        assert next(told, None) is None
        return [job.id for job in made if job]

    def _due(
        self, schedule: Schedule, event: tuple[str, str | None] | str | None = None
    ) -> Arrival | KeptAs | type[Refusal] | None:
        """What it makes of its time now; None: an earlier job is live, and it does not want two."""
        if schedule.asked.overlap == "skip" and self.reference.of_schedule(schedule.id):
            return None
        (template,) = (one for one in self.templates.values() if one.id == schedule.template_id)
        payload = {**template.spec["payload"], **(schedule.asked.param_overrides or {})}
        if event:
            payload["event"] = {"key": event[0], "value": event[1]}
        found = self.reference.decide(template.spec | {"payload": payload}, schedule.id)
        assert not isinstance(found, str), "a template gives no generation"
        return found

    def _make(
        self,
        schedule: Schedule,
        at: int | None,
        due: Arrival | KeptAs | type[Refusal] | None,
        told: Told,
        at_its_time: bool = True,
    ) -> Job | None:
        event, about = next(told)
        assert (about["schedule_id"], about["trigger_at"]) == (schedule.id, at)
        if due is None:
            assert (event, about["reason"]) == ("schedule.skipped", "overlap")
            return None
        if isinstance(due, type):
            assert (event, about["code"]) == ("schedule.failed", due.code)
            return None
        assert event == "schedule.fired"
        before = self.reference.of_schedule(schedule.id)
        if isinstance(due, KeptAs):
            job = due.job
            assert about["job_id"] == job.id
            self.reference.keep(due)
        else:
            self._delay(schedule, due.job, about, schedule.asked.jitter_ms if at_its_time else 0)
            job = self.reference.arrives(due, about["job_id"], one_at_a_time=True)
        if schedule.asked.overlap == "supersede":
            others = [one for one in before if one.lane is None or one.lane != job.lane]
            self._replace(schedule.id, [one for one in others if not one.is_append], job)
        schedule.last = self.now
        return job

    def _delay(self, schedule: Schedule, job: Job, about: dict[str, Any], most: int) -> None:
        """By its jitter, which follows from the schedule and the time alone."""
        whole, own = self.delay_of(about["job_id"]), job.spec["schedule"].get("delay_ms", 0)
        assert whole - own == jitter(schedule.id, about["trigger_at"], most)
        assert 0 <= whole - own <= most
        if whole > own:
            job.spec = job.spec | {"schedule": {**job.spec["schedule"], "delay_ms": whole}}

    def _replace(self, schedule_id: str, older: list[Job], by: Job) -> None:
        """Newest wins, of those that its lane has not dealt with; but what runs is not interrupted for ever."""
        interrupts = self.reference.interrupts
        for job in older:
            if job.state in ("QUEUED", "SCHEDULED"):
                self.reference.end(job, "SUPERSEDED", by.id)
            elif job.state == "RUNNING" and job.stop is None:
                job.stale, job.superseded_by = True, by.id
                if job.spec["on_running"] == "cancel" and interrupts[schedule_id] < job.spec["max_interrupts"]:
                    job.stop = "SUPERSEDED"
                    interrupts[schedule_id] += 1
                    if job.lane:
                        self.reference.lanes[job.lane].interrupts += 1

    def clock_was_set(self) -> None:
        """Or the daemon was away: what is still to come is looked up anew. An interval that would have begun or fired
        later than now, by a clock of before a reboot, begins now."""
        for schedule in self.schedules.values():
            newest = max(schedule.since, *(schedule.fired or (0,)))
            if schedule.is_interval and schedule.is_on and newest > self.now_of(schedule):
                self._begin(schedule)
            if schedule.next is not None and schedule.next > self.now_of(schedule):
                schedule.next = schedule.following(self.now_of(schedule))

    def bounded(self, ms: int) -> int:
        """As far ahead, but that no schedule has hundreds of jobs to make up for."""
        catching_up = [
            one for one in self.schedules.values() if one.next is not None and one.asked.misfire == "run_all"
        ]
        return min(ms, *(one.period * 30 for one in catching_up), ms)

    def next_due(self) -> list[int | None]:
        return [self.shown(one, one.next) for one in self.schedules.values()]


def is_at_reboot(asked: PutScheduleParams) -> bool:
    return asked.cron_expression == REBOOT
