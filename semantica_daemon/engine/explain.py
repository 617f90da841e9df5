"""job.explain: reads the job from the store, and idle and power from the machine."""

from msgspec import Struct

from semantica_daemon import prose
from semantica_daemon.clock import Clock
from semantica_daemon.engine.machine import Machine
from semantica_daemon.engine.readers import Readers
from semantica_daemon.model.queue import Limits
from semantica_daemon.model.reason import JobSituation, MachineStatus, explain
from semantica_daemon.model.state import SCHEDULED
from semantica_daemon.store.standing import standing
from semantica_daemon.wire.reason import Explanation


class Explainer(Struct, frozen=True):
    readers: Readers
    machine: Machine
    limits: Limits
    clock: Clock

    async def explain(self, prefix: str) -> Explanation:
        job = await self.readers.query(standing, prefix, self.limits)
        machine = await self._machine_status(job) if job.state == SCHEDULED else MachineStatus()
        now = self.clock.now()
        return explain(job, machine, now, lambda at: prose.instant(at, now))

    async def _machine_status(self, job: JobSituation) -> MachineStatus:
        """Queries idle and power only if the job needs them."""
        idle = await self.machine.idle() if job.wait_for_idle else None
        power = await self.machine.power() if job.require_charging else None
        if idle is not None:
            await self.machine.close_unused()
        is_busy = idle is not None and idle.source == "load" and idle.idle_for_ms == 0  # for an unknown time
        return MachineStatus(
            idle=idle.idle if idle else None,
            idle_for_ms=idle.idle_for_ms if idle and not is_busy else None,
            idle_ms=self.machine.rules.idle_ms,
            idle_detail=idle.detail if idle else "",
            charging=power.charging if power else None,
            power_detail=power.detail if power else "",
        )
