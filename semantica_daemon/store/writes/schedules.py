"""The verbs schedule.put, enable, disable, delete and trigger; `fire` makes the jobs. They change no existing job."""

from typing import Any

import msgspec

from semantica_daemon.errors import NameTaken, Refusal, ScheduleNotFound
from semantica_daemon.model import repeat, timetable
from semantica_daemon.model.timetable import Timetable
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes import fire, templates
from semantica_daemon.store.writes.fire import COLUMNS, ScheduleRow
from semantica_daemon.wire.schedule import (
    DeleteScheduleResult,
    EnableResult,
    PutScheduleParams,
    ScheduleAck,
    ScheduleParams,
    TriggerResult,
)

BY_KEY = f"""
SELECT {COLUMNS}
FROM schedules
WHERE schedule_id = :key OR name = :key
ORDER BY schedule_id = :key DESC
LIMIT 1
"""
BY_NAME = f"SELECT {COLUMNS} FROM schedules WHERE name = :name"
PUT = """
INSERT INTO schedules (
  schedule_id, name, template_id, cron_expression, timezone, every_ms, anchor_at, on_event, event_value, jitter_ms,
  enabled, param_overrides, misfire, overlap, next_trigger_at, created_at, updated_at
) VALUES (
  :schedule_id, :name, :template_id, :cron_expression, :timezone, :every_ms, :anchor_at, :on_event, :event_value,
  :jitter_ms, :enabled, :param_overrides, :misfire, :overlap, :next_trigger_at, :now, :now
)
ON CONFLICT (schedule_id) DO UPDATE
SET name = excluded.name, template_id = excluded.template_id, cron_expression = excluded.cron_expression,
    timezone = excluded.timezone, every_ms = excluded.every_ms, anchor_at = excluded.anchor_at,
    on_event = excluded.on_event, event_value = excluded.event_value, jitter_ms = excluded.jitter_ms,
    enabled = excluded.enabled, param_overrides = excluded.param_overrides, misfire = excluded.misfire,
    overlap = excluded.overlap, next_trigger_at = excluded.next_trigger_at, updated_at = excluded.updated_at,
    fired_from = iif(:keeps_times, fired_from, NULL), fired_to = iif(:keeps_times, fired_to, NULL)
"""
ENABLE = """
UPDATE schedules
SET enabled = :enabled, next_trigger_at = :next_trigger_at, fired_from = NULL, fired_to = NULL, updated_at = :now,
    anchor_at = :anchor_at
WHERE schedule_id = :schedule_id
"""
DELETE = "DELETE FROM schedules WHERE schedule_id = :schedule_id"


def put(tx: Tx, params: PutScheduleParams) -> ScheduleAck:
    """Creates or replaces a schedule. An edit that leaves the times alone loses no due time."""
    repeats = repeat.repeat_of(params)
    template_id = _template_id(tx, params)
    known = _known(tx, params)
    schedule_id = known.schedule_id if known else tx.ids.job()
    enabled = params.enabled if params.enabled is not None else known is None or bool(known.enabled)
    kept = known if known and known.next_trigger_at is not None and _times(known) == _times(repeats) else None
    table = Timetable(*_times(repeats), kept.anchor_at if kept else tx.now if repeats.every_ms else None)
    next_at = kept.next_trigger_at if kept else timetable.next_after(table, tx.now)
    next_at = next_at if enabled else None
    overrides = params.param_overrides
    stored = None if overrides is None else templates.check_size(overrides, "$.param_overrides")
    values = {name: getattr(params, name) for name in PutScheduleParams.__struct_fields__}
    values |= msgspec.structs.asdict(repeats) | {"anchor_at": table.anchor_at}
    values |= {"schedule_id": schedule_id, "template_id": template_id, "param_overrides": stored, "enabled": enabled}
    tx.execute(PUT, {**values, "next_trigger_at": next_at, "keeps_times": kept is not None, "now": tx.now})
    tx.wake_at(next_at)
    answer = ScheduleAck(schedule_id, params.name, next_at, known is None)
    done = "created" if answer.created else "changed"
    tx.announce(f"schedule.{done}", f"schedule {params.name} {done}", answer)
    return answer


