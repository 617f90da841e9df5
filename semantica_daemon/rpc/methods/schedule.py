"""The `schedule` family: jobs made from templates by cron."""

import asyncio

import msgspec

from semantica_daemon.engine.readers import Readers
from semantica_daemon.model.schedule import upcoming
from semantica_daemon.rpc.binding import Binding, Call, Write
from semantica_daemon.store import catalogue
from semantica_daemon.store.writes import schedules
from semantica_daemon.wire.schedule import GetScheduleParams, ScheduleList, ScheduleView
from semantica_daemon.wire.types import Params


class ScheduleMethods:
    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    def bindings(self) -> dict[str, Binding]:
        return {
            "schedule.put": Write(schedules.put),
            "schedule.get": Call(self._get),
            "schedule.list": Call(self._list),
            "schedule.delete": Write(schedules.delete),
            "schedule.enable": Write(schedules.enable),
            "schedule.disable": Write(schedules.disable),
            "schedule.trigger": Write(schedules.trigger),
        }

    async def _get(self, params: GetScheduleParams) -> ScheduleView:
        """Computes the next times in a thread: for a rare schedule that takes long."""
        found = await self._readers.query(catalogue.schedule, params.schedule_id)
        when = (found.cron_expression, found.timezone, found.next_trigger_at, params.upcoming)
        return msgspec.structs.replace(found, upcoming=await asyncio.to_thread(upcoming, *when))

    async def _list(self, _: Params) -> ScheduleList:
        return ScheduleList(await self._readers.query(catalogue.schedules))
