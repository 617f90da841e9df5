"""Writes the row of a new job, its gates and its first event. `transition` makes all later changes."""

from functools import lru_cache
from operator import attrgetter
from typing import Any

import msgspec

from semantica_daemon.model import state
from semantica_daemon.model.admission import NO_ORIGIN, AdmittedJob
from semantica_daemon.model.spec import RestOfSpec, stored
from semantica_daemon.model.start import AT_ONCE, Start
from semantica_daemon.store import chains, environments, gates
from semantica_daemon.store.external import ExternalSource, room_of
from semantica_daemon.store.ready import BLOCKED, EXTERNAL, claim_class
from semantica_daemon.store.transition import EVENT_OF
from semantica_daemon.store.tx import Tx, lane_room
from semantica_daemon.store.writes.decide import EnqueueDecision
from semantica_daemon.wire.job import JobSpec

# Fields of JobSpec that are columns of the same name, and those that go into the column `spec`.
COLUMNS = (
    "priority", "max_attempts", "backoff_factor", "deadline", "ttl_ms", "chain_group_id", "user_tag", "supersede",
    "concurrency_key", "slots",
)  # fmt: skip
REST = (
    "backoff_base_ms", "backoff", "backoff_max_ms", "retry_on", "timeout_ms", "grace_ms", "on_interrupt", "leftovers",
    "stop_when_lost", "max_interrupts", "debounce_ms", "max_wait_ms", "idempotency_key", "attach_id", "limits",
    "gather",
)  # fmt: skip
_columns, _rest = attrgetter(*COLUMNS), attrgetter(*REST)
USUAL_COLUMNS, USUAL_REST = _columns(JobSpec(job_type="-")), _rest(JobSpec(job_type="-"))


def insert(tx: Tx, job_id: str, job: AdmittedJob, decided: EnqueueDecision, begins: Start) -> None:
    spec, generation = job.spec, decided.plan.generation
    others = _others(tx, job, decided, begins)
    if spec.subject_key is not None or generation:
        others |= {"subject_key": spec.subject_key or "", "generation": generation}
    values = (tx.now, job_id, spec.queue, spec.job_type, job.mode, job.payload, tx.next_sequence, *others.values())
    number = tx.execute(_insert(begins.state, tuple(others)), values).lastrowid
    tx.counts.move(spec.queue, None, begins.state)
    _wake(tx, job_id, spec, begins.state, others)
    about: dict[str, Any] = {"queue": spec.queue, "job_type": spec.job_type}
    if spec.subject_key:
        about |= {"subject_key": spec.subject_key, "generation": generation}
    if len(others) > 1:
        about |= {name: others[name] for name in ("superseded_by", "scheduled_at", "retry_of") if name in others}
    stream = (number, job_id, 1, None, others.get("trace_id"), spec.queue, spec.user_tag)
    tx.emit_as(stream, EVENT_OF[begins.state], "", about, "info")
    if job.gates or job.parents:
        gates.add(tx, job_id, job.gates, begins.state == state.SCHEDULED)
        chains.link(tx, job_id, job)


@lru_cache(maxsize=256)
def _insert(begins_as: str, others: tuple[str, ...]) -> str:
    """Only values that differ from their column's default are bound, and the current instant once: binding takes a
    third of the statement's time."""
    constants = {"created_at": "?1", "updated_at": "?1", "state": f"'{begins_as}'", "event_count": "1"}
    if begins_as == state.QUEUED:
        constants["queued_at"] = "?1"
    if "subject_key" not in others:
        constants |= {"subject_key": "''", "generation": "0"}
    bound = ("id", "queue", "job_type", "execution_mode", "payload", "last_event", *others)
    values = ", ".join((*constants.values(), *("?" for _ in bound)))
    return f"INSERT INTO jobs ({', '.join((*constants, *bound))}) VALUES ({values})"