def enable(tx: Tx, params: ScheduleParams) -> EnableResult:
    """The schedule fires from now on; the times while it was disabled do not count as missed."""
    schedule = find(tx, params.schedule_id)
    if schedule.next_trigger_at is not None:
        return EnableResult(schedule.schedule_id, True, schedule.next_trigger_at)
    anchor_at = tx.now if schedule.every_ms else None
    next_at = timetable.next_after(msgspec.structs.replace(schedule, anchor_at=anchor_at), tx.now)
    return _switch(tx, schedule, next_at, True)


def disable(tx: Tx, params: ScheduleParams) -> EnableResult:
    return _switch(tx, find(tx, params.schedule_id), None, False)


def delete(tx: Tx, params: ScheduleParams) -> DeleteScheduleResult:
    schedule = find(tx, params.schedule_id)
    tx.execute(DELETE, {"schedule_id": schedule.schedule_id})
    facts = {"schedule_id": schedule.schedule_id, "name": schedule.name}
    tx.announce("schedule.deleted", f"schedule {schedule.name} deleted", facts)
    return DeleteScheduleResult(schedule.schedule_id)


def trigger(tx: Tx, request: ScheduleParams) -> TriggerResult:
    """Makes a job now, also when the schedule is disabled. The next time stays as it is."""
    schedule = find(tx, request.schedule_id)
    params = None if schedule.on_event is None else fire.event_payload(schedule.on_event, schedule.event_value)
    job = fire.make_job(tx, schedule, tx.now, params)
    return TriggerResult(schedule.schedule_id, job, None if job else "overlap", schedule.next_trigger_at)


def find(tx: Tx, key: str) -> ScheduleRow:
    found = _from_row(tx.execute(BY_KEY, {"key": key}).fetchone())
    if found is None:
        raise ScheduleNotFound(f"no schedule {key}", "schedule.list shows what there is", schedule_id=key)
    return found


def _known(tx: Tx, params: PutScheduleParams) -> ScheduleRow | None:
    """The schedule that `params` replaces, found by its id, else by its name."""
    by_name = _from_row(tx.execute(BY_NAME, {"name": params.name}).fetchone())
    known = by_name if params.schedule_id is None else find(tx, params.schedule_id)
    if by_name is not None and known != by_name:
        other = by_name.schedule_id
        raise NameTaken(f"there is another schedule {params.name}", "choose another name", schedule_id=other)
    return known


def _from_row(row: tuple[Any, ...] | None) -> ScheduleRow | None:
    return ScheduleRow(*row) if row else None


def _template_id(tx: Tx, params: PutScheduleParams) -> str:
    """The id of the template. Refuses overrides with which the template makes no valid job."""
    template_id, _, spec = templates.find(tx, params.template_id)
    event = {} if params.on_event is None else fire.event_payload(params.on_event, "")
    try:
        tx.admit(fire.spec_of(spec, {**(params.param_overrides or {}), **event}))
    except Refusal as refused:
        refused.moved("$.payload", "$.param_overrides")
        raise
    return template_id


def _times(schedule: ScheduleRow | repeat.Repeat) -> tuple[str | None, str, int | None]:
    return schedule.cron_expression, schedule.timezone, schedule.every_ms


def _switch(tx: Tx, schedule: ScheduleRow, next_at: int | None, enabled: bool) -> EnableResult:
    """Drops the watermark: the times while a schedule is disabled are no part of its fired range."""
    answer = EnableResult(schedule.schedule_id, enabled, next_at)
    anchor_at = tx.now if schedule.every_ms else None
    tx.execute(ENABLE, {**msgspec.structs.asdict(answer), "anchor_at": anchor_at, "now": tx.now})
    tx.wake_at(next_at)
    if enabled != bool(schedule.enabled):
        done = "enabled" if enabled else "disabled"
        tx.announce(f"schedule.{done}", f"schedule {schedule.name} {done}", answer)
    return answer
