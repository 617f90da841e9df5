"""What a stored job looks like to a caller: the columns of `jobs` by their own names, and what is derived from them."""

from typing import Annotated

from msgspec import Raw, Struct

from semantica_daemon.wire.run import Error, Progress, RetryOn, RunLimits, RunView
from semantica_daemon.wire.types import about


class Condition(Struct, frozen=True):
    """A key and value that event.emit must be called with before the job may start."""

    key: Annotated[str, about("key of the event")]
    value: Annotated[str, about("value of the event")]
    met_at: Annotated[int | None, about("when it happened, epoch ms; null while the job waits for it")]


class JobEnvironment(Struct, frozen=True):
    """What is shown of the environment that the caller handed over with the job: names, never values."""

    hash: Annotated[str, about("hash of its content; jobs with the same environment have the same")]
    names: Annotated[list[str], about("its variables that are not on the short list of those that every job gets")]
    secrets: Annotated[list[str], about("its secret variables, whose values are kept in memory only")]
    left_out: Annotated[list[str], about("secret variables that the job does not get: the daemon was restarted")]


class JobView(Struct, frozen=True, kw_only=True):
    """A job as it stands."""

    job_id: Annotated[str, about("id of the job, a UUID")]
    id: Annotated[str, about("the same as job_id")]
    trace_id: Annotated[str | None, about("trace id given by the caller")]
    trace_flags: Annotated[str | None, about("flags of the traceparent given by the caller, two hex digits")]
    attach_id: Annotated[str | None, about("the attachment that it was enqueued with")]
    queue: Annotated[str, about("queue of the job")]
    job_type: Annotated[str, about("type of the job")]
    subject_key: Annotated[str | None, about("what the job is about")]
    generation: Annotated[int | None, about("version of the subject; null outside a lane")]
    priority: Annotated[int, about("higher starts first")]
    state: Annotated[str, about("QUEUED, SCHEDULED, RUNNING, or how it has ended")]
    created_at: Annotated[int, about("when it was enqueued, epoch ms")]
    started_at: Annotated[int | None, about("when its latest run started")]
    finished_at: Annotated[int | None, about("when it ended; set exactly when the state is terminal")]
    queued_at: Annotated[int | None, about("when it last became QUEUED")]
    updated_at: Annotated[int | None, about("when the job last changed")]
    execution_mode: Annotated[str, about("SUBPROCESS, IN_PROCESS or EXTERNAL")]
    pid: Annotated[int | None, about("process id of its latest command")]
    env_vars: Annotated[Raw, about("environment variables that were set for it by name, secrets redacted")]
    attempts: Annotated[int, about("runs so far that were not given back")]
    max_attempts: Annotated[int, about("runs in all; 0 and 1 both mean one")]
    run_count: Annotated[int, about("all runs so far")]
    claim_attempts: Annotated[int, about("claims whose run could not be started")]
    backoff_factor: Annotated[float, about("growth of the wait before a retry")]
    backoff_base_ms: Annotated[int, about("wait before the first retry")]
    backoff: Annotated[str, about('"exponential" or "linear"')]
    backoff_max_ms: Annotated[int, about("bound on the wait before a retry")]
    retry_on: Annotated[RetryOn | None, about("exit codes that are retried; null: all")]
    deadline: Annotated[int | None, about("instant by which it must have ended")]
    ttl_ms: Annotated[int | None, about("how long it may be QUEUED")]
    expires_at: Annotated[int | None, about("when its ttl_ms is over; null unless QUEUED")]
    timeout_ms: Annotated[int | None, about("bound on one run")]
    grace_ms: Annotated[int | None, about("time between SIGTERM and SIGKILL")]
    on_interrupt: Annotated[str, about('"fail" or "requeue" when the daemon ends during a run')]
    limits: Annotated[RunLimits | None, about("what each run may use of memory and CPU")]
    leftovers: Annotated[str, about('"end" or "keep" processes that outlive the main one')]
    schedule_type: Annotated[str | None, about("IMMEDIATE, AT, AFTER or CONDITION")]
    scheduled_at: Annotated[int | None, about("not before this instant; also the time of a retry")]
    schedule_delay_ms: Annotated[int | None, about("delay it was enqueued with")]
    wait_for_idle: Annotated[bool, about("starts only while the machine is idle")]
    require_charging: Annotated[bool, about("starts only while the machine is on mains")]
    wait_for_event: Annotated[str | None, about("event key it waits for")]
    event_met_at: Annotated[int | None, about("when that event was emitted")]
    stop_when_lost: Annotated[bool, about("its run is stopped when the machine is no longer idle or on mains power")]
    debounce_ms: Annotated[int | None, about("how long its lane must be quiet")]
    max_wait_ms: Annotated[int | None, about("bound on how long debounce_ms may postpone it")]
    parent_job_id: Annotated[str | None, about("the first of its parents")]
    parent_count: Annotated[int, about("how many jobs must be DONE before it starts")]
    parents: Annotated[list[str], about("their ids, in job.list of the first hundred; without those that were deleted")]
    chain_group_id: Annotated[str | None, about("group label")]
    user_tag: Annotated[str | None, about("tag")]
    payload: Annotated[Raw, about("what it works on")]
    result_summary: Annotated[Raw, about("what its run has returned")]
    truncated: Annotated[bool, about("in job.list: payload or result_summary was over 4 KiB and is null")] = False
    log_path: Annotated[str | None, about("file with the output of its latest run")]
    artifact_path: Annotated[str | None, about("folder with its outputs")]
    run_id: Annotated[str | None, about("id of its latest run")]
    worker_id: Annotated[str | None, about("external worker of its latest run")]
    slots: Annotated[int, about("slots that a run of it takes; 0 for an external worker")]
    concurrency_key: Annotated[str | None, about("key whose limit counts it")]
    position: Annotated[int, about("place in its queue among equal priorities")]
    supersede: Annotated[str, about('"lane", "subject", "none", "keep" or "append"')]
    gather: Annotated[bool, about("payload.gathered has the payloads of the jobs that it stands for")]
    on_running: Annotated[str, about('"finish" or "cancel"')]
    max_interrupts: Annotated[int, about("interruptions in a row before a running job may finish")]
    superseded_by: Annotated[str | None, about("id of the job that has replaced it")]
    stale: Annotated[bool, about("a newer job of its lane is known")]
    cancel_requested_at: Annotated[int | None, about("when it was asked to stop")]
    progress: Annotated[Progress | None, about("the newest progress of its run; a job that is DONE is at 100 percent")]
    error: Annotated[Error | None, about("why its latest run failed")]
    exit_code: Annotated[int | None, about("exit code of its latest run; null on a signal")]
    idempotency_key: Annotated[str | None, about("key given by the caller")]
    spec_hash: Annotated[str | None, about("hash of the spec that the key stands for")]
    retry_of: Annotated[str | None, about("id of the job that it repeats")] = None
    template_id: Annotated[str | None, about("template it was made from")]
    schedule_id: Annotated[str | None, about("schedule that has fired it")]
    workspace_path: Annotated[str | None, about("its workspace folder")] = None
    archived_at: Annotated[int | None, about("when job.archive removed its files, epoch ms")] = None
    held_at: Annotated[int | None, about("since when job.hold keeps it from starting, epoch ms")] = None


