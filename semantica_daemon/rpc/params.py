"""What each method takes and answers, where the verb or question has no Struct of its own for it."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from semantica_daemon.engine.waiting import Wait
from semantica_daemon.model.event import Event
from semantica_daemon.model.job import At, JobId, JobSpec, Label, Queue, Subject, Value
from semantica_daemon.model.view import JobView, JobWithRuns, QueueStats, QueueView
from semantica_daemon.store.catalogue import ScheduleView, TemplateView
from semantica_daemon.store.writes.report import Items

State = Literal[
    "QUEUED", "SCHEDULED", "RUNNING", "DONE", "FAILED", "CANCELLED", "SUPERSEDED", "SKIPPED_TTL", "SKIPPED_DEADLINE"
]
Level = Literal["debug", "info", "warn", "error"]
Few = Meta(max_length=100)
Sequence = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Line = Annotated[str, Meta(max_length=65_536)]


class Params(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """No arguments; and what every set of arguments has in common: nothing unknown in it."""


class AnyParams(Struct, frozen=True):
    """For methods that editors call with whatever their LSP client sends."""

    id: Any = None


class ManySpecs(Params, frozen=True):
    jobs: Annotated[list[JobSpec], Meta(min_length=1, max_length=1000)]

    @property
    def durable(self) -> bool:
        return any(spec.durable for spec in self.jobs)


class OneJob(Params, frozen=True):
    job_id: JobId


class WaitParams(OneJob, frozen=True):
    timeout_ms: Wait = 8000


class Waited(Struct, frozen=True):
    finished: bool
    job: JobWithRuns


class LogsParams(OneJob, frozen=True):
    """`run` is an attempt's number; without it, and without `run_id`, the newest run is meant."""

    run: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    run_id: Annotated[str, Meta(min_length=1, max_length=64)] | None = None
    offset: Annotated[int, Meta(ge=0, le=2**62)] = 0
    limit: Annotated[int, Meta(ge=1, le=1_048_576)] = 262_144
    timeout_ms: Wait = 0


class RunParams(Params, frozen=True):
    run_token: Annotated[str, Meta(max_length=64)]


class RunProgress(RunParams, frozen=True):
    percent: Annotated[float, Meta(ge=0, le=100)] | None = None
    phase: Line | None = None
    items_completed: Items | None = None
    items_total: Items | None = None
    message: Line | None = None


class RunLog(RunParams, frozen=True):
    message: Line
    level: Level = "info"
    payload: dict[str, Any] | None = None


class RunResult(RunParams, frozen=True):
    result: Any


class ListParams(Params, frozen=True):
    state: Annotated[list[State], Few] | None = None
    queue: Annotated[list[Queue], Few] | None = None
    job_type: Annotated[list[str], Few] | None = None
    user_tag: Label | None = None
    chain_group_id: Label | None = None
    subject_key: Subject | None = None
    subject_prefix: Subject | None = None
    created_after: At | None = None
    created_before: At | None = None
    sort: Literal["newest", "oldest"] = "newest"
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    cursor: str | None = None


class JobList(Struct, frozen=True):
    items: list[JobView]
    next_cursor: str | None


class CancelParams(Params, frozen=True):
    job_id: JobId | None = None
    job_ids: Annotated[list[JobId], Meta(max_length=1000)] | None = None
    user_tag: Label | None = None
    chain_group_id: Label | None = None
    subject_key: Subject | None = None
    queue: Queue | None = None
    reason: Annotated[str, Meta(max_length=1000)] = ""
    wait_ms: Wait = 0


class SubscribeParams(Params, frozen=True):
    since: Sequence | None = None
    epoch: str | None = None
    job_id: JobId | None = None
    queue: Queue | None = None
    user_tag: Label | None = None
    event_types: Annotated[list[str], Few] | None = None
    levels: Annotated[list[Level], Few] | None = None


class Subscribed(Struct, frozen=True):
    subscription_id: str
    sequence: int
    epoch: str


class UnsubscribeParams(Params, frozen=True):
    subscription_id: str


class Unsubscribed(Struct, frozen=True):
    unsubscribed: bool


class EmitParams(Params, frozen=True):
    key: Label
    value: Value | None = None


class ActivityParams(Params, frozen=True):
    source: Label


class TemplateList(Struct, frozen=True):
    templates: list[TemplateView]


class ScheduleParams(Params, frozen=True):
    """By id or name; `upcoming`: how many of its next times."""

    schedule_id: Label
    upcoming: Annotated[int, Meta(ge=1, le=100)] = 5


class ScheduleList(Struct, frozen=True):
    schedules: list[ScheduleView]


class EventListParams(Params, frozen=True):
    since: Sequence = 0
    epoch: str | None = None
    job_id: JobId | None = None
    event_types: Annotated[list[str], Few] | None = None
    limit: Annotated[int, Meta(ge=1, le=1000)] = 200


class EventList(Struct, frozen=True):
    """`gap`: what was asked for and is gone (stream.gap), or null."""

    events: list[Event]
    next_sequence: int
    epoch: str
    gap: Any = None


class QueueList(Struct, frozen=True):
    queues: list[QueueView]


class Stats(Struct, frozen=True):
    queues: list[QueueStats]
    system: dict[str, Any]


class Health(Struct, frozen=True):
    status: Literal["ready", "starting", "stopping", "degraded"]
    version: str
    protocol: int
    uptime_ms: int
    parts: dict[str, Any]


class ShutdownParams(Params, frozen=True):
    reason: Annotated[str, Meta(max_length=1000)] = "admin.shutdown"


class ShuttingDown(Struct, frozen=True):
    stopping: bool


class Hello(Struct, frozen=True):
    """The answer of initialize: `capabilities` for LSP clients, the rest for everybody."""

    capabilities: dict[str, Any]
    serverInfo: dict[str, str]
    version: str
    protocol: int
    epoch: str
    limits: dict[str, int]
