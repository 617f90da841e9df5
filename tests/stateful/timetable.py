"""Templates and schedules as dicts, beside `reference`: what docs/semantics.md says of cron, misfire and overlap.

All expressions here mean every so many seconds of the clock, in UTC: no cron is needed to say when they fire.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from semantica_daemon.errors import InUse, Refusal, ScheduleNotFound, TemplateNotFound
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

PERIODS = {"*/2 * * * * *": 2000, "0 * * * * *": 60_000, "*/10 * * * * *": 10_000, "0 * * * *": 3_600_000}

Told = Iterator[tuple[str, dict[str, Any]]]


@dataclass
class Template:
    id: str
    spec: dict[str, Any]


@dataclass
class Schedule:
    """`next` is the time that is fired or skipped next, `fired` the first and last of the times fired without a gap."""

    id: str
    asked: PutScheduleParams
    template_id: str
    number: int
    next: int | None
    last: int | None = None
    fired: tuple[int, int] | None = None

    @property
    def period(self) -> int:
        return PERIODS[self.asked.cron_expression or ""]

    def after(self, instant: int) -> int:
        return instant // self.period * self.period + self.period

    def remembered(self, now: int) -> tuple[int, int] | None:
        return self.fired if self.fired and self.fired[1] < now + CLOCK_CORRECTION_MS else None

    def following(self, now: int) -> int:
        """The next time that was not fired before the clock was set back."""
        at, fired = self.after(now), self.remembered(now)
        return fired[1] + self.period if fired and fired[0] <= at <= fired[1] else at


@dataclass
class Timetable:
    reference: Reference
    templates: dict[str, Template] = field(default_factory=dict)
    schedules: dict[str, Schedule] = field(default_factory=dict)
    numbers: int = 0

    @property
    def now(self) -> int:
        return self.reference.time.now

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
        same = known is not None and asked.cron_expression == known.asked.cron_expression
        kept = known.next if known and same else None
        fired = known.fired if known and kept else None
        following = (kept or self._after(asked, self.now)) if asked.enabled else None
        template_id = self.templates[asked.template_id].id
        if known is None:
            self.numbers += 1
            known = Schedule(told.schedule_id, asked, template_id, self.numbers, None)
            self.schedules[known.id] = known
        known.asked, known.template_id, known.next = asked, template_id, following
        known.fired = fired
        assert (told.schedule_id, told.next_trigger_at) == (known.id, known.next)

    def switch(self, name: str, on: bool, told: Any) -> None:
        """Switched on again it begins anew: what it would have fired meanwhile was not wanted."""
        schedule = self.named(name)
        if schedule is None:
            assert isinstance(told, ScheduleNotFound), told
            return
        if not on:
            schedule.next = schedule.fired = None
        elif schedule.next is None:
            schedule.next, schedule.fired = self._after(schedule.asked, self.now), None
        assert told == EnableResult(schedule.id, on, schedule.next)

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
        due = self._due(schedule)
        if isinstance(due, type):
            assert isinstance(answer, due), answer
            return
        job = self._make(schedule, self.now, due, told)
        assert isinstance(answer, TriggerResult), answer
        skipped = None if job else "overlap"
        assert (answer.schedule_id, answer.skipped, answer.next_trigger_at) == (schedule.id, skipped, schedule.next)
        assert (answer.job and answer.job.job_id) == (job and job.id)

    def named(self, name: str) -> Schedule | None:
        return next((one for one in self.schedules.values() if one.asked.name == name), None)

    def _after(self, asked: PutScheduleParams, instant: int) -> int:
        return Schedule("", asked, "", 0, None).after(instant)

    # What fires

    def fire(self, told: list[tuple[str, dict[str, Any]]]) -> None:
        """One look at what is due: some of it at least."""
        due = {one.id: one for one in self.schedules.values() if one.next is not None and one.next <= self.now}
        for schedule_id, own in groupby(told, key=lambda one: one[1]["schedule_id"]):
            self._fire(due.pop(schedule_id), list(own))
        for schedule in due.values():
            self._fire(schedule, [])

    def _fire(self, schedule: Schedule, told: list[tuple[str, dict[str, Any]]]) -> None:
        """Of the missed times the newest, or none, or all fire, by the policy; the older are skipped, and an event says
        so. Many jobs may be more than one look's work: the rest stays due."""
        assert schedule.next is not None
        fired, since = schedule.remembered(self.now), range(schedule.next, self.now + 1, schedule.period)
        missed = [at for at in since if not (fired and fired[0] <= at <= fired[1])]
        most = MAX_FIRED if schedule.asked.misfire == "run_all" else 1
        if schedule.asked.misfire == "skip" and missed and self.now - missed[-1] > ON_TIME_MS:
            most = 0
        skipped, fire = missed[: max(0, len(missed) - most)], missed[max(0, len(missed) - most) :]
        if skipped:
            event, about = told.pop(0)
            assert (event, about["reason"]) == ("schedule.skipped", "misfire")
            assert (about["first_at"], about["last_at"]) == (skipped[0], skipped[-1])
            assert about["count"] < len(skipped) if about["more"] else about["count"] == len(skipped)
        assert len(fire) >= len(told) >= min(len(fire), 1)
        fire, left = fire[: len(told)], fire[len(told) :]
        schedule.fired = self._fired(fired, fire, bool(skipped))
        schedule.next = left[0] if left else schedule.following(self.now)
        for at, one in zip(fire, told, strict=True):
            self._make(schedule, at, self._due(schedule), iter([one]))

    def _fired(self, fired: tuple[int, int] | None, fire: list[int], gap: bool) -> tuple[int, int] | None:
        if fired and fired[1] > self.now:
            return fired
        if fire:
            return (fired[0] if fired and not gap else fire[0]), fire[-1]
        return None if gap else fired

    def _due(self, schedule: Schedule) -> Arrival | type[Refusal] | None:
        """What it makes of its time now; None: an earlier job is live, and it does not want two."""
        if schedule.asked.overlap == "skip" and self.reference.of_schedule(schedule.id):
            return None
        (template,) = (one for one in self.templates.values() if one.id == schedule.template_id)
        spec = template.spec | {"payload": {**template.spec["payload"], **(schedule.asked.param_overrides or {})}}
        found = self.reference.decide(spec, schedule.id)
        assert not isinstance(found, str), "a template gives no generation"
        return found

    def _make(self, schedule: Schedule, at: int, due: Arrival | type[Refusal] | None, told: Told) -> Job | None:
        event, about = next(told)
        assert (about["schedule_id"], about["trigger_at"]) == (schedule.id, at)
        if due is None:
            assert (event, about["reason"]) == ("schedule.skipped", "overlap")
            return None
        if not isinstance(due, Arrival):
            assert (event, about["code"]) == ("schedule.failed", due.code)
            return None
        assert event == "schedule.fired"
        before = self.reference.of_schedule(schedule.id)
        job = self.reference.arrives(due, about["job_id"], one_at_a_time=True)
        if schedule.asked.overlap == "supersede":
            self._replace(schedule.id, [one for one in before if one.lane is None or one.lane != job.lane], job)
        schedule.last = self.now
        return job

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
        """Or the daemon was away: what is still to come is looked up anew."""
        for schedule in self.schedules.values():
            if schedule.next is not None and schedule.next > self.now:
                schedule.next = schedule.following(self.now)

    def bounded(self, ms: int) -> int:
        """As far ahead, but that no schedule has hundreds of jobs to make up for."""
        catching_up = [
            one for one in self.schedules.values() if one.next is not None and one.asked.misfire == "run_all"
        ]
        return min(ms, *(one.period * 30 for one in catching_up), ms)

    def next_due(self) -> list[int | None]:
        return [one.next for one in self.schedules.values()]
