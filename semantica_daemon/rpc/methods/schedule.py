"""The `schedule` family: jobs made from templates by cron."""

import asyncio

import msgspec

from semantica_daemon.engine.readers import Readers
from semantica_daemon.model.schedule import upcoming
from semantica_daemon.rpc.binding import Binding, Call, Write
from semantica_daemon.store import catalogue
from semantica_daemon.store.writes import schedules
from semantica_daemon.wire.schedule import GetScheduleParams, ScheduleView


def bindings(readers: Readers) -> dict[str, Binding]:
    async def get(params: GetScheduleParams) -> ScheduleView:
        """Computes the next times in a thread: for a rare schedule that takes long."""
        found = await readers.query(catalogue.schedule, params)
        when = (found.cron_expression, found.timezone, found.next_trigger_at, params.upcoming)
        return msgspec.structs.replace(found, upcoming=await asyncio.to_thread(upcoming, *when))

    return {
        "schedule.put": Write(schedules.put),
        "schedule.get": Call(get),
        "schedule.list": Call(readers.taking_params(catalogue.schedules)),
        "schedule.delete": Write(schedules.delete),
        "schedule.enable": Write(schedules.enable),
        "schedule.disable": Write(schedules.disable),
        "schedule.trigger": Write(schedules.trigger),
    }
