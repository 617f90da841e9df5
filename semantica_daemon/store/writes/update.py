"""job.update: changes a waiting job. The payload and the variables are checked as at enqueue; a run keeps what it was
started with, so they can be changed only before the first one."""

from typing import Any

import msgspec
from msgspec import UNSET, Struct
from msgspec.structs import replace

from semantica_daemon.errors import HasRun, InvalidParams, NotWaiting, PayloadRefused
from semantica_daemon.model import event, state
from semantica_daemon.model.caller_environment import StoredEnvironment, variables_of
from semantica_daemon.model.gather import GATHERED, Gathering, joined, split
from semantica_daemon.model.job import kept_secrets, lost_secrets
from semantica_daemon.model.spec import rest_of
from semantica_daemon.store import environments, find, transition
from semantica_daemon.store.tx import ChangedJob, Tx
from semantica_daemon.wire.editing import UpdateParams
from semantica_daemon.wire.job import JobSpec

FIELDS = ("priority", "user_tag", "scheduled_at", "payload", "env_vars")
READ = """
SELECT execution_mode, payload, env_vars, environment_id, run_count, schedule_type, spec
FROM jobs
WHERE number = ?
"""
WITH_TIME = {"IMMEDIATE": "AT", "AFTER": "AT"}  # the type of a schedule that is given another time


class StoredJob(Struct, frozen=True, gc=False):
    execution_mode: str | None
    payload: str
    env_vars: str | None
    environment_id: int | None
    run_count: int
    schedule_type: str
    spec: str | None

    @property
    def gathering(self) -> Gathering:
        return split(self.payload, rest_of(self.spec).gather)


def update(tx: Tx, params: UpdateParams) -> str:
    """Returns the whole id of the job."""
    given = [name for name in FIELDS if getattr(params, name) not in (None, UNSET) or _removes_tag(params, name)]
    if not given:
        raise InvalidParams("nothing to change is given", f"give one of {', '.join(FIELDS)}", path="$")
    number, job_id, current = find.job(tx, params.job_id)
    if current not in (state.QUEUED, state.SCHEDULED):
        hint = "it has started" if current == state.RUNNING else "it has ended; job.retry adds it again"
        raise NotWaiting(f"job {job_id} is {current}, only waiting jobs can be changed", hint, job_id=job_id)
    job = tx.read(number)
    stored = StoredJob(*tx.execute(READ, (number,)).fetchone())
    columns = {**_command(tx, job, stored, params), **_labels(job, params), **_time(tx, job, stored, params)}
    if columns:
        _store(tx, job, columns)
    if params.scheduled_at is not None:
        _reschedule(tx, tx.read(number), params.scheduled_at)
    return job_id


def _removes_tag(params: UpdateParams, name: str) -> bool:
    return name == "user_tag" and params.user_tag is None


def _labels(job: ChangedJob, params: UpdateParams) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    if params.priority not in (None, job.priority):
        columns["priority"] = params.priority
    if params.user_tag is not UNSET and params.user_tag != job.user_tag:
        columns["user_tag"] = params.user_tag
    return columns


def _time(tx: Tx, job: ChangedJob, stored: StoredJob, params: UpdateParams) -> dict[str, Any]:
    """A QUEUED job that is due now stays where it is."""
    at = params.scheduled_at
    if at is None or (job.state == state.QUEUED and at <= tx.now):
        return {}
    return {
        "scheduled_at": at, "is_delay": 0, "schedule_type": WITH_TIME.get(stored.schedule_type, stored.schedule_type)
    }  # fmt: skip


def _command(tx: Tx, job: ChangedJob, stored: StoredJob, params: UpdateParams) -> dict[str, Any]:
    """The columns of a new payload and of new variables."""
    if params.payload is None and params.env_vars is None:
        return {}
    if stored.run_count:
        problem = f"job {job.job_id} has run, so it keeps its payload and its variables"
        raise HasRun(problem, "job.retry adds a job with another payload", job_id=job.job_id)
    if params.env_vars is not None and stored.execution_mode == "IN_PROCESS":
        hint = "leave them out: a handler has the daemon's own environment"
        raise PayloadRefused("a handler gets no environment variables", hint, path="$.env_vars")
    if params.payload is not None and GATHERED in params.payload and rest_of(stored.spec).gather:
        raise InvalidParams("the daemon sets this field", "leave it out", path=f"$.payload.{GATHERED}")
    old: dict[str, str] = msgspec.json.decode(stored.env_vars or "{}")
    came_along = None if stored.environment_id is None else environments.read(tx, stored.environment_id)
    admitted = tx.admit(_spec(job, stored, params, old, came_along))
    columns: dict[str, Any] = {} if params.payload is None else {"payload": _with_gathered(stored, admitted.payload)}
    if params.env_vars is not None:
        columns["env_vars"] = admitted.env
        _keep_secrets(tx, job, params.env_vars, admitted.secrets or {}, old, came_along)
    return columns


def _spec(
    job: ChangedJob, stored: StoredJob, params: UpdateParams, old: dict[str, str], came_along: StoredEnvironment | None
) -> JobSpec:
    """What has to be checked of the job as it will be."""
    fields: dict[str, Any] = {
        "job_type": job.job_type,
        "execution_mode": stored.execution_mode or "EXTERNAL",
        "payload": msgspec.json.decode(stored.gathering.own) if params.payload is None else params.payload,
        "env_vars": old if params.env_vars is None else params.env_vars,
        "environment": None if came_along is None else variables_of(came_along.variables),
    }
    return JobSpec(**fields)


def _with_gathered(stored: StoredJob, payload: str) -> str:
    """The new payload, with what the job has gathered."""
    gathering = stored.gathering
    return joined(replace(gathering, own=payload)) if gathering.payloads else payload


def _keep_secrets(
    tx: Tx, job: ChangedJob, new: dict[str, str], secrets: dict[str, str], old: dict[str, str],
    came_along: StoredEnvironment | None,
) -> None:  # fmt: skip
    """Replaces the secrets in memory. The value that is shown instead of a secret keeps that secret."""
    kept = kept_secrets(old, new)
    needed = [*kept, *(came_along.secret_names if came_along is not None else ())]
    added = {name: value for name, value in secrets.items() if name not in kept}
    tx.secrets.append((job.job_id, added, tuple(name for name in lost_secrets(old) if name not in needed)))


def _store(tx: Tx, job: ChangedJob, columns: dict[str, Any]) -> None:
    """A QUEUED job with another priority goes to the back of it."""
    facts = {name: value for name, value in columns.items() if name in ("priority", "user_tag", "scheduled_at")}
    facts["changed"] = [name for name in FIELDS if name in columns]
    job = replace(job, **{name: columns[name] for name in ("priority", "user_tag") if name in columns})
    if "priority" in columns and job.state == state.QUEUED:
        columns["position"] = tx.position_for(job.queue, job.priority, job.concurrency_key)
        tx.moved(job, job.priority, columns["position"])
    last = tx.emit(job, event.UPDATED, "", facts)
    columns |= {"updated_at": tx.now, "event_count": job.event_count + 1, "last_event": last}
    names = ", ".join(f"{name} = ?" for name in columns)
    tx.execute(f"UPDATE jobs SET {names} WHERE number = ?", (*columns.values(), job.number))


def _reschedule(tx: Tx, job: ChangedJob, at: int) -> None:
    if job.state == state.QUEUED and at > tx.now:
        transition.postpone(tx, job, at)
    elif job.state == state.SCHEDULED and not job.unmet:
        tx.opened.append(job.number)  # it becomes QUEUED if it is due
