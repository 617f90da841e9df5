"""`job.execute`: runs a job directly, under a reservation of its own."""

import asyncio

from msgspec import Struct

from semantica_daemon.engine.readers import Readers
from semantica_daemon.engine.reservations import ReservationCalls
from semantica_daemon.engine.waiting import Waiting
from semantica_daemon.errors import Reserved
from semantica_daemon.model.admission import AdmittedJob
from semantica_daemon.model.direct import check_direct
from semantica_daemon.rpc.binding import Binding, ConnectionCall
from semantica_daemon.rpc.connection import Connection
from semantica_daemon.rpc.methods.job import Enqueuing
from semantica_daemon.store import reads
from semantica_daemon.wire.execute import ExecuteParams, ExecuteResult
from semantica_daemon.wire.job import Ack, JobSpec


class ExecuteMethods(Struct, frozen=True):
    enqueuing: Enqueuing
    reservations: ReservationCalls
    waiting: Waiting
    readers: Readers

    def bindings(self) -> dict[str, Binding]:
        return {"job.execute": ConnectionCall(self._execute, writes=True)}

    async def _execute(self, connection: Connection, params: ExecuteParams) -> ExecuteResult:
        until = asyncio.get_running_loop().time() + params.wait_ms / 1000
        spec = JobSpec(**{name: getattr(params, name) for name in JobSpec.__struct_fields__})
        check_direct(spec)
        ack = await self._stored(connection, self.enqueuing.admit(spec), params.wait_ms)
        if params.wait_for == "end":
            left = until - asyncio.get_running_loop().time()
            await self.waiting.until_ended(ack.job_id, max(0, round(left * 1000)))
        await connection.calls.turn()
        job = await self.readers.query(reads.job, ack.job_id)
        return ExecuteResult(job, ack.existing, ack.superseded, ack.warnings)

    async def _stored(self, connection: Connection, job: AdmittedJob, wait_ms: int) -> Ack:
        """A caller that is refused because of another reservation may call again with the same attachment."""
        try:
            return await self.reservations.execute(job, wait_ms, connection.transport.client_is_gone)
        except Reserved:
            if job.spec.attach_id is not None:
                self.enqueuing.attachments.free(job.spec.attach_id)
            raise
