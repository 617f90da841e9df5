"""The `worker` family: external workers register, claim jobs, and end their runs."""

from collections.abc import Callable

import msgspec
from msgspec import Struct

from semantica_daemon.clock import Clock
from semantica_daemon.engine.claims import WorkerClaims
from semantica_daemon.engine.readers import Readers
from semantica_daemon.model.outcome import LARGEST_RESULT, Outcome
from semantica_daemon.rpc.binding import Binding, Call, ConnectionCall, Write
from semantica_daemon.rpc.connection import Connection
from semantica_daemon.rpc.methods.run import checked
from semantica_daemon.store import working
from semantica_daemon.store.writes import worker_runs, workers
from semantica_daemon.store.writes.worker_runs import EndOfRun, Heartbeat
from semantica_daemon.wire import worker as wire
from semantica_daemon.wire.run import Error
from semantica_daemon.wire.types import Params


class WorkerMethods(Struct, frozen=True):
    """`grace_ms`: returns the daemon's."""

    claims: WorkerClaims
    readers: Readers
    clock: Clock
    grace_ms: Callable[[], int]

    def bindings(self) -> dict[str, Binding]:
        return {
            "worker.register": Write(workers.register),
            "worker.claim": ConnectionCall(self._claim, writes=True),
            "worker.heartbeat": Write(worker_runs.heartbeat, self._heartbeat),
            "worker.complete": Write(worker_runs.end_of_run, _completed),
            "worker.fail": Write(worker_runs.end_of_run, _failed),
            "worker.leave": Write(worker_runs.leave),
            "worker.list": Call(self._list),
        }

    async def _claim(self, connection: Connection, params: wire.ClaimParams) -> wire.ClaimResult:
        await connection.transport.drained()
        return wire.ClaimResult(await self.claims.claim(params, connection.transport.client_is_gone))

    def _heartbeat(self, params: wire.HeartbeatParams) -> Heartbeat:
        return Heartbeat(params.worker_id, params.run_ids, self.grace_ms())

    async def _list(self, _: Params) -> wire.WorkerList:
        found = await self.readers.query(working.workers, self.clock.now())
        waiting = set(self.claims.waiting())
        views = [msgspec.structs.replace(one, alive=one.alive or one.worker_id in waiting) for one in found]
        return wire.WorkerList(sorted(views, key=lambda one: (not one.alive, one.name, one.started_at, one.worker_id)))


def _completed(params: wire.CompleteParams) -> EndOfRun:
    given = params.result
    text = None if given is None else checked(msgspec.json.encode(given), LARGEST_RESULT, "$.result")
    return EndOfRun(params.worker_id, params.run_id, Outcome(result=text))


def _failed(params: wire.FailParams) -> EndOfRun:
    code = "E_HANDLER" if params.exit_code is None else "E_EXIT"
    error = Error(code, params.class_, params.message)
    outcome = Outcome(error=error, exit_code=params.exit_code, retry_after_ms=params.retry_after_ms)
    return EndOfRun(params.worker_id, params.run_id, outcome)
