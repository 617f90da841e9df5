"""The `run` family: what a process reports about its own run, and what a run looks like to a caller."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from semantica_daemon.wire.types import Items, Level, Params, Percent, Text, about

ErrorClass = Literal["transient", "permanent", "infra"]


class Error(Struct, frozen=True, rename={"class_": "class"}):
    """Why a run failed."""

    code: Annotated[str, about("E_EXIT, E_SIGNAL, E_SPAWN, E_TIMEOUT, E_DEADLINE, E_HANDLER, E_ENGINE_CRASH, ...")]
    class_: Annotated[ErrorClass, about("transient and infra are retried, permanent is not")]
    message: Annotated[str, about("a sentence")]
    details: Annotated[Any, about("more, such as a handler's traceback")] = None


class Progress(Struct, frozen=True):
    """How far a run is."""

    percent: Annotated[Percent | None, about("0 to 100")] = None
    phase: Annotated[str | None, about("what it does now")] = None
    items_completed: Annotated[Items | None, about("items done")] = None
    items_total: Annotated[Items | None, about("items in all")] = None
    message: Annotated[str | None, about("a sentence")] = None


class RunLimits(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How much of the machine each run of a command may use."""

    memory_bytes: Annotated[
        Annotated[int, Meta(ge=1_048_576, le=2**50)] | None, about("memory of all its processes; needs a cgroup v2")
    ] = None
    cpu_percent: Annotated[
        Annotated[int, Meta(ge=1, le=100_000)] | None, about("CPU time; 100 is one core; needs a cgroup v2")
    ] = None
    nice: Annotated[
        Annotated[int, Meta(ge=0, le=19)] | None,
        about("lower priority for CPU and disk; 19: disk access only when no other process wants it"),
    ] = None


class RetryOn(Struct, frozen=True, forbid_unknown_fields=True):
    """Which exit codes of a command are retried; any other one is a permanent failure. A run that ends without an exit
    code (by a signal, its timeout, a crash) is retried as usual."""

    exit_codes: Annotated[
        Annotated[tuple[Annotated[int, Meta(ge=1, le=255)], ...], Meta(min_length=1, max_length=255)],
        about("the exit codes after which the command is retried"),
    ]


class RunView(Struct, frozen=True):
    """A run of a job."""

    run_id: Annotated[str, about("id of the run")]
    number: Annotated[int, about("1 for the first run of the job, 2 for the second")]
    attempt: Annotated[int, about("attempt number, from 1; a run that is given back has the number of the next one")]
    status: Annotated[str, about("RUNNING, DONE, FAILED, CANCELLED, SUPERSEDED or INTERRUPTED")]
    started_at: Annotated[int, about("when it started, epoch ms")]
    finished_at: Annotated[int | None, about("when it ended")]
    exit_code: Annotated[int | None, about("exit code of its command; null on a signal")]
    error: Annotated[Any, about("why it failed, as in the job")]
    worker_id: Annotated[str | None, about("external worker that ran it")]
    log_path: Annotated[str | None, about("file with its output")]
    params_snapshot: Annotated[Any, about("the payload it ran with; null over 4 KiB")]


class RunParams(Params, frozen=True):
    run_token: Annotated[
        Annotated[str, Meta(max_length=64)], about("$SEMANTICA_RUN_TOKEN of the job's process, or of a worker's claim")
    ]


class ProgressParams(RunParams, frozen=True):
    """Fields that are left out keep their last value."""

    percent: Annotated[Percent | None, about("0 to 100")] = None
    phase: Annotated[Text | None, about("what it does now")] = None
    items_completed: Annotated[Items | None, about("items done")] = None
    items_total: Annotated[Items | None, about("items in all")] = None
    message: Annotated[Text | None, about("a sentence")] = None


class LogLineParams(RunParams, frozen=True):
    message: Annotated[Text, about("the line; it becomes a job.log event")]
    level: Annotated[Level, about("level of the event")] = "info"
    payload: Annotated[dict[str, Any] | None, about("more facts, at most 64 KiB")] = None


class ResultParams(RunParams, frozen=True):
    result: Annotated[Any, about("the job's result_summary, at most 10 MB")]


class RunAck(Struct, frozen=True, omit_defaults=True):
    """The answer to a process that has reported by its run token."""

    job_id: Annotated[str, about("the job")]
    attempt: Annotated[int, about("attempt number of the run")]
    cancel: Annotated[bool, about("true when the run was asked to stop")] = False
