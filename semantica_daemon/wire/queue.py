"""The `queue` family: slots, limits and pauses of queues."""

from typing import Annotated

from msgspec import Meta, Struct

from semantica_daemon.wire.types import Ms, OnRunning, Params, Queue, about

MustExist = Annotated[bool, about("refuse a queue that no job, setting or template has named")]
KeyPattern = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"\A[^\x00]*\Z")]
KeyLimit = Annotated[int, Meta(ge=0, le=10_000)]


class Rate(Params, frozen=True):
    """In any time of `per_ms`, at most `count` runs start."""

    count: Annotated[Annotated[int, Meta(ge=0, le=100_000)], about("runs that may start; 0: there is no rate")]
    per_ms: Annotated[Annotated[int, Meta(ge=1, le=31 * 86_400_000)], about("in any time of this length")]


class KeyRule(Params, frozen=True):
    """The limits of each concurrency key that a pattern matches."""

    limit: Annotated[KeyLimit, about("jobs with one key that may run at once")] = 1
    rate: Annotated[Rate | None, about("how many of them may start in a time")] = None


Keys = Annotated[dict[KeyPattern, KeyLimit | KeyRule | None], Meta(max_length=100)]


class ConfigureParams(Params, frozen=True):
    """Fields that are left out stay as they are. Durable, and wins over the config file."""

    queue: Annotated[Queue | None, about("the queue; without it, the limit of all queues together is set")] = None
    slots: Annotated[
        Annotated[int, Meta(ge=0, le=10_000)] | None,
        about("jobs of it that may run at once; 0: none, or without a queue as many as set in the config file"),
    ] = None
    on_running: Annotated[OnRunning | None, about("default of its jobs")] = None
    max_queued: Annotated[
        Annotated[int, Meta(ge=0, le=100_000_000)] | None, about("an enqueue is refused beyond so many waiting jobs")
    ] = None
    rate: Annotated[Rate | None, about("how many of its runs may start in a time")] = None
    keys: Annotated[
        Keys | None,
        about("limits by pattern of the key, such as repo:*; the longest match counts; null removes a pattern"),
    ] = None
    must_exist: MustExist = False


class QueueSettings(Struct, frozen=True):
    """The settings in force."""

    queue: Annotated[str | None, about("the queue; null for all of them")]
    slots: Annotated[int | None, about("jobs of it that may run at once")]
    on_running: Annotated[str | None, about("default of its jobs; null for all queues")]
    max_queued: Annotated[int | None, about("waiting jobs it takes; null for all queues")]
    rate: Annotated[Rate | None, about("how many of its runs may start in a time; null: any number")] = None
    keys: Annotated[dict[str, KeyRule], about("limits by pattern of the concurrency key; 1 for others")] = {}
    warnings: Annotated[tuple[str, ...], about("what the caller probably did not mean")] = ()


class PauseParams(Params, frozen=True):
    queue: Annotated[Queue | None, about("the queue; without it, all of them")] = None
    resume_after_ms: Annotated[Ms | None, about("resume by itself after so long")] = None
    must_exist: MustExist = False


class ResumeParams(Params, frozen=True):
    queue: Annotated[Queue | None, about("the queue; without it, all of them")] = None
    must_exist: MustExist = False


class DeleteQueueParams(Params, frozen=True):
    queue: Annotated[Queue, about("the queue")]


class DeleteQueueResult(Struct, frozen=True):
    queue: Annotated[str, about("the queue")]
    remains: Annotated[bool, about("true for default and the queues of the config: only stored settings are deleted")]


class PauseState(Struct, frozen=True):
    queue: Annotated[str | None, about("the queue; null for all")]
    paused: Annotated[bool, about("whether it starts no jobs; a queue stays paused while all are")]
    resume_at: Annotated[int | None, about("when it resumes by itself, epoch ms")] = None


class QueueView(Struct, frozen=True):
    """A queue and what it holds."""

    queue: Annotated[str, about("name of the queue")]
    queued: Annotated[int, about("jobs that wait for a slot")]
    scheduled: Annotated[int, about("jobs that may not start yet")]
    running: Annotated[int, about("jobs that run")]
    slots: Annotated[int, about("jobs of it that may run at once")]
    paused: Annotated[bool, about("it starts no jobs")]
    resume_at: Annotated[int | None, about("when it resumes by itself, epoch ms")]
    max_queued: Annotated[int, about("waiting jobs it takes")]
    on_running: Annotated[str, about("default of its jobs")]
    rate: Annotated[Rate | None, about("how many of its runs may start in a time; null: any number")] = None
    keys: Annotated[dict[str, KeyRule], about("limits by pattern of the concurrency key; 1 for others")] = {}


class QueueList(Struct, frozen=True):
    queues: Annotated[list[QueueView], about("the queues by name")]
