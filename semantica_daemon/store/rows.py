"""From rows of `jobs` to what a caller is shown; the columns are named here once."""

from typing import Any

import msgspec
from msgspec import Raw

from semantica_daemon.model.event import Recorded
from semantica_daemon.wire.admin import QueueStats
from semantica_daemon.wire.event import Event
from semantica_daemon.wire.job_view import Condition, JobView, JobWithRuns
from semantica_daemon.wire.run import Error, Progress, RunView
from semantica_daemon.wire.types import NULL

SHORT = 4096
_SAME = (
    "id", "trace_id", "queue", "job_type", "priority", "state", "created_at", "started_at", "finished_at",
    "queued_at", "updated_at", "pid", "attempts", "max_attempts", "run_count", "claim_attempts", "backoff_factor",
    "backoff_base_ms", "deadline", "ttl_ms", "expires_at", "timeout_ms", "grace_ms", "on_interrupt", "leftovers",
    "schedule_type", "scheduled_at", "schedule_delay_ms", "wait_for_event", "parent_job_id", "chain_group_id",
    "user_tag", "log_path", "artifact_path", "run_id", "position", "supersede", "on_running", "max_interrupts",
    "superseded_by", "cancel_requested_at", "exit_code", "idempotency_key", "spec_hash", "retry_of",
    "event_met_at", "debounce_ms", "max_wait_ms", "template_id", "schedule_id",
)  # fmt: skip
_SHAPED = (
    "subject_key", "generation", "execution_mode", "wait_for_idle", "require_charging", "stale", "stop_when_lost",
    "progress_percent", "progress_phase", "progress_items_completed", "progress_items_total", "progress_message",
    "error_code", "error_class", "error_message", "error_details",
)  # fmt: skip
_TEXTS = ("env_vars", "payload", "result_summary")
COLUMNS = _SAME + _SHAPED + _TEXTS

JOB_COLUMNS = ", ".join(COLUMNS)
_LONG = {name: f"coalesce(length(CAST({name} AS BLOB)), 0) > {SHORT}" for name in ("payload", "result_summary")}
_CUT = [f"CASE WHEN {long} THEN NULL ELSE {name} END AS {name}" for name, long in _LONG.items()]
_IS_CUT = f"{' OR '.join(_LONG.values())} AS truncated"
LISTED_COLUMNS = ", ".join([*_SAME, *_SHAPED, "env_vars", *_CUT, _IS_CUT])

_runs = msgspec.json.Decoder(list[RunView])
_conditions = msgspec.json.Decoder(list[Condition])


def raw(text: str | None) -> Raw:
    return NULL if text is None else Raw(text)


def recorded(row: Any) -> Recorded:
    sequence, job_sequence, job_id, at, event_type, level, message, payload, queue, user_tag = row
    event = Event(sequence, job_sequence, job_id, at, event_type, level, message, raw(payload))
    return Recorded(event, queue, user_tag, len(message) + len(payload))


def queue_stats(row: Any) -> QueueStats:
    return QueueStats(**dict(zip(QueueStats.__struct_fields__, row, strict=True)))


def job_with_runs(row: Any) -> JobWithRuns:
    runs, conditions = _runs.decode(row[-1]), _conditions.decode(row[-2])
    return JobWithRuns(runs=runs, conditions=conditions, **_fields(row[:-2]))


def listed(row: Any) -> JobView:
    return JobView(**_fields(row[:-1]), truncated=bool(row[-1]))


def _fields(row: Any) -> dict[str, Any]:
    """The view's fields: those with the column's own name, and those that are shaped from several."""
    column = dict(zip(COLUMNS, row, strict=True))
    fields = {name: column[name] for name in _SAME}
    lane, numbered = bool(column["subject_key"]), column["supersede"] != "none"
    return fields | {
        "job_id": column["id"],
        "subject_key": column["subject_key"] if lane else None,
        "generation": column["generation"] if lane and (numbered or column["generation"]) else None,
        "superseded_by": column["superseded_by"] or None,
        "execution_mode": column["execution_mode"] or "EXTERNAL",
        "wait_for_idle": bool(column["wait_for_idle"]),
        "require_charging": bool(column["require_charging"]),
        "stale": bool(column["stale"]),
        "stop_when_lost": bool(column["stop_when_lost"]),
        "progress": _progress(column),
        "error": error(*(column[f"error_{name}"] for name in ("code", "class", "message", "details"))),
        **{name: raw(column[name]) for name in _TEXTS},
    }


def _progress(column: dict[str, Any]) -> Progress | None:
    said = [column[f"progress_{name}"] for name in Progress.__struct_fields__]
    return None if all(value is None for value in said) else Progress(*said)


def error(code: str | None, class_: Any, message: str, details: str | None) -> Error | None:
    if code is None:
        return None
    return Error(code, class_, message, msgspec.json.decode(details) if details else None)