def _others(tx: Tx, job: AdmittedJob, decided: EnqueueDecision, begins: Start) -> dict[str, Any]:
    """The columns that differ from their default, by name."""
    spec = job.spec
    others = _in_queue(tx, spec, decided) if begins.state == state.QUEUED else {}
    if begins.state == state.SUPERSEDED:
        others = {"ended": state.SUPERSEDED, "finished_at": tx.now, "superseded_by": decided.winner}
    if (values := _columns(spec)) != USUAL_COLUMNS:
        rows = zip(COLUMNS, values, USUAL_COLUMNS, strict=True)
        others |= {name: value for name, value, usual in rows if value != usual}
        if spec.slots == 0 and begins.state == state.QUEUED and "blocked_by" not in others:
            others |= {"claim_class": EXTERNAL, "blocked_by": room_of(_external_source(spec))}
    if begins is not AT_ONCE or job.origin is not NO_ORIGIN or job.parents:
        others |= _waits(job, begins, tx.now)
    rest = _rest_of(job, decided)
    if rest is not None or job.env is not None or spec.trace_id is not None or spec.traceparent is not None:
        texts = {"spec": rest, "env_vars": job.env, "trace_id": spec.trace}
        others |= {name: text for name, text in texts.items() if text is not None}
    if job.environment is not None:
        others["environment_id"] = environments.keep(tx, job.environment)
    return others


def _in_queue(tx: Tx, spec: JobSpec, decided: EnqueueDecision) -> dict[str, Any]:
    if spec.concurrency_key is None and not tx.flows.lines:
        others: dict[str, Any] = {"position": tx.next_position()}
    else:
        others = {"position": tx.position_for(spec.queue, spec.priority, spec.concurrency_key)}
    if spec.slots > 1:
        others["claim_class"] = claim_class(False, False, spec.slots)
    if spec.ttl_ms is not None:
        others["expires_at"] = tx.now + spec.ttl_ms
    if decided.in_lane and decided.lane_busy(spec.job_type):
        others |= {"claim_class": BLOCKED, "blocked_by": lane_room(spec.subject_key or "", spec.job_type)}
    return others


def _waits(job: AdmittedJob, begins: Start, now: int) -> dict[str, Any]:
    schedule, is_held = job.spec.schedule, job.spec.hold and begins.state == state.SCHEDULED
    values = {
        "schedule_type": schedule.type, "scheduled_at": begins.at, "schedule_delay_ms": schedule.delay_ms,
        "wait_for_idle": int(schedule.wait_for_idle), "require_charging": int(schedule.require_charging),
        "wait_for_event": schedule.wait_for_event, "unmet": begins.unmet, "is_delay": int(begins.is_delay),
        "postponed_since": begins.postponed_since, "schedule_id": job.origin.schedule_id,
        "retry_of": job.origin.retry_of, "parent_job_id": job.parents[0] if job.parents else None,
        "held_at": now if is_held else None,
    }  # fmt: skip
    return {name: value for name, value in values.items() if value is not None and value != 0}


def _rest_of(job: AdmittedJob, decided: EnqueueDecision) -> str | None:
    values = _rest(job.spec)
    usual = values == USUAL_REST and decided.on_running == "finish" and job.origin.template_id is None
    if usual and job.spec.traceparent is None and not job.parents:
        return None
    rest = RestOfSpec(**dict(zip(REST, values, strict=True)))
    extra = {
        "on_running": decided.on_running, "template_id": job.origin.template_id, "spec_hash": job.spec_hash,
        "trace_flags": job.spec.trace_flags, "parent_count": len(job.parents),
    }  # fmt: skip
    return stored(msgspec.structs.replace(rest, **extra))


def _external_source(spec: JobSpec) -> ExternalSource:
    """A new job that needs the machine is never QUEUED at once."""
    return spec.queue, spec.job_type, spec.concurrency_key, spec.chain_group_id, 0


def _wake(tx: Tx, job_id: str, spec: JobSpec, current: str, others: dict[str, Any]) -> None:
    """Offers a QUEUED job to the claim; wakes the scheduler at the time of a SCHEDULED job without gates, and at a
    deadline or TTL."""
    if current == state.QUEUED:
        if len(others) == 1:  # the usual job has a position and nothing else
            tx.ready.offer((spec.queue, 0, None, None), (0, others["position"], tx.now, job_id))
            return
        get = others.get
        place = (-get("priority", 0), others["position"], tx.now, job_id)
        if get("claim_class") == EXTERNAL:
            tx.external.offer(_external_source(spec), place)
        else:
            tx.ready.offer((spec.queue, get("claim_class", 0), get("concurrency_key"), get("chain_group_id")), place)
    elif current == state.SCHEDULED and "unmet" not in others:
        tx.wake_at(others.get("scheduled_at", tx.now))
    if "expires_at" in others or "deadline" in others:
        tx.wake_at(others.get("expires_at"))
        tx.wake_at(others.get("deadline"))
