"""The `machine` family: whether the machine is idle and on mains."""

from semantica_daemon.engine.machine import Machine
from semantica_daemon.rpc.binding import Binding, Call
from semantica_daemon.wire.machine import ActivityAck, ActivityParams, MachineView
from semantica_daemon.wire.types import Params


class MachineMethods:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def bindings(self) -> dict[str, Binding]:
        return {"machine.get": Call(self._get), "machine.activity": Call(self._activity)}

    async def _get(self, _: Params) -> MachineView:
        return await self._machine.view()

    async def _activity(self, params: ActivityParams) -> ActivityAck:
        return await self._machine.activity(params.source)
