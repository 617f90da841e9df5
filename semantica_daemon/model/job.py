"""The rules for a JobSpec: which of its fields go together, how it is hashed, and how its environment is shown."""

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from semantica_daemon import environment
from semantica_daemon.errors import InvalidParams, NotSupported
from semantica_daemon.model.state import TERMINAL
from semantica_daemon.wire.job import IMMEDIATE, JobSpec, Schedule
from semantica_daemon.wire.types import QUEUE_PATTERN

MAX_PAYLOAD_BYTES = 10_000_000
QUEUE = re.compile(QUEUE_PATTERN)
JOB_KEY = re.compile(r"\Ajob:[0-9a-fA-F-]{4,36}\Z")

# Keys of events that only the daemon emits. `job:` and an id: the end of that job, whose value is the job's state.
JOB_END = "job:"
RESERVED_KEYS = ("semantica:", JOB_END)
LATER = ("workspace", "inputs")
_rare_fields = attrgetter(*LATER, "gather", "supersede")
USUAL = _rare_fields(JobSpec(job_type="-"))
GOES_WITH = {
    "scheduled_at": "AT",
    "delay_ms": "AFTER",
    **dict.fromkeys(("wait_for_idle", "require_charging", "wait_for_event", "conditions"), "CONDITION"),
}
Names = Callable[[str], bool]
UNHASHED: dict[str, Any] = {
    "idempotency_key": None,
    "idempotency_ttl_ms": 86_400_000,
    "idempotency_match": "spec",
    "durable": False,
    "force": False,
    "attach_id": None,
    "trace_id": None,
    "traceparent": None,
    "environment": None,
}


def check(spec: JobSpec) -> None:
    """Refuses fields that contradict each other, and fields that this version does not support."""
    if "\0" in spec.job_type:
        raise InvalidParams("a NUL character", "leave it out", path="$.job_type")
    if not _is_queue_name(spec.queue):
        raise InvalidParams("not the name of a queue", "use letters, digits, _ . and -", path="$.queue")
    if _rare_fields(spec) != USUAL:
        _check_supported(spec)
        _check_uniqueness(spec)
    if spec.schedule is not IMMEDIATE:
        _check_schedule(spec.schedule)
        _check_keys(spec.schedule)
    if spec.generation is not None or spec.force:
        _check_generation(spec)
    if spec.debounce_ms is not None or spec.max_wait_ms is not None:
        _check_debounce(spec)
    if spec.stop_when_lost and not (spec.schedule.wait_for_idle or spec.schedule.require_charging):
        problem = "the job needs neither an idle machine nor mains power"
        raise InvalidParams(problem, "let it wait for one of them", path="$.stop_when_lost")


def _check_supported(spec: JobSpec) -> None:
    for field in LATER:
        if getattr(spec, field) not in (None, False):
            hint = "leave it out; a later version brings it"
            raise NotSupported("not supported by this version", hint, path=f"$.{field}")


@lru_cache(1024)
def _is_queue_name(name: str) -> bool:
    return QUEUE.match(name) is not None


def _check_keys(schedule: Schedule) -> None:
    """A key may be `job:` and an id; all other keys that begin like those of the daemon are refused."""
    conditions = schedule.conditions or {}
    for key in (schedule.wait_for_event, *conditions):
        if key is not None and key.startswith(RESERVED_KEYS) and JOB_KEY.match(key) is None:
            path = "$.schedule.wait_for_event" if key == schedule.wait_for_event else "$.schedule.conditions"
            problem = "only the daemon emits events that begin with semantica: or job:"
            raise InvalidParams(problem, "choose another key, or wait for the end of a job by job:ID", path=path)
    for key, value in conditions.items():
        if key.startswith(JOB_END) and value not in TERMINAL:
            problem = f"a job does not end as {value}"
            raise InvalidParams(problem, f"give one of {', '.join(TERMINAL)}", path=f"$.schedule.conditions.{key}")


