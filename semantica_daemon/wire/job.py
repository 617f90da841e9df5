"""The params of the `job` family, and what its changes answer. `wire/job_view` has what a stored job looks like."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from semantica_daemon.wire.job_view import JobView, JobWithRuns
from semantica_daemon.wire.reason import Reason
from semantica_daemon.wire.run import Error, RetryOn, RunLimits
from semantica_daemon.wire.selection import SelectionParams
from semantica_daemon.wire.types import (
    FAR_FUTURE,
    FEW,
    At,
    Count,
    Generation,
    JobId,
    JobType,
    Label,
    Mode,
    Ms,
    OnRunning,
    Params,
    Parent,
    Priority,
    Queue,
    SpecQueue,
    State,
    Subject,
    Value,
    Wait,
    about,
)

TRACEPARENT = r"\A[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z"


class Schedule(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """When a job may start. Conditions and a time are combined: all of them must hold."""

    type: Annotated[
        Literal["IMMEDIATE", "AT", "AFTER", "CONDITION"],
        about("IMMEDIATE: now; AT needs scheduled_at, AFTER needs delay_ms, CONDITION needs a condition"),
    ] = "IMMEDIATE"
    scheduled_at: Annotated[At | None, about("not before this instant, epoch ms")] = None
    delay_ms: Annotated[Ms | None, about("not before so many ms after the enqueue")] = None
    wait_for_idle: Annotated[bool, about("only while the machine is idle")] = False
    require_charging: Annotated[bool, about("only while the machine is on mains, or has no battery")] = False
    wait_for_event: Annotated[Label | None, about("not before event.emit was called with this key")] = None
    conditions: Annotated[
        Annotated[dict[Label, Value], Meta(max_length=100)] | None,
        about("not before event.emit was called with each of these keys and values"),
    ] = None

    @property
    def has_conditions(self) -> bool:
        return self.wait_for_idle or self.require_charging or self.wait_for_event is not None or bool(self.conditions)


IMMEDIATE = Schedule()


class Bytes(Struct, frozen=True, forbid_unknown_fields=True):
    """The value of a variable that is not UTF-8."""

    base64: Annotated[bytes, about("its bytes")]


class JobSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A job as a caller asks for it: the params of job.enqueue, and what a template stores."""

    job_type: Annotated[JobType, about("name of the handler, or any name for a command")]
    payload: Annotated[
        dict[str, Any],
        about('what the job works on; of a SUBPROCESS job {"argv": [...], "cwd": ..., "stdin"?, "umask"?}'),
    ] = {}
    queue: Annotated[SpecQueue, about("queue in which it waits for a slot")] = "default"
    subject_key: Annotated[Subject | None, about("what the job is about; with job_type it names the lane")] = None
    generation: Annotated[Generation | None, about("version of the subject; without it the daemon counts up")] = None
    supersede: Annotated[
        Literal["lane", "subject", "none", "keep", "append"],
        about(
            "which waiting jobs a newer one replaces: of the lane, of the whole subject, or none; keep: a waiting job "
            "of the lane is kept and returned instead of a new one; append: one after the other, nothing is replaced"
        ),
    ] = "lane"
    gather: Annotated[
        bool,
        about(
            "collect the payloads of the jobs that it replaces or that are kept as it, under payload.gathered, oldest "
            "first: the newest 1,000 and 1 MB; payload.gathered_dropped counts the others"
        ),
    ] = False
    on_running: Annotated[
        OnRunning | None,
        about("what happens to an older running job of the lane: finish lets it end, cancel interrupts it"),
    ] = None
    max_interrupts: Annotated[Count, about("after so many interruptions in a row the running job may finish")] = 3
    debounce_ms: Annotated[Ms | None, about("wait until the lane has been quiet for so long")] = None
    max_wait_ms: Annotated[Ms | None, about("bound on how long debounce_ms may postpone the job")] = None
    priority: Annotated[Priority, about("higher starts first")] = 0
    execution_mode: Annotated[
        Mode | None, about("default: IN_PROCESS when a handler for job_type is registered, else SUBPROCESS")
    ] = None
    env_vars: Annotated[
        dict[str, str] | None,
        about("environment variables that are set for a command; if a restart loses a secret one, the job fails"),
    ] = None
    environment: Annotated[
        dict[str, str | Bytes] | None,
        about(
            "the caller's whole environment, for a command; env_vars wins over it, a restart leaves secrets out of it; "
            "without it the command gets a short list of the daemon's variables"
        ),
    ] = None
    schedule: Annotated[Schedule, about("when the job may start")] = IMMEDIATE
    hold: Annotated[bool, about("do not start before job.release")] = False
    stop_when_lost: Annotated[bool, about("end the run when the machine is no longer idle or on mains")] = False
    max_attempts: Annotated[Count, about("runs in all; 0 and 1 both mean one")] = 0
    backoff_factor: Annotated[
        Annotated[float, Meta(ge=1, le=100)], about("each wait before a retry is this much longer than the last")
    ] = 2.0
    backoff_base_ms: Annotated[Ms, about("wait before the first retry")] = 1000
    backoff: Annotated[
        Literal["exponential", "linear"], about("linear: each wait is backoff_base_ms longer than the last")
    ] = "exponential"
    backoff_max_ms: Annotated[Ms, about("bound on the wait before a retry")] = 3_600_000
    retry_on: Annotated[RetryOn | None, about("which failures are retried; without it, all that are not permanent")] = (
        None
    )
    timeout_ms: Annotated[Annotated[int, Meta(ge=1, le=FAR_FUTURE)] | None, about("bound on one run")] = None
    deadline: Annotated[At | None, about("instant by which the job must have ended, epoch ms")] = None
    ttl_ms: Annotated[Ms | None, about("skipped when it has been QUEUED for so long")] = None
    grace_ms: Annotated[Ms | None, about("time between SIGTERM and SIGKILL; default: the daemon's grace_ms")] = None
    on_interrupt: Annotated[
        Literal["fail", "requeue"], about("what the end of the daemon, or a lost lease, means for a running job")
    ] = "fail"
    leftovers: Annotated[
        Literal["end", "keep"], about("whether processes that outlive the main one are ended or kept")
    ] = "end"
    limits: Annotated[RunLimits | None, about("of memory, CPU and priority, for a command")] = None
    workspace: Annotated[bool | None, about("not supported by this version")] = None
    inputs: Annotated[list[str] | None, about("not supported by this version")] = None
    parent_job_id: Annotated[
        Parent | None, about('a job that must be DONE before this one starts; "#0": the first job of job.enqueue_many')
    ] = None
    parents: Annotated[
        Annotated[list[Parent], Meta(max_length=10_000)] | None,
        about("jobs that must all be DONE before this one starts; any other end of one of them cancels it"),
    ] = None
    chain_group_id: Annotated[Label | None, about("a label that groups jobs")] = None
    concurrency_key: Annotated[
        Label | None, about("jobs with the same key run one at a time, or as many as queue.configure allows")
    ] = None
    slots: Annotated[Annotated[int, Meta(ge=1, le=10_000)], about("how many slots of its queue a run takes")] = 1
    user_tag: Annotated[Label | None, about("a label to find the job by")] = None
    trace_id: Annotated[Label | None, about("trace id, kept with the job and its events")] = None
    traceparent: Annotated[
        Annotated[str, Meta(pattern=TRACEPARENT)] | None,
        about("W3C trace context, used when trace_id is not given; version ff and ids of zeros are ignored"),
    ] = None
    idempotency_key: Annotated[Label | None, about("the same key with the same spec returns the same job")] = None
    idempotency_ttl_ms: Annotated[Ms, about("how long the key is remembered")] = 86_400_000
    idempotency_match: Annotated[
        Literal["spec", "key"],
        about("spec: the same key with another spec is refused; key: it returns the job that has the key"),
    ] = "spec"
    template_id: Annotated[Label | None, about("id or name of a template that fills in what is not given")] = None
    attach_id: Annotated[Label | None, about("the caller's attachment, from job.attach")] = None
    durable: Annotated[bool, about("answer only after the commit is synced to disk")] = False
    force: Annotated[bool, about("run the generation again when its job has ended; the new job is a retry of it")] = (
        False
    )

    @property
    def parent_names(self) -> tuple[str, ...]:
        """Its parents as the caller names them, the first one first."""
        first = () if self.parent_job_id is None else (self.parent_job_id,)
        return tuple(dict.fromkeys((*first, *(self.parents or ()))))

    @property
    def trace(self) -> str | None:
        """An explicit trace id, else the one inside the traceparent."""
        return self.trace_id or self._usable_traceparent[3:35] or None

    @property
    def trace_flags(self) -> str | None:
        """The flags of the traceparent, if its trace id is the job's."""
        return None if self.trace_id else self._usable_traceparent[53:] or None

    @property
    def _usable_traceparent(self) -> str:
        """Empty for what W3C Trace Context calls invalid."""
        given = self.traceparent or ""
        return "" if given[:2] == "ff" or given[3:35] == "0" * 32 or given[36:52] == "0" * 16 else given


