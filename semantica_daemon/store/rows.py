"""Converts rows of `jobs` and `job_events` to views. JobView is the one list of a job's fields."""

from typing import Any

import msgspec
from msgspec import Raw

from semantica_daemon.model.caller_environment import StoredEnvironment, view
from semantica_daemon.model.event import StoredEvent
from semantica_daemon.model.spec import RestOfSpec, rest_of
from semantica_daemon.model.state import DONE
from semantica_daemon.wire.event import Event
from semantica_daemon.wire.job_view import Condition, JobView, JobWithRuns, Retry
from semantica_daemon.wire.run import Error, Progress, RunView
from semantica_daemon.wire.types import NULL

SHORT = 4096
_TEXTS = ("env_vars", "payload", "result_summary")
# Fields of JobView that are no column: made from others here, stored in `spec`, or of a later version.
_MADE = ("job_id", "event_met_at", "worker_id", "parents", "truncated", "progress", "error", "workspace_path")
_PLAIN = tuple(
    name for name in JobView.__struct_fields__ if name not in (*_MADE, *_TEXTS, *RestOfSpec.__struct_fields__)
)
_EVENT_MET_AT = """CASE WHEN wait_for_event IS NOT NULL THEN (
    SELECT met_at FROM job_conditions WHERE job_id = jobs.id AND key = 'semantica:event:' || wait_for_event
  ) END AS event_met_at"""
_PARENTS = """CASE WHEN parent_job_id IS NOT NULL THEN (
    SELECT json_group_array(parent_id)
    FROM (SELECT parent_id FROM job_parents WHERE job_id = jobs.id ORDER BY ordinal LIMIT {})
  ) END AS parents"""
_WORKER_ID = """CASE WHEN execution_mode IS NULL THEN (
    SELECT worker_id FROM job_runs WHERE job_number = jobs.number AND number = jobs.run_count
  ) END AS worker_id"""
_SMALL = (_WORKER_ID, "progress", "error", "spec", "env_vars")
MOST_PARENTS, LISTED_PARENTS = 10_000, 100
_LONG = {name: f"coalesce(length(CAST({name} AS BLOB)), 0) > {SHORT}" for name in ("payload", "result_summary")}
_CUT = [f"CASE WHEN {long} THEN NULL ELSE {name} END AS {name}" for name, long in _LONG.items()]
_IS_CUT = f"{' OR '.join(_LONG.values())} AS truncated"

JOB_COLUMNS = ", ".join([*_PLAIN, _EVENT_MET_AT, _PARENTS.format(MOST_PARENTS), *_SMALL, "payload", "result_summary"])
LISTED_COLUMNS = ", ".join([*_PLAIN, _EVENT_MET_AT, _PARENTS.format(LISTED_PARENTS), *_SMALL, *_CUT, _IS_CUT])
_NAMES = (*_PLAIN, "event_met_at", "parents", "worker_id", "progress", "error", "spec", *_TEXTS)

_retries = msgspec.json.Decoder(list[Retry])
_parents = msgspec.json.Decoder(list[str])
_runs = msgspec.json.Decoder(list[RunView])
_conditions = msgspec.json.Decoder(list[Condition])
_environment = msgspec.json.Decoder(tuple[str, str, str | None, int])
_progress = msgspec.json.Decoder(Progress)
_error = msgspec.json.Decoder(Error)


def raw(text: str | None) -> Raw:
    return NULL if text is None else Raw(text)


def stored_event(row: Any) -> StoredEvent:
    sequence, job_sequence, job_id, at, event_type, level, message, payload, queue, user_tag = row
    event = Event(sequence, job_sequence, job_id, at, event_type, level, message, raw(payload))
    return StoredEvent(event, queue, user_tag, len(message) + len(payload))


def job_with_runs(row: Any) -> JobWithRuns:
    *fields, environment, conditions, runs, retries = row
    return JobWithRuns(
        environment=None if environment is None else view(StoredEnvironment(*_environment.decode(environment))),
        conditions=_conditions.decode(conditions), runs=_runs.decode(runs), retries=_retries.decode(retries),
        **_fields(fields),
    )  # fmt: skip


def listed(row: Any) -> JobView:
    return JobView(**_fields(row[:-1]), truncated=bool(row[-1]))


def job_view(row: Any) -> JobView:
    return JobView(**_fields(row))


def error(text: str | None) -> Error | None:
    return None if text is None else _error.decode(text)


def _fields(row: Any) -> dict[str, Any]:
    fields: dict[str, Any] = dict(zip(_NAMES, row, strict=True))
    lane, numbered = bool(fields["subject_key"]), fields["supersede"] != "none"
    fields |= msgspec.structs.asdict(rest_of(fields.pop("spec")))
    fields |= {name: bool(fields[name]) for name in ("wait_for_idle", "require_charging", "stale")}
    fields |= {name: raw(fields[name]) for name in _TEXTS}
    fields["expires_at"] = fields["expires_at"] if fields["state"] == "QUEUED" else None
    fields["held_at"] = fields["held_at"] if fields["state"] == "SCHEDULED" else None
    if fields["archived_at"] is not None:
        fields |= {"log_path": None, "artifact_path": None}
    return fields | {
        "job_id": fields["id"],
        "subject_key": fields["subject_key"] if lane else None,
        "generation": fields["generation"] if lane and (numbered or fields["generation"]) else None,
        "parents": _parents.decode(fields["parents"]) if fields["parents"] else [],
        "superseded_by": fields["superseded_by"] or None,
        "execution_mode": fields["execution_mode"] or "EXTERNAL",
        "progress": _progress_of(fields["state"], fields["progress"]),
        "error": error(fields["error"]),
    }


def _progress_of(state: str, text: str | None) -> Progress | None:
    """The newest report of the run; a job that is DONE is at 100 %, whatever it has reported last."""
    if text is None:
        return None
    progress = _progress.decode(text)
    return msgspec.structs.replace(progress, percent=100.0) if state == DONE else progress
