"""The `job` family: enqueue, retry, look up, wait for, cancel and explain jobs."""

from msgspec import Struct

from semantica_daemon.engine.attachments import Attachments
from semantica_daemon.engine.explain import Explainer
from semantica_daemon.engine.output import Output
from semantica_daemon.engine.readers import Readers
from semantica_daemon.engine.waiting import Waiting
from semantica_daemon.model.admission import Admission, AdmittedJob
from semantica_daemon.model.state import TERMINAL
from semantica_daemon.rpc.binding import Binding, Call, ConnectionCall, Write
from semantica_daemon.rpc.connection import Connection
from semantica_daemon.store import graph, listing, reads
from semantica_daemon.store.writes import enqueue, retry
from semantica_daemon.wire import job as wire
from semantica_daemon.wire.job_view import JobWithRuns
from semantica_daemon.wire.reason import Explanation


class Enqueuing(Struct, frozen=True):
    """Admits jobs that will be stored, which use up the attachments that they name."""

    admission: Admission
    attachments: Attachments

    def admit(self, spec: wire.JobSpec) -> AdmittedJob:
        admitted = self.admission.admit(spec)
        if spec.attach_id is not None:
            self.attachments.use(spec.attach_id)
        return admitted

    def admit_all(self, params: wire.EnqueueManyParams) -> list[AdmittedJob]:
        admitted = self.admission.admit_all(params)
        for spec in params.jobs:
            if spec.attach_id is not None:
                self.attachments.use(spec.attach_id)
        return admitted


def bindings(
    enqueuing: Enqueuing, readers: Readers, waiting: Waiting, output: Output, explainer: Explainer
) -> dict[str, Binding]:
    async def get(params: wire.JobParams) -> JobWithRuns:
        return await readers.query(reads.job, params.job_id)

    async def wait(connection: Connection, params: wire.WaitParams) -> wire.WaitResult:
        job_id, ended = await waiting.until_ended(params.job_id, params.timeout_ms)
        await connection.calls.turn()
        job = await readers.query(reads.job, job_id)
        return wire.WaitResult(ended or job.state in TERMINAL, job)

    async def explain(params: wire.JobParams) -> Explanation:
        return await explainer.explain(params.job_id)

    async def logs(connection: Connection, params: wire.LogsParams) -> wire.LogChunk:
        chunk = await output.read(params, id(connection))
        await connection.calls.turn()
        return chunk

    return {
        "job.enqueue": Write(enqueue.enqueue, enqueuing.admit),
        "job.enqueue_many": Write(enqueue.enqueue_many, enqueuing.admit_all),
        "job.plan": Write(enqueue.forecast, enqueuing.admission.admit),
        "job.get": Call(get),
        "job.list": Call(readers.taking_params(listing.jobs)),
        "job.wait": ConnectionCall(wait),
        "job.cancel": Call(waiting.cancel, writes=True),
        "job.retry": Write(retry.retry),
        "job.explain": Call(explain),
        "job.graph": Call(readers.taking_params(graph.graph)),
        "job.logs": ConnectionCall(logs),
    }
