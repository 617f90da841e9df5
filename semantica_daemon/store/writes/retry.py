"""job.retry: a job that has ended is enqueued once more, as a new job with the settings of the old one.

Further attempts of the same job are in `run_transition`; `job.enqueue` with `force` is in `enqueue`.
"""

from typing import Any

import msgspec

from semantica_daemon.errors import NotEnded, ParentEnded, SecretLost
from semantica_daemon.model import state
from semantica_daemon.model.admission import AdmittedJob, Origin
from semantica_daemon.model.gather import split
from semantica_daemon.model.job import lost_secrets
from semantica_daemon.model.spec import rest_of
from semantica_daemon.store import chains, environments, find, gates
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes import new_job
from semantica_daemon.store.writes.decide import decide_retry
from semantica_daemon.store.writes.enqueue import carry_out
from semantica_daemon.wire.job import IMMEDIATE, Ack, JobSpec, RetryParams, Schedule

# Columns that are fields of JobSpec by the same name; those of `new_job.COLUMNS` are too.
SAME = ("queue", "job_type", "execution_mode", "trace_id")
NEEDS = ("wait_for_idle", "require_charging")
OTHERS = (
    "id", "subject_key", "generation", "schedule_id", *NEEDS, "env_vars", "environment_id", "run_count", "payload",
    "spec",
)  # fmt: skip
COLUMNS = (*SAME, *new_job.COLUMNS, *OTHERS)
ENDED_JOB = f"SELECT {', '.join(COLUMNS)} FROM jobs WHERE number = :number"
# Fields that delayed the start of the old job, or that identify the request which added it.
NOT_REPEATED = ("debounce_ms", "max_wait_ms", "idempotency_key")


def retry(tx: Tx, params: RetryParams) -> Ack:
    number, job_id, current = find.job(tx, params.job_id)
    if current not in state.TERMINAL:
        raise NotEnded(f"job {job_id} is {current}", "wait for its end, or cancel it", job_id=job_id)
    job = dict(zip(COLUMNS, tx.execute(ENDED_JOB, {"number": number}).fetchone(), strict=True))
    spec, warnings = _spec(tx, job, params.payload)
    admitted = tx.admit(spec)
    if spec.gather and params.payload is None:
        admitted = msgspec.structs.replace(admitted, payload=job["payload"])  # with what it has gathered
    admitted, left_out = _with_environment(tx, admitted, job["environment_id"])
    schedule_id = job["schedule_id"]
    taken = schedule_id is not None and gates.turn_is_taken(tx, schedule_id)
    origin = Origin(rest_of(job["spec"]).template_id, schedule_id, taken, job_id)
    repeated = msgspec.structs.replace(admitted, origin=origin, warnings=admitted.warnings + warnings + left_out)
    decided = decide_retry(tx, repeated, job["generation"], params.force)
    ack = carry_out(tx, repeated, decided)
    if taken:
        gates.open_next_turn(tx, schedule_id)  # the retry may have superseded the job that it waits for
    return ack


def _spec(tx: Tx, job: dict[str, Any], payload: dict[str, Any] | None) -> tuple[JobSpec, tuple[str, ...]]:
    """The spec of the stored job, and warnings about what is left out."""
    fields = {name: job[name] for name in (*SAME, *new_job.COLUMNS)}
    fields["execution_mode"] = job["execution_mode"] or "EXTERNAL"
    rest = msgspec.structs.asdict(rest_of(job["spec"]))
    fields |= {name: rest[name] for name in (*new_job.REST, "on_running") if name not in NOT_REPEATED}
    fields |= {"payload": msgspec.json.decode(_own_payload(job, rest)) if payload is None else payload}
    fields |= {
        "parents": _parents(tx, job) if rest["parent_count"] else None,
        "subject_key": job["subject_key"] or None,
        "env_vars": _variables(job["env_vars"]),
    }
    needs: dict[str, Any] = {name: True for name in NEEDS if job[name]}
    fields["schedule"] = Schedule(type="CONDITION", **needs) if needs else IMMEDIATE
    if job["deadline"] is not None and job["deadline"] <= tx.now:
        return JobSpec(**fields | {"deadline": None}), ("the deadline has passed: the retry has none",)
    return JobSpec(**fields), ()


def _parents(tx: Tx, job: dict[str, Any]) -> list[str]:
    """Those that are still stored. The parents of a job that has run were all DONE, so it does not need the others."""
    found = [row[0] for row in tx.execute(chains.PARENTS, {"job_id": job["id"]}).fetchall()]
    if len(found) < rest_of(job["spec"]).parent_count and not job["run_count"]:
        problem = f"a job that job {job['id']} needs is no longer stored, and how it ended is not known"
        raise ParentEnded(problem, "enqueue the job again, without that parent", job_id=job["id"])
    return found


def _own_payload(job: dict[str, Any], rest: dict[str, Any]) -> str:
    stored: str = job["payload"]
    return split(stored).own if rest["gather"] else stored


def _with_environment(tx: Tx, job: AdmittedJob, environment_id: int | None) -> tuple[AdmittedJob, tuple[str, ...]]:
    """The job with the environment that the caller of the old one handed over, and warnings about what is left out."""
    if environment_id is None:
        return job, ()
    kept = environments.read(tx, environment_id)
    names = ", ".join(kept.secret_names)
    warnings = (f"left out, because secrets are not kept after the end of a job: {names}",) if names else ()
    environment = msgspec.structs.replace(kept, left_out=int(bool(names)))
    return msgspec.structs.replace(job, environment=environment), warnings


def _variables(text: str | None) -> dict[str, str] | None:
    if text is None:
        return None
    found: dict[str, str] = msgspec.json.decode(text)
    if lost := lost_secrets(found):
        problem = f"the job was given a secret, which is not kept after its end: {', '.join(lost)}"
        raise SecretLost(problem, "enqueue the job again and give it the secret", names=lost)
    return found
