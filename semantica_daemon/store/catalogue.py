"""Queries for templates and schedules; `writes/templates` and `writes/schedules` change them."""

from typing import Any

import msgspec
from aiosqlite import Connection
from msgspec import Raw

from semantica_daemon.errors import ScheduleNotFound, TemplateNotFound
from semantica_daemon.wire.schedule import ScheduleList, ScheduleParams, ScheduleView
from semantica_daemon.wire.template import TemplateList, TemplateParams, TemplateView
from semantica_daemon.wire.types import Params

TEMPLATES = """
SELECT template_id, name, spec, created_at, updated_at, (
  SELECT json_group_array(schedules.name) FROM schedules WHERE schedules.template_id = templates.template_id
)
FROM templates
WHERE :key IS NULL OR template_id = :key OR name = :key
ORDER BY template_id = :key DESC, name
"""
SCHEDULES = """
SELECT schedules.schedule_id, schedules.name, schedules.template_id, templates.name, cron_expression, every_ms,
  on_event, event_value, jitter_ms, timezone, enabled, param_overrides, misfire, overlap,
  last_triggered_at, next_trigger_at, last_job_id, jobs.state, jobs.exit_code,
  schedules.created_at, schedules.updated_at
FROM schedules
JOIN templates ON templates.template_id = schedules.template_id
LEFT JOIN jobs ON jobs.id = last_job_id
WHERE :key IS NULL OR schedules.schedule_id = :key OR schedules.name = :key
ORDER BY schedules.schedule_id = :key DESC, schedules.name
"""


async def templates(db: Connection, params: Params) -> TemplateList:
    return TemplateList([_template(row) for row in await db.execute_fetchall(TEMPLATES, {"key": None})])


async def template(db: Connection, params: TemplateParams) -> TemplateView:
    key = params.template_id
    found = list(await db.execute_fetchall(TEMPLATES, {"key": key}))
    if not found:
        raise TemplateNotFound(f"no template {key}", "template.list shows what there is", template_id=key)
    return _template(found[0])


async def schedules(db: Connection, params: Params) -> ScheduleList:
    """Each has one upcoming time, the stored one; computing more takes long for a rare schedule."""
    return ScheduleList([_schedule(row) for row in await db.execute_fetchall(SCHEDULES, {"key": None})])


async def schedule(db: Connection, params: ScheduleParams) -> ScheduleView:
    key = params.schedule_id
    found = list(await db.execute_fetchall(SCHEDULES, {"key": key}))
    if not found:
        raise ScheduleNotFound(f"no schedule {key}", "schedule.list shows what there is", schedule_id=key)
    return _schedule(found[0])


def _template(row: Any) -> TemplateView:
    return TemplateView(row[0], row[1], Raw(row[2]), row[3], row[4], msgspec.json.decode(row[5]))


def _schedule(row: Any) -> ScheduleView:
    fields = dict(zip(ScheduleView.__struct_fields__, row, strict=False))
    fields["enabled"] = bool(fields["enabled"])
    fields["param_overrides"] = Raw(fields["param_overrides"] or "null")
    next_at = fields["next_trigger_at"]
    return ScheduleView(**fields, upcoming=[] if next_at is None else [next_at])
