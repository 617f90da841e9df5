"""A schedule fires: its job is made and the schedule advanced in one transaction, so that a crash never fires twice or
not at all. What is not fired is told in an event."""

from typing import Any

import msgspec
from msgspec import Struct

from semantica_daemon.errors import InvalidParams, Refusal
from semantica_daemon.model import schedule as rule
from semantica_daemon.model import state
from semantica_daemon.model.admission import Origin
from semantica_daemon.store import transition, turns
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes import templates
from semantica_daemon.store.writes.enqueue import enqueue, interrupt, outdate
from semantica_daemon.wire.job import Ack, JobSpec
from semantica_daemon.wire.schedule import TriggerResult

MOST_JOBS = 10  # at a time, so that nobody waits long for the writer; the rest of what it has missed comes right after
CATCHING_UP_MS = 300_000


class Schedule(Struct, frozen=True):
    """A row, by its columns."""

    schedule_id: str
    name: str
    template_id: str
    cron_expression: str
    timezone: str
    enabled: int
    param_overrides: str | None
    misfire: str
    overlap: str
    last_triggered_at: int | None
    next_trigger_at: int | None
    interrupts: int
    fired_from: int | None
    fired_to: int | None
    missed_until: int | None

    @property
    def fired(self) -> rule.Fired | None:
        return None if self.fired_from is None or self.fired_to is None else rule.Fired(self.fired_from, self.fired_to)


COLUMNS = ", ".join(Schedule.__struct_fields__)
# One from each end: who is on time is not held up by those that have much to make up for, and these get on as well.
NEWEST_DUE = f"""
SELECT {COLUMNS}
FROM schedules
WHERE next_trigger_at IS NOT NULL AND next_trigger_at <= :now
ORDER BY next_trigger_at DESC
LIMIT 1
"""
OLDEST_DUE = f"""
SELECT {COLUMNS}
FROM schedules
WHERE next_trigger_at IS NOT NULL AND next_trigger_at <= :now
ORDER BY next_trigger_at
LIMIT 1
"""
NOT_DUE = f"""
SELECT {COLUMNS}
FROM schedules
WHERE enabled = 1 AND (next_trigger_at IS NULL OR next_trigger_at > :now)
"""
ADVANCE = """
UPDATE schedules
SET next_trigger_at = :next_trigger_at, fired_from = :fired_from, fired_to = :fired_to, missed_until = :missed_until
WHERE schedule_id = :schedule_id
"""
TRIGGERED = """
UPDATE schedules
SET last_triggered_at = :now, last_job_id = :job_id
WHERE schedule_id = :schedule_id
"""
# But those of the new job's own lane: the planner has dealt with them.
OTHERS = """
SELECT id, state, on_running, max_interrupts
FROM jobs INDEXED BY idx_jobs_schedule_live
WHERE finished_at IS NULL AND schedule_id IS NOT NULL AND schedule_id = :schedule_id AND id <> :by
  AND NOT (subject_key <> '' AND subject_key = :subject_key AND job_type = :job_type AND supersede <> 'none')
"""
COUNT_INTERRUPT = "UPDATE schedules SET interrupts = interrupts + 1 WHERE schedule_id = :schedule_id"


def fire_due(tx: Tx) -> None:
    """Not all of them at once; what is left is still due."""
    rows = [tx.execute(sql, {"now": tx.now}).fetchone() for sql in (NEWEST_DUE, OLDEST_DUE)]
    for schedule in dict.fromkeys(Schedule(*row) for row in rows if row is not None):
        try:
            _fire(tx, schedule)
        except InvalidParams as refused:
            _give_up(tx, schedule, refused)


def trigger(tx: Tx, schedule: Schedule) -> TriggerResult:
    """A refusal is the caller's to hear, and nothing is written then."""
    job = _make(tx, schedule, tx.now)
    return TriggerResult(schedule.schedule_id, job, None if job else "overlap", schedule.next_trigger_at)


def settle(tx: Tx) -> None:
    """The clock was set, or the daemon was away: those whose time is still to come look at the clock anew. Who calls
    this wakes the scheduler."""
    for row in tx.execute(NOT_DUE, {"now": tx.now}).fetchall():
        schedule = Schedule(*row)
        try:
            at = rule.settled(schedule.cron_expression, schedule.timezone, schedule.fired, tx.now)
        except InvalidParams as refused:
            _give_up(tx, schedule, refused)
            continue
        if at != schedule.next_trigger_at:
            _advance(tx, schedule, at, schedule.fired, None)


def spec_of(template: str, overrides: dict[str, Any] | None) -> JobSpec:
    spec = templates.read(template)
    return msgspec.structs.replace(spec, payload={**spec.payload, **overrides}) if overrides else spec