class EnqueueManyParams(Params, frozen=True):
    jobs: Annotated[
        Annotated[list[JobSpec], Meta(min_length=1, max_length=1000)], about("the jobs; all are stored, or none")
    ]
    environment: Annotated[
        dict[str, str | Bytes] | None, about("the environment of all these jobs that have none of their own")
    ] = None

    @property
    def durable(self) -> bool:
        return any(spec.durable for spec in self.jobs)


class Ack(Struct, frozen=True, gc=False):
    """The answer to an enqueue."""

    job_id: Annotated[str, about("id of the job")]
    queue: Annotated[str, about("its queue")]
    state: Annotated[str, about("its state after the enqueue")]
    generation: Annotated[int | None, about("its generation in the lane; null without a subject_key")]
    superseded: Annotated[tuple[str, ...], about("ids of the jobs it has replaced")] = ()
    existing: Annotated[
        bool, about("true when the job was known already, by its key or generation, or waits and is kept")
    ] = False
    warnings: Annotated[tuple[str, ...], about("what the caller probably did not mean")] = ()


class Acks(Struct, frozen=True):
    jobs: Annotated[list[Ack], about("one answer for each job, in order")]


class Forecast(Struct, frozen=True):
    """What an enqueue would do."""

    would_supersede: Annotated[tuple[str, ...], about("ids of the waiting jobs it would replace")]
    would_interrupt: Annotated[tuple[str, ...], about("ids of the running jobs it would interrupt")]
    existing: Annotated[str | None, about("id of the known job that would be returned instead")]
    state: Annotated[str, about("the state it would have")]
    starts_when: Annotated[str, about("when it would start, as the rest of the sentence: it starts ...")]
    warnings: Annotated[tuple[str, ...], about("what the caller probably did not mean")] = ()
    starts_at: Annotated[int | None, about("the earliest instant, epoch ms; null when it waits for no time")] = None
    reasons: Annotated[list[Reason], about("what it would wait for; `starts_when` is made of them")] = []


