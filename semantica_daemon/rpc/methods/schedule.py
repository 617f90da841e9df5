"""The `schedule` family: jobs made from templates, again and again."""

import asyncio

import msgspec

from semantica_daemon.engine.readers import Readers
from semantica_daemon.model.schedule import upcoming
from semantica_daemon.model.timetable import Timetable
from semantica_daemon.rpc.binding import Binding, Call, Write
from semantica_daemon.store import catalogue
from semantica_daemon.store.writes import schedules
from semantica_daemon.wire.schedule import GetScheduleParams, ScheduleView


def bindings(readers: Readers) -> dict[str, Binding]:
    async def get(params: GetScheduleParams) -> ScheduleView:
        """Computes the next times in a thread: for a rare schedule that takes long."""
        found = await readers.query(catalogue.schedule, params)
        next_at = found.next_trigger_at
        table = Timetable(found.cron_expression, found.timezone, found.every_ms, next_at)
        times = await asyncio.to_thread(upcoming, table, next_at, params.upcoming)
        return msgspec.structs.replace(found, upcoming=times)

    return {
        "schedule.put": Write(schedules.put),
        "schedule.get": Call(get),
        "schedule.list": Call(readers.taking_params(catalogue.schedules)),
        "schedule.delete": Write(schedules.delete),
        "schedule.enable": Write(schedules.enable),
        "schedule.disable": Write(schedules.disable),
        "schedule.trigger": Write(schedules.trigger),
    }
