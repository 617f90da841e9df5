"""The `job` family: enqueue, look up, wait for, cancel and explain jobs."""

from semantica_daemon.engine.explain import Explainer
from semantica_daemon.engine.output import Output
from semantica_daemon.engine.readers import Readers
from semantica_daemon.engine.waiting import Waiting
from semantica_daemon.model.admission import Admission, AdmittedJob
from semantica_daemon.model.state import TERMINAL
from semantica_daemon.rpc.binding import Binding, Call, SessionCall, Write
from semantica_daemon.rpc.session import Session
from semantica_daemon.store import reads
from semantica_daemon.store.writes import enqueue
from semantica_daemon.wire.job import (
    CancelParams,
    CancelResult,
    EnqueueManyParams,
    JobPage,
    JobParams,
    ListParams,
    LogChunk,
    LogsParams,
    WaitParams,
    WaitResult,
)
from semantica_daemon.wire.job_view import JobWithRuns
from semantica_daemon.wire.reason import Explanation


class JobMethods:
    def __init__(
        self, admission: Admission, readers: Readers, waiting: Waiting, output: Output, explainer: Explainer
    ) -> None:
        self._admission = admission
        self._readers = readers
        self._waiting = waiting
        self._output = output
        self._explainer = explainer

    def bindings(self) -> dict[str, Binding]:
        return {
            "job.enqueue": Write(enqueue.enqueue, self._admission.admit),
            "job.enqueue_many": Write(enqueue.enqueue_many, self._admit_all),
            "job.plan": Write(enqueue.forecast, self._admission.admit),
            "job.get": Call(self._get),
            "job.list": Call(self._list),
            "job.wait": SessionCall(self._wait),
            "job.cancel": Call(self._cancel, writes=True),
            "job.explain": Call(self._explain),
            "job.logs": SessionCall(self._logs),
        }

    def _admit_all(self, params: EnqueueManyParams) -> list[AdmittedJob]:
        return self._admission.admit_all(params.jobs)

    async def _get(self, params: JobParams) -> JobWithRuns:
        return await self._readers.query(reads.job, params.job_id)

    async def _list(self, params: ListParams) -> JobPage:
        items, cursor = await self._readers.query(reads.jobs, reads.listing(params))
        return JobPage(items, None if cursor is None else str(cursor))

    async def _wait(self, session: Session, params: WaitParams) -> WaitResult:
        job_id, ended = await self._waiting.until_ended(params.job_id, params.timeout_ms)
        await session.turn()
        job = await self._readers.query(reads.job, job_id)
        return WaitResult(ended or job.state in TERMINAL, job)

    async def _cancel(self, params: CancelParams) -> CancelResult:
        return await self._waiting.cancel(params)

    async def _explain(self, params: JobParams) -> Explanation:
        return await self._explainer.explain(params.job_id)

    async def _logs(self, session: Session, params: LogsParams) -> LogChunk:
        chunk = await self._output.read(params)
        await session.turn()
        return chunk
