"""The `worker` family: programs outside the daemon that register, claim EXTERNAL jobs by lease, and end their runs."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from semantica_daemon.wire.job_view import JobView, ParentResult
from semantica_daemon.wire.run import ErrorClass
from semantica_daemon.wire.types import FEW, JobType, Label, Ms, Params, Queue, Text, Wait, about

DEFAULT_LEASE_MS = 30_000
RunId = Annotated[str, Meta(max_length=64)]
LeaseMs = Annotated[int, Meta(ge=100, le=86_400_000)]


class RegisterParams(Params, frozen=True):
    name: Annotated[Label, about("what people call it; several workers may have one name")]
    pid: Annotated[Annotated[int, Meta(ge=1, le=2**31)] | None, about("its process id, shown in lists")] = None


class RegisterResult(Struct, frozen=True):
    worker_id: Annotated[str, about("what it gives with every other call, a UUID")]


class WorkerParams(Params, frozen=True):
    worker_id: Annotated[Annotated[str, Meta(max_length=36)], about("the worker, from worker.register")]


class ClaimParams(WorkerParams, frozen=True):
    """Claims jobs in their order, and waits while there are none."""

    queues: Annotated[Annotated[list[Queue], FEW] | None, about("only jobs of these queues")] = None
    job_types: Annotated[Annotated[list[JobType], FEW] | None, about("only jobs of these types")] = None
    max: Annotated[Annotated[int, Meta(ge=1, le=100)], about("at most so many jobs, and 4 MB of payloads")] = 1
    wait_ms: Annotated[Wait, about("how long to wait for a job; 0: not at all")] = 8000
    lease_ms: Annotated[LeaseMs, about("a run is lost when so long passes without a heartbeat")] = DEFAULT_LEASE_MS


class ClaimedJob(Struct, frozen=True):
    """A run that the worker has begun with this claim."""

    job: Annotated[JobView, about("the job, with its whole payload")]
    run_id: Annotated[str, about("what worker.heartbeat, complete and fail name the run by")]
    run_token: Annotated[str, about("what run.progress, run.log and run.result name the run by")]
    lease_expires_at: Annotated[int, about("the run is lost then, unless a heartbeat comes before; epoch ms")]
    env_vars: Annotated[dict[str, str], about("the variables that were set for the job by name, secrets included")]
    parents: Annotated[list[ParentResult], about("how its parents ended, with their results, up to 4 MB")]


class ClaimResult(Struct, frozen=True):
    jobs: Annotated[list[ClaimedJob], about("the claimed jobs, best first; empty when none came in time")]


class HeartbeatParams(WorkerParams, frozen=True):
    run_ids: Annotated[
        Annotated[list[RunId], Meta(max_length=1000)] | None, about("its runs that go on; by default all of them")
    ] = None


class Lease(Struct, frozen=True):
    run_id: Annotated[str, about("the run")]
    lease_expires_at: Annotated[int, about("the run is lost then, unless a heartbeat comes before; epoch ms")]


class HeartbeatResult(Struct, frozen=True):
    leases: Annotated[list[Lease], about("the runs that are its own")]
    lost: Annotated[list[str], about("run_ids that are not its own, or no longer: it should drop them")]
    cancel: Annotated[
        list[str], about("run_ids that it must end within their grace period: heartbeats no longer renew their leases")
    ]


class CompleteParams(WorkerParams, frozen=True):
    run_id: Annotated[RunId, about("the run")]
    result: Annotated[Any, about("the job's result_summary, at most 10 MB")] = None


class FailParams(WorkerParams, frozen=True, rename={"class_": "class"}):
    run_id: Annotated[RunId, about("the run")]
    message: Annotated[Text, about("why it failed")]
    class_: Annotated[ErrorClass, about("transient and infra are retried, permanent is not")] = "transient"
    exit_code: Annotated[Annotated[int, Meta(ge=0, le=255)] | None, about("of a command that it has run")] = None
    retry_after_ms: Annotated[Ms | None, about("wait so long before the next attempt, instead of the backoff")] = None


class EndedRun(Struct, frozen=True):
    job: Annotated[JobView, about("the job after the end of the run")]


class LeaveResult(Struct, frozen=True):
    worker_id: Annotated[str, about("the worker")]
    given_back: Annotated[list[str], about("its jobs that wait for another worker, or have ended as requested")]


class WorkerRun(Struct, frozen=True):
    run_id: Annotated[str, about("the run")]
    job_id: Annotated[str, about("its job")]
    job_type: Annotated[str, about("type of the job")]
    queue: Annotated[str, about("queue of the job")]
    started_at: Annotated[int, about("when it was claimed, epoch ms")]
    lease_expires_at: Annotated[int, about("when it is lost without a heartbeat, epoch ms")]


class WorkerView(Struct, frozen=True):
    """A worker, as it has reported itself."""

    worker_id: Annotated[str, about("id of the worker")]
    name: Annotated[str, about("its name")]
    pid: Annotated[int | None, about("its process id, if it gave one")]
    alive: Annotated[bool, about("whether it waits for jobs, or has called within two of its lease times")]
    started_at: Annotated[int, about("when it registered, epoch ms")]
    last_heartbeat: Annotated[int, about("when it last called, epoch ms")]
    items_processed: Annotated[int, about("runs that it has completed")]
    items_failed: Annotated[int, about("its runs that have failed, lost leases included")]
    queues: Annotated[list[str] | None, about("queues of its latest claim; null: all")]
    job_types: Annotated[list[str] | None, about("job types of its latest claim; null: all")]
    lease_ms: Annotated[int, about("lease time of its latest claim")]
    left_at: Annotated[int | None, about("when it left, epoch ms")]
    runs: Annotated[list[WorkerRun], about("what it runs now, oldest first")]


class WorkerList(Struct, frozen=True):
    workers: Annotated[list[WorkerView], about("those alive first, by name; others are forgotten after a day")]