class JobParams(Params, frozen=True):
    job_id: Annotated[JobId, about("id of the job, or a unique prefix of it")]


class RetryParams(JobParams, frozen=True):
    """The new job has the settings of the old one. It starts as soon as a slot is free and the machine is as the job
    needs it: times, delays, events and debounce do not hold it back again."""

    payload: Annotated[dict[str, Any] | None, about("replaces the payload of the job")] = None
    force: Annotated[bool, about("also when a newer generation of its lane is known; the new job is stale")] = False


class ListParams(Params, frozen=True):
    """Filters of job.list; a job must match all that are given."""

    state: Annotated[Annotated[list[State], FEW] | None, about("in one of these states")] = None
    queue: Annotated[Annotated[list[Queue], FEW] | None, about("in one of these queues")] = None
    except_queue: Annotated[Annotated[list[Queue], FEW] | None, about("in none of these queues")] = None
    job_type: Annotated[Annotated[list[str], FEW] | None, about("of one of these types")] = None
    user_tag: Annotated[Label | None, about("with this tag")] = None
    chain_group_id: Annotated[Label | None, about("with this group label")] = None
    subject_key: Annotated[Subject | None, about("about this subject")] = None
    subject_prefix: Annotated[Subject | None, about("about a subject that begins so")] = None
    schedule_id: Annotated[Label | None, about("made by the schedule with this id")] = None
    held: Annotated[bool | None, about("true: only held jobs; false: none of them")] = None
    archived: Annotated[bool | None, about("true: only archived jobs; false: none of them")] = None
    contains: Annotated[
        Label | None,
        about("whose type, subject, tag or command (of a handler: payload) contains this text, in any case"),
    ] = None
    created_after: Annotated[At | None, about("created after this instant, epoch ms")] = None
    created_before: Annotated[At | None, about("created before this instant, epoch ms")] = None
    sort: Annotated[
        Literal["newest", "oldest", "ended"],
        about("order by arrival; ended: only jobs that have ended, the last one first"),
    ] = "newest"
    limit: Annotated[Annotated[int, Meta(ge=1, le=200)], about("jobs per page")] = 50
    cursor: Annotated[str | None, about("next_cursor of the page before")] = None


