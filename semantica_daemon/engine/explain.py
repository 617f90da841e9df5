"""job.explain: reads the job from the store, and idle and power from the machine."""

from msgspec import Struct

from semantica_daemon import prose
from semantica_daemon.clock import Clock
from semantica_daemon.engine.claims import WorkerClaims
from semantica_daemon.engine.machine import Machine
from semantica_daemon.engine.readers import Readers
from semantica_daemon.model.machine import MachineStatus
from semantica_daemon.model.queue import Limits
from semantica_daemon.model.reason import explain
from semantica_daemon.model.state import SCHEDULED
from semantica_daemon.store.standing import standing
from semantica_daemon.wire.reason import Explanation


class Explainer(Struct, frozen=True):
    readers: Readers
    machine: Machine
    limits: Limits
    clock: Clock
    claims: WorkerClaims

    async def explain(self, prefix: str) -> Explanation:
        now, waiting = self.clock.now(), self.claims.waiting()
        job = await self.readers.query(standing, prefix, self.limits, now, waiting)
        waits = job.state == SCHEDULED
        needs = waits and bool(job.wait_for_idle), waits and bool(job.require_charging)
        machine = await self.machine.status(*needs) if any(needs) else MachineStatus()
        return explain(job, machine, now, lambda at: prose.instant(at, now))
