"""Fires due schedules: makes the job and advances the schedule in one transaction, so that a crash neither loses a time
nor fires it twice. Times that make no job are reported in a `schedule.skipped` or `schedule.failed` event.
"""

from typing import Any

import msgspec

from semantica_daemon.errors import InvalidParams, Refusal
from semantica_daemon.model import repeat, state
from semantica_daemon.model import schedule as rule
from semantica_daemon.model.admission import Origin
from semantica_daemon.model.spec import rest_of
from semantica_daemon.model.timetable import REBOOT
from semantica_daemon.store import gates, transition
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes import templates
from semantica_daemon.store.writes.enqueue import enqueue, interrupt, outdate
from semantica_daemon.wire.job import Ack, JobSpec


class ScheduleRow(rule.Timing, frozen=True):
    """A row of `schedules`: the fields are its columns."""

    schedule_id: str
    name: str
    template_id: str
    enabled: int
    param_overrides: str | None
    overlap: str
    on_event: str | None
    event_value: str | None
    jitter_ms: int
    next_trigger_at: int | None
    interrupts: int


COLUMNS = ", ".join(ScheduleRow.__struct_fields__)
# A transaction fires one schedule from each end: those that are on time do not wait for those that missed many times.
OLDEST_DUE = f"""
SELECT {COLUMNS}
FROM schedules
WHERE next_trigger_at IS NOT NULL AND next_trigger_at <= :now
ORDER BY next_trigger_at
LIMIT 1
"""
NEWEST_DUE = OLDEST_DUE.replace("ORDER BY next_trigger_at", "ORDER BY next_trigger_at DESC")
NOT_DUE = f"""
SELECT {COLUMNS}
FROM schedules
WHERE enabled = 1 AND (next_trigger_at IS NULL OR next_trigger_at > :now)
"""
ADVANCE = """
UPDATE schedules
SET next_trigger_at = :next_trigger_at, fired_from = :fired_from, fired_to = :fired_to
WHERE schedule_id = :schedule_id
"""
RESCHEDULE = "UPDATE schedules SET next_trigger_at = :next_trigger_at WHERE schedule_id = :schedule_id"
BEGIN_ANEW = """
UPDATE schedules
SET anchor_at = :now, fired_from = NULL, fired_to = NULL
WHERE every_ms IS NOT NULL AND enabled = 1 AND max(anchor_at, coalesce(fired_to, 0)) > :now
"""
REBOOTED = "rebooted"  # the fact that the machine was started and no schedule has fired for it yet
TAKE_REBOOT = f"DELETE FROM facts WHERE name = '{REBOOTED}'"
AT_REBOOT = f"SELECT {COLUMNS} FROM schedules WHERE cron_expression = '{REBOOT}' AND enabled = 1 ORDER BY name"
ON_EVENT = f"""
SELECT {COLUMNS}
FROM schedules
WHERE on_event IS NOT NULL AND on_event = :key AND enabled = 1 AND (event_value IS NULL OR event_value = :value)
ORDER BY name
"""
TRIGGERED = """
UPDATE schedules
SET last_triggered_at = :now, last_job_id = :job_id
WHERE schedule_id = :schedule_id
"""
# Without the jobs of the new job's own lane, for which the planner has decided, and without append jobs.
OTHERS = """
SELECT number, state, spec
FROM jobs INDEXED BY idx_jobs_schedule_live
WHERE finished_at IS NULL AND schedule_id IS NOT NULL AND schedule_id = :schedule_id AND id <> :by
  AND supersede <> 'append'
  AND NOT (subject_key <> '' AND subject_key = :subject_key AND job_type = :job_type AND supersede <> 'none')
"""
COUNT_INTERRUPT = "UPDATE schedules SET interrupts = interrupts + 1 WHERE schedule_id = :schedule_id"


def fire_due(tx: Tx) -> None:
    """Fires two of the due schedules; the rest stay due."""
    rows = [tx.execute(sql, {"now": tx.now}).fetchone() for sql in (NEWEST_DUE, OLDEST_DUE)]
    for schedule in dict.fromkeys(ScheduleRow(*row) for row in rows if row is not None):
        try:
            _fire(tx, schedule)
        except InvalidParams as refused:
            _stop(tx, schedule, refused)


def reschedule(tx: Tx) -> None:
    """Computes the next time of every schedule that is not due, after the clock was set or the daemon was away. The
    caller wakes the scheduler. An interval moves with the clock (`clock`); one that lies ahead all the same was counted
    by a clock that was wrong before a reboot, and begins anew.
    """
    tx.execute(BEGIN_ANEW, {"now": tx.now})
    for row in tx.execute(NOT_DUE, {"now": tx.now}).fetchall():
        schedule = ScheduleRow(*row)
        try:
            next_at = rule.next_time(schedule, tx.now)
        except InvalidParams as refused:
            _stop(tx, schedule, refused)
            continue
        if next_at != schedule.next_trigger_at:
            tx.execute(RESCHEDULE, {"schedule_id": schedule.schedule_id, "next_trigger_at": next_at})


def fire_at_reboot(tx: Tx, request: None) -> None:
    """Runs at start, after recovery: a run that the reboot ended is no earlier job that is still live."""
    if not tx.execute(TAKE_REBOOT).rowcount:
        return
    for row in tx.execute(AT_REBOOT).fetchall():
        _make_job_or_report(tx, ScheduleRow(*row), tx.now)


def fire_on_event(tx: Tx, key: str, value: str | None) -> list[str]:
    """Returns the ids of the jobs that the schedules for this event have made."""
    rows = tx.execute(ON_EVENT, {"key": key, "value": value}).fetchall()
    jobs = [_make_job_or_report(tx, ScheduleRow(*row), tx.now, event_payload(key, value)) for row in rows]
    return [job.job_id for job in jobs if job is not None]