class JobPage(Struct, frozen=True):
    items: Annotated[list[JobView], about("the jobs of this page")]
    next_cursor: Annotated[str | None, about("cursor of the next page; null after the last")]


class WaitParams(JobParams, frozen=True):
    timeout_ms: Annotated[Wait, about("answer after so long even if the job has not ended")] = 8000


class WaitResult(Struct, frozen=True):
    finished: Annotated[bool, about("whether the job has ended")]
    job: Annotated[JobWithRuns, about("the job")]


class CancelParams(SelectionParams, frozen=True, kw_only=True):
    """The jobs of the selection that are live."""

    reason: Annotated[Annotated[str, Meta(max_length=1000)], about("shown in the event")] = ""
    wait_ms: Annotated[Wait, about("wait so long for running jobs to end")] = 0
    only_waiting: Annotated[bool, about("leave jobs that are running alone; they are listed as unchanged")] = False


class CancelResult(Struct, frozen=True):
    cancelled: Annotated[list[str], about("ids of the jobs that are CANCELLED now")]
    cancelling: Annotated[list[str], about("ids of running jobs that were asked to stop")]
    unchanged: Annotated[list[str], about("ids of jobs that had ended already")]


class LogsParams(JobParams, frozen=True):
    """Without `run` and `run_id` the newest run is read, and the end of the log is the end of the job."""

    run: Annotated[Annotated[int, Meta(ge=1, le=1_000_000)] | None, about("attempt number")] = None
    run_id: Annotated[Annotated[str, Meta(min_length=1, max_length=64)] | None, about("id of the run")] = None
    offset: Annotated[Annotated[int, Meta(ge=0, le=2**62)], about("first byte")] = 0
    limit: Annotated[Annotated[int, Meta(ge=1, le=1_048_576)], about("most bytes of this answer")] = 262_144
    timeout_ms: Annotated[Wait, about("wait so long for more output when there is none")] = 0
    follow: Annotated[
        bool, about("this caller reads all output: the run waits up to 10 s for it instead of removing unread output")
    ] = False


class LogChunk(Struct, frozen=True):
    """A part of a run's log, and how the job stands, so that a follower needs no other call when it ends."""

    chunk: Annotated[str, about("the text, cut at a whole character")]
    encoding: Annotated[str, about('"utf-8", or "base64" for bytes that are no UTF-8')]
    next_offset: Annotated[int, about("offset to go on with; it skips output that is missing")]
    eof: Annotated[bool, about("the run has ended and this is the last of its log")]
    streams: Annotated[list[tuple[str, int]], about('the stream ("stdout" or "stderr") of each part, with its bytes')]
    truncated: Annotated[bool, about("the log was longer than its limit: the middle is missing")]
    run: Annotated[int | None, about("attempt number of the run; null before the first")]
    run_id: Annotated[str | None, about("id of the run; null before the first")]
    state: Annotated[str, about("state of the job")]
    exit_code: Annotated[int | None, about("exit code of the job's newest run")]
    error: Annotated[Error | None, about("error of the job")]
    run_number: Annotated[int | None, about("1 for the first run of the job, 2 for the second; null before the first")]
    run_count: Annotated[int, about("all runs of the job so far")]