def _fire(tx: Tx, schedule: Schedule) -> None:
    firing, missed_until = _firing(tx, schedule)
    cron = schedule.cron_expression, schedule.timezone
    fired = rule.extended(*cron, schedule.fired, firing)
    _advance(tx, schedule, rule.not_again(*cron, fired, firing.next_trigger_at, tx.now), fired, missed_until)
    if firing.skipped:
        _tell_missed(tx, schedule, firing)
    for at in firing.fire:
        try:
            _make(tx, schedule, at)
        except Refusal as refused:
            about = {"trigger_at": at, "code": refused.code, "hint": refused.hint}
            _tell(tx, schedule, "failed", f"made no job: {refused.message}", about, "error")


def _firing(tx: Tx, schedule: Schedule) -> tuple[rule.Firing, int | None]:
    """And until when it makes up for what it has missed, if there is more than can be done at once: that was cut to
    size when it began, and is gone on with unless it was interrupted for long."""
    due, until = schedule.next_trigger_at or tx.now, schedule.missed_until
    cron = schedule.cron_expression, schedule.timezone
    if until is not None and due <= until <= tx.now <= until + CATCHING_UP_MS:
        return rule.going_on(*cron, due, tx.now, MOST_JOBS, schedule.fired), until
    firing = rule.due(*cron, schedule.misfire, due, tx.now, schedule.fired)
    later = firing.fire[MOST_JOBS:]
    if not later:
        return firing, None
    return msgspec.structs.replace(firing, fire=firing.fire[:MOST_JOBS], next_trigger_at=later[0]), tx.now


def _advance(tx: Tx, schedule: Schedule, at: int | None, fired: rule.Fired | None, missed_until: int | None) -> None:
    values = {"schedule_id": schedule.schedule_id, "next_trigger_at": at, "missed_until": missed_until}
    tx.execute(ADVANCE, {**values, "fired_from": fired and fired.first, "fired_to": fired and fired.last})


def _give_up(tx: Tx, schedule: Schedule, refused: InvalidParams) -> None:
    """Its zone is gone from this machine: it stays, without a time, until somebody puts it right."""
    _advance(tx, schedule, None, schedule.fired, None)
    _tell(tx, schedule, "failed", f"has no next time: {refused.message}", {"code": refused.code}, "error")


def _make(tx: Tx, schedule: Schedule, at: int) -> Ack | None:
    """None: an earlier job is still live, and the schedule does not want two. Refuses before anything is written."""
    taken = turns.is_taken(tx, schedule.schedule_id)
    if taken and schedule.overlap == "skip":
        _tell(tx, schedule, "skipped", "an earlier job is still live", {"trigger_at": at, "reason": "overlap"}, "warn")
        return None
    _, _, template = templates.find(tx, schedule.template_id)
    overrides = msgspec.json.decode(schedule.param_overrides) if schedule.param_overrides else None
    admitted = tx.admit(spec_of(template, overrides))
    origin = Origin(schedule.template_id, schedule.schedule_id, awaits_turn=taken)
    job = enqueue(tx, msgspec.structs.replace(admitted, origin=origin))
    if taken:
        turns.pass_on(tx, schedule.schedule_id, 0)  # it may have superseded the very job it was to wait for
    if taken and schedule.overlap == "supersede":
        _replace(tx, schedule, admitted.spec, job.job_id)
    tx.execute(TRIGGERED, {"schedule_id": schedule.schedule_id, "now": tx.now, "job_id": job.job_id})
    _tell(tx, schedule, "fired", "fired", {"trigger_at": at, "job_id": job.job_id})
    return job


def _replace(tx: Tx, schedule: Schedule, spec: JobSpec, by: str) -> None:
    """Newest wins: what waits is superseded, what runs is left to end or interrupted, as its template says (but not
    more than a few times in a row, or nothing would ever be finished), and the new one waits until it is gone."""
    subject_key = "" if spec.supersede == "none" else spec.subject_key or ""
    lane = {"subject_key": subject_key, "job_type": spec.job_type}
    rows = tx.execute(OTHERS, {"schedule_id": schedule.schedule_id, "by": by, **lane}).fetchall()
    for job_id, current, on_running, most in rows:
        if current != state.RUNNING:
            transition.end_waiting(tx, job_id, current, state.SUPERSEDED, by)
        elif on_running == "cancel" and schedule.interrupts < most:
            if interrupt(tx, [job_id], by):
                tx.execute(COUNT_INTERRUPT, {"schedule_id": schedule.schedule_id})
        else:
            outdate(tx, [job_id], by)


def _tell_missed(tx: Tx, schedule: Schedule, firing: rule.Firing) -> None:
    """In one event, however many there were."""
    count = f"more than {firing.skipped}" if firing.skipped_more else str(firing.skipped)
    about = {
        "reason": "misfire", "misfire": schedule.misfire, "count": firing.skipped, "more": firing.skipped_more,
        "first_at": firing.first_skipped, "last_at": firing.last_skipped,
    }  # fmt: skip
    _tell(tx, schedule, "skipped", f"{count} missed", about, "warn")


def _tell(tx: Tx, schedule: Schedule, what: str, message: str, about: dict[str, Any], level: str = "info") -> None:
    facts = {"schedule_id": schedule.schedule_id, "name": schedule.name, **about}
    tx.announce(f"schedule.{what}", f"schedule {schedule.name}: {message}", facts, None, level)