def event_payload(key: str, value: str | None) -> dict[str, Any]:
    """What the payload of a job gets from the event that made it."""
    return {"event": {"key": key, "value": value}}


def spec_of(template: str, overrides: dict[str, Any] | None) -> JobSpec:
    spec = templates.read(template)
    return msgspec.structs.replace(spec, payload={**spec.payload, **overrides}) if overrides else spec


def _fire(tx: Tx, schedule: ScheduleRow) -> None:
    firing = rule.due(schedule, schedule.next_trigger_at or tx.now, tx.now)
    _advance(tx, schedule, firing.next_trigger_at, firing.fired)
    if firing.skipped:
        _emit_missed(tx, schedule, firing.skipped)
    for at in firing.fire:
        _make_job_or_report(tx, schedule, at)


def _make_job_or_report(tx: Tx, schedule: ScheduleRow, at: int, params: dict[str, Any] | None = None) -> Ack | None:
    try:
        return make_job(tx, schedule, at, params, repeat.jitter(schedule.schedule_id, at, schedule.jitter_ms))
    except Refusal as refused:
        facts = {"trigger_at": at, "code": refused.code, "hint": refused.hint}
        _emit(tx, schedule, "failed", f"made no job: {refused.message}", facts, "error")
        return None


def _advance(tx: Tx, schedule: ScheduleRow, next_at: int | None, fired: rule.FiredRange | None) -> None:
    values = {"schedule_id": schedule.schedule_id, "next_trigger_at": next_at}
    tx.execute(ADVANCE, {**values, "fired_from": fired and fired.first, "fired_to": fired and fired.last})


def _stop(tx: Tx, schedule: ScheduleRow, refused: InvalidParams) -> None:
    """This machine no longer has the time zone: the schedule has no next time until it is put again."""
    _advance(tx, schedule, None, None)
    _emit(tx, schedule, "failed", f"has no next time: {refused.message}", {"code": refused.code}, "error")


def make_job(
    tx: Tx, schedule: ScheduleRow, at: int, params: dict[str, Any] | None = None, delay_ms: int = 0
) -> Ack | None:
    """None when an earlier job is live and `overlap` is skip. Raises a refusal before anything is written. `params` are
    merged into the payload, over those of the schedule."""
    taken = gates.turn_is_taken(tx, schedule.schedule_id)
    if taken and schedule.overlap == "skip":
        _emit(tx, schedule, "skipped", "an earlier job is still live", {"trigger_at": at, "reason": "overlap"}, "warn")
        return None
    _, _, template = templates.find(tx, schedule.template_id)
    overrides = msgspec.json.decode(schedule.param_overrides) if schedule.param_overrides else {}
    admitted = tx.admit(_delayed(spec_of(template, {**overrides, **(params or {})}), delay_ms))
    origin = Origin(schedule.template_id, schedule.schedule_id, awaits_turn=taken)
    job = enqueue(tx, msgspec.structs.replace(admitted, origin=origin))
    if taken:
        gates.open_next_turn(tx, schedule.schedule_id)  # the new job may have superseded the one it waits for
    if taken and schedule.overlap == "supersede":
        _replace(tx, schedule, admitted.spec, job.job_id)
    tx.execute(TRIGGERED, {"schedule_id": schedule.schedule_id, "now": tx.now, "job_id": job.job_id})
    _emit(tx, schedule, "fired", "fired", {"trigger_at": at, "job_id": job.job_id})
    return job


def _delayed(spec: JobSpec, delay_ms: int) -> JobSpec:
    """Adds to the delay of the template, if it has one."""
    if not delay_ms:
        return spec
    waits = spec.schedule
    kind = "AFTER" if waits.type == "IMMEDIATE" else waits.type
    longer = msgspec.structs.replace(waits, type=kind, delay_ms=(waits.delay_ms or 0) + delay_ms)
    return msgspec.structs.replace(spec, schedule=longer)


def _replace(tx: Tx, schedule: ScheduleRow, spec: JobSpec, by: str) -> None:
    """Supersedes the waiting jobs of the schedule. A running job ends by itself, or is interrupted if its template says
    so, but not more than `max_interrupts` times in a row; the new job waits for its end.
    """
    subject_key = "" if spec.supersede == "none" else spec.subject_key or ""
    lane = {"subject_key": subject_key, "job_type": spec.job_type}
    rows = tx.execute(OTHERS, {"schedule_id": schedule.schedule_id, "by": by, **lane}).fetchall()
    for number, current, text in rows:
        rest = rest_of(text)
        if current != state.RUNNING:
            transition.end_waiting(tx, tx.read(number), state.SUPERSEDED, by)
        elif rest.on_running == "cancel" and schedule.interrupts < rest.max_interrupts:
            if interrupt(tx, number, by):
                tx.execute(COUNT_INTERRUPT, {"schedule_id": schedule.schedule_id})
        else:
            outdate(tx, number, by)


def _emit_missed(tx: Tx, schedule: ScheduleRow, skipped: rule.SkippedTimes) -> None:
    """One event for all skipped times."""
    count = f"more than {skipped.count}" if skipped.more else str(skipped.count)
    facts = {"reason": "misfire", "misfire": schedule.misfire, **msgspec.structs.asdict(skipped)}
    _emit(tx, schedule, "skipped", f"{count} missed", facts, "warn")


def _emit(tx: Tx, schedule: ScheduleRow, what: str, message: str, facts: dict[str, Any], level: str = "info") -> None:
    payload = {"schedule_id": schedule.schedule_id, "name": schedule.name, **facts}
    tx.announce(f"schedule.{what}", f"schedule {schedule.name}: {message}", payload, None, level)
