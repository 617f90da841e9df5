"""Templates and schedules in tests: put, fired and looked at, each through the verb that the daemon would use."""

from typing import Any

import msgspec

from semantica_daemon.store.writes import schedules, templates
from semantica_daemon.wire.job import JobSpec
from semantica_daemon.wire.schedule import EnableResult, PutScheduleParams, ScheduleAck, ScheduleParams, TriggerResult
from semantica_daemon.wire.template import PutTemplateParams, TemplateAck
from tests.builders import Store

MINUTE = 60_000
HOUR = 60 * MINUTE


def template(store: Store, name: str = "t", replaces: str | None = None, **spec: Any) -> TemplateAck:
    asked = PutTemplateParams(name, msgspec.convert({"job_type": "semantica.noop", **spec}, JobSpec), replaces)
    kept: TemplateAck = store.run(templates.put, asked)
    return kept


def schedule(store: Store, name: str = "s", cron: str | None = "* * * * *", **fields: Any) -> ScheduleAck:
    asked = msgspec.convert({"name": name, "template_id": "t", "cron_expression": cron, **fields}, PutScheduleParams)
    kept: ScheduleAck = store.run(schedules.put, asked)
    return kept


def trigger(store: Store, key: str = "s") -> TriggerResult:
    request = ScheduleParams(key)
    done: TriggerResult = store.run(schedules.trigger, request)
    return done


def switch(store: Store, on: bool, key: str = "s") -> EnableResult:
    verb = schedules.enable if on else schedules.disable
    switched: EnableResult = store.run(verb, ScheduleParams(key))
    return switched


def the_schedule(store: Store, name: str = "s") -> dict[str, Any]:
    (row,) = store.rows("SELECT * FROM schedules WHERE name = ?", name)
    return row


def made(store: Store, name: str = "s") -> list[dict[str, Any]]:
    """The jobs of the schedule, oldest first."""
    sql = "SELECT jobs.* FROM jobs JOIN schedules USING (schedule_id) WHERE schedules.name = ? ORDER BY jobs.rowid"
    return store.rows(sql, name)


def payloads(store: Store, event_type: str) -> list[dict[str, Any]]:
    """What events of that type have told, in order."""
    return [msgspec.json.decode(event["payload"]) for event in store.events() if event["event_type"] == event_type]
