"""What a caller asks for (JobSpec) and what it is told (Ack, Forecast); the views of stored jobs are in `view`."""

import hashlib
from operator import attrgetter
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from semantica_daemon import environment
from semantica_daemon.errors import InvalidParams, NotSupported

MAX_PAYLOAD_BYTES = 10_000_000
FAR_FUTURE = 10**15

Ms = Annotated[int, Meta(ge=0, le=FAR_FUTURE)]
At = Annotated[int, Meta(ge=0, le=FAR_FUTURE)]
Count = Annotated[int, Meta(ge=0, le=1_000_000)]
Generation = Annotated[int, Meta(ge=0, le=2**62)]
Priority = Annotated[int, Meta(ge=-100, le=100)]
Queue = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"\A[A-Za-z0-9_.-]+\Z")]
JobType = Annotated[str, Meta(min_length=1, max_length=128, pattern=r"\A[^\x00]*\Z")]
Subject = Annotated[str, Meta(min_length=1, max_length=512, pattern=r"\A[^\x00]*\Z")]
Label = Annotated[str, Meta(min_length=1, max_length=256, pattern=r"\A[^\x00]*\Z")]
JobId = Annotated[str, Meta(min_length=4, max_length=36, pattern=r"\A[0-9a-fA-F-]+\Z")]
Mode = Literal["SUBPROCESS", "IN_PROCESS", "EXTERNAL"]


class Schedule(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    type: Literal["IMMEDIATE", "AT", "AFTER", "CONDITION"] = "IMMEDIATE"
    scheduled_at: At | None = None
    delay_ms: Ms | None = None
    wait_for_idle: bool = False
    require_charging: bool = False
    wait_for_event: str | None = None
    conditions: dict[str, str] | None = None


IMMEDIATE = Schedule()


class JobSpec(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    job_type: JobType
    payload: dict[str, Any] = {}
    queue: Queue = "default"
    subject_key: Subject | None = None
    generation: Generation | None = None
    supersede: Literal["lane", "subject", "none"] = "lane"
    on_running: Literal["finish", "cancel"] | None = None
    max_interrupts: Count = 3
    debounce_ms: Ms | None = None
    max_wait_ms: Ms | None = None
    priority: Priority = 0
    execution_mode: Mode | None = None
    env_vars: dict[str, str] | None = None
    schedule: Schedule = IMMEDIATE
    stop_when_lost: bool = False
    max_attempts: Count = 0
    backoff_factor: Annotated[float, Meta(ge=1, le=100)] = 2.0
    backoff_base_ms: Ms = 1000
    timeout_ms: Annotated[int, Meta(ge=1, le=FAR_FUTURE)] | None = None
    deadline: At | None = None
    ttl_ms: Ms | None = None
    grace_ms: Ms | None = None
    on_interrupt: Literal["fail", "requeue"] = "fail"
    leftovers: Literal["end", "keep"] = "end"
    workspace: bool | None = None
    inputs: list[str] | None = None
    parent_job_id: str | None = None
    parents: list[str] | None = None
    chain_group_id: Label | None = None
    concurrency_key: Label | None = None
    user_tag: Label | None = None
    trace_id: Label | None = None
    traceparent: Annotated[str, Meta(pattern=r"\A[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}\Z")] | None = None
    idempotency_key: Label | None = None
    idempotency_ttl_ms: Ms = 86_400_000
    template_id: str | None = None
    durable: bool = False

    @property
    def trace(self) -> str | None:
        """An explicit trace id, else the one inside the traceparent."""
        return self.trace_id or (self.traceparent.split("-")[1] if self.traceparent else None)


class Ack(Struct, frozen=True, gc=False):
    job_id: str
    queue: str
    state: str
    generation: int | None
    superseded: tuple[str, ...] = ()
    existing: bool = False
    warnings: tuple[str, ...] = ()


class Forecast(Struct, frozen=True):
    """The answer of job.plan. `starts_when` is a sentence; `existing` the id of the job that would be returned."""

    would_supersede: tuple[str, ...]
    would_interrupt: tuple[str, ...]
    existing: str | None
    state: str
    starts_when: str
    warnings: tuple[str, ...] = ()


LATER = (
    "debounce_ms",
    "max_wait_ms",
    "stop_when_lost",
    "workspace",
    "inputs",
    "parent_job_id",
    "parents",
    "concurrency_key",
    "template_id",
)
LATER_IN_SCHEDULE = ("wait_for_idle", "require_charging", "wait_for_event", "conditions")
_later_fields = attrgetter(*LATER)
NOT_GIVEN = _later_fields(JobSpec(job_type="-"))
UNHASHED: dict[str, Any] = {
    "idempotency_key": None,
    "idempotency_ttl_ms": 86_400_000,
    "durable": False,
    "trace_id": None,
    "traceparent": None,
}


def check(spec: JobSpec) -> None:
    """What the fields say only together, and what this version does not do yet."""
    if _later_fields(spec) != NOT_GIVEN:
        for field, usual in zip(LATER, NOT_GIVEN, strict=True):
            if getattr(spec, field) not in (usual, None, False):
                raise _later(f"$.{field}")
    if spec.schedule is not IMMEDIATE:
        _check_schedule(spec.schedule)
    if spec.generation is not None and spec.subject_key is None:
        raise InvalidParams(
            "generation needs a subject_key - at `$.generation`", "say what the job is about", path="$.generation"
        )


def _check_schedule(schedule: Schedule) -> None:
    if schedule.type == "CONDITION":
        raise _later("$.schedule.type")
    for field in LATER_IN_SCHEDULE:
        if getattr(schedule, field):
            raise _later(f"$.schedule.{field}")
    for kind, field in (("AT", "scheduled_at"), ("AFTER", "delay_ms")):
        given = getattr(schedule, field) is not None
        if given != (schedule.type == kind):
            raise InvalidParams(
                f"schedule type {schedule.type} {'takes no' if given else 'needs'} {field} - at `$.schedule.{field}`",
                f'{field} goes with type "{kind}"',
                path=f"$.schedule.{field}",
            )


def _later(path: str) -> NotSupported:
    return NotSupported(
        f"not supported by this version - at `{path}`", "leave it out; a later version brings it", path=path
    )


def redacted(env_vars: dict[str, str] | None) -> dict[str, str] | None:
    """As it is stored, shown and hashed."""
    if env_vars is None:
        return None
    return {name: environment.REDACTED if environment.is_secret(name) else env_vars[name] for name in env_vars}


def spec_hash(spec: JobSpec) -> str:
    """What an idempotency key stands for: the spec without the fields that may differ between tries."""
    bare = msgspec.structs.replace(spec, **UNHASHED, env_vars=redacted(spec.env_vars))
    return hashlib.sha256(msgspec.json.encode(bare, order="deterministic")).hexdigest()