class ParentResult(Struct, frozen=True):
    """What a job sees of one of its parents when it starts."""

    job_id: Annotated[str, about("id of the parent")]
    state: Annotated[str, about("how it has ended: DONE")]
    result: Annotated[Raw, about("its result_summary")]
    truncated: Annotated[bool, about("result is null because the results of all parents are larger than 64 MB")]


class Retry(Struct, frozen=True):
    """A job that was retried, or a retry."""

    job_id: Annotated[str, about("id of the job")]
    retry_of: Annotated[str | None, about("id of the job that it repeats; null for the first one")]
    state: Annotated[str, about("its state")]
    created_at: Annotated[int, about("when it was enqueued, epoch ms")]
    finished_at: Annotated[int | None, about("when it ended")]


class JobWithRuns(JobView, frozen=True, kw_only=True):
    """A job with the environment it was handed, the conditions it waits for and its newest hundred runs."""

    environment: Annotated[JobEnvironment | None, about("the environment of its caller; null when none was sent")]
    conditions: Annotated[list[Condition], about("keys and values it was enqueued with")]
    runs: Annotated[list[RunView], about("its runs, oldest first")]
    retries: Annotated[
        list[Retry],
        about("the first job and all retries that lead back to it, this one included, oldest first; empty without any"),
    ]