def _check_schedule(schedule: Schedule) -> None:
    """Each type requires its own field; fields of other types may be added, except to IMMEDIATE."""
    if schedule.type == "IMMEDIATE":
        for field in GOES_WITH:
            value = getattr(schedule, field)
            if value is not None and value is not False and value != {}:
                hint = f'{field} goes with type "{GOES_WITH[field]}"'
                raise InvalidParams(f"schedule type IMMEDIATE takes no {field}", hint, path=f"$.schedule.{field}")
    for kind, field in (("AT", "scheduled_at"), ("AFTER", "delay_ms")):
        if schedule.type == kind and getattr(schedule, field) is None:
            hint = f"give {field}, or another type"
            raise InvalidParams(f"schedule type {kind} needs {field}", hint, path=f"$.schedule.{field}")
    if schedule.type == "CONDITION" and not schedule.has_conditions:
        hint = "give wait_for_idle, require_charging, wait_for_event or conditions"
        raise InvalidParams("schedule type CONDITION has no condition", hint, path="$.schedule")


def _check_generation(spec: JobSpec) -> None:
    if spec.generation is None:
        hint = "give the generation that is to run again"
        raise InvalidParams("only a generation that is known can be run again", hint, path="$.force")
    if spec.subject_key is None:
        hint = "give the subject that the job is about"
        raise InvalidParams("a generation needs a subject", hint, path="$.generation")


def _check_uniqueness(spec: JobSpec) -> None:
    """keep and append concern the jobs of a lane, whose generations the daemon counts then."""
    mode, by_daemon = spec.supersede, spec.supersede in ("keep", "append")
    if by_daemon and spec.subject_key is None:
        raise InvalidParams(f"{mode} needs a subject", "give the subject that the job is about", path="$.supersede")
    if by_daemon and spec.generation is not None:
        hint = "leave the generation out; a job that has one supersedes those with lower ones"
        raise InvalidParams(f"{mode} takes no generation", hint, path="$.supersede")
    if mode == "append" and spec.on_running == "cancel":
        hint = "leave on_running out: the job waits until the running one has ended"
        raise InvalidParams("append interrupts no job", hint, path="$.supersede")
    if mode == "append" and spec.debounce_ms is not None:
        hint = "leave the debounce time out, or use keep; a delay holds back each job"
        raise InvalidParams("append takes no debounce time: nothing replaces the job", hint, path="$.supersede")
    if spec.gather:
        _check_gather(spec)


def _check_gather(spec: JobSpec) -> None:
    if spec.subject_key is None or spec.supersede in ("none", "append"):
        hint = "give a subject, and let the job replace older ones or be kept for newer ones"
        raise InvalidParams("there is nothing to gather", hint, path="$.gather")
    for field in ("gathered", "gathered_dropped"):
        if field in spec.payload:
            raise InvalidParams("the daemon sets this field", "leave it out", path=f"$.payload.{field}")


def _check_debounce(spec: JobSpec) -> None:
    if spec.debounce_ms is None:
        hint = "give the debounce time whose delay it limits"
        raise InvalidParams("a longest wait needs a debounce time", hint, path="$.max_wait_ms")
    if spec.subject_key is None or spec.supersede == "none":
        hint = "give a subject, and let newer jobs supersede older ones"
        raise InvalidParams("a debounce time needs a subject that newer jobs supersede", hint, path="$.debounce_ms")
    if spec.max_wait_ms is not None and spec.max_wait_ms < spec.debounce_ms:
        hint = "make it at least as long as the debounce time"
        raise InvalidParams("less than the debounce time", hint, path="$.max_wait_ms")


def redacted(env_vars: dict[str, str] | None, is_secret: Names = environment.is_secret) -> dict[str, str] | None:
    """The variables with secret values removed."""
    if env_vars is None:
        return None
    return {name: environment.REDACTED if is_secret(name) else env_vars[name] for name in env_vars}


def lost_secrets(stored: dict[str, str]) -> list[str]:
    """The names of the variables whose values were removed when they were stored."""
    return sorted(name for name, value in stored.items() if value == environment.REDACTED)


def kept_secrets(stored: dict[str, str], given: dict[str, str]) -> list[str]:
    """The names of secrets that new variables leave as they are: their value is what was shown of them."""
    return [name for name in lost_secrets(stored) if given.get(name) == environment.REDACTED]


def spec_hash(spec: JobSpec, is_secret: Names = environment.is_secret) -> str:
    """Hash of the spec, to detect reuse of a key for another job. Fields that may differ between tries are left out."""
    bare = msgspec.structs.replace(spec, **UNHASHED, env_vars=redacted(spec.env_vars, is_secret))
    return hashlib.sha256(msgspec.json.encode(bare, order="deterministic")).hexdigest()
