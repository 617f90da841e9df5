"""A job is first written: with it the store knows all that was asked for. Its later changes are `transition`'s."""

from typing import Any

import msgspec
from msgspec import Struct

from semantica_daemon.model import event, state
from semantica_daemon.store.tx import Touched, Tx


class NewJob(Struct, frozen=True, kw_only=True, gc=False):
    """A row of jobs as it is first written: its fields are the columns."""

    id: str
    trace_id: str | None
    queue: str
    job_type: str
    subject_key: str
    generation: int
    priority: int
    state: str
    created_at: int
    updated_at: int
    finished_at: int | None
    execution_mode: str | None
    max_attempts: int
    backoff_factor: float
    backoff_base_ms: int
    deadline: int | None
    ttl_ms: int | None
    timeout_ms: int | None
    grace_ms: int | None
    on_interrupt: str
    schedule_type: str
    scheduled_at: int | None
    schedule_delay_ms: int | None
    chain_group_id: str | None
    user_tag: str | None
    payload: str
    supersede: str
    on_running: str
    max_interrupts: int
    superseded_by: str | None
    position: int
    queued_at: int | None
    expires_at: int | None
    idempotency_key: str | None
    spec_hash: str | None
    env_vars: str | None
    leftovers: str
    wait_for_idle: bool = False
    require_charging: bool = False
    wait_for_event: str | None = None
    unmet: int = 0
    stop_when_lost: bool = False
    is_delay: bool = False
    debounce_ms: int | None = None
    max_wait_ms: int | None = None
    postponed_since: int | None = None
    template_id: str | None = None
    schedule_id: str | None = None
    awaits_turn: bool = False
    event_count: int = 1


# Positional, because it is the hottest statement and its columns are the struct's fields anyway.
INSERT = f"""
INSERT INTO jobs ({", ".join(NewJob.__struct_fields__)})
VALUES ({", ".join("?" * len(NewJob.__struct_fields__))})
"""
INSERT_CONDITION = """
INSERT INTO job_conditions (job_id, key, value, waiting)
VALUES (:job_id, :key, :value, :waiting)
"""
EVENT_OF_NEW = {
    state.QUEUED: event.QUEUED,
    state.SCHEDULED: event.SCHEDULED,
    state.SUPERSEDED: event.SUPERSEDED,
}


def insert(tx: Tx, job: NewJob) -> None:
    tx.execute(INSERT, msgspec.structs.astuple(job))
    tx.moved(job.queue, None, job.state)
    tx.wake_at(_looked_at(tx, job))
    tx.wake_at(job.deadline)
    about: dict[str, Any] = {"queue": job.queue, "job_type": job.job_type}
    if job.subject_key:
        about |= {"subject_key": job.subject_key, "generation": job.generation}
    if job.superseded_by:
        about["superseded_by"] = job.superseded_by
    if job.scheduled_at is not None:
        about["scheduled_at"] = job.scheduled_at
    touched = Touched(job.id, job.queue, job.user_tag, job.trace_id, 1)
    tx.emit(touched, EVENT_OF_NEW[job.state], "", about)


def insert_conditions(tx: Tx, job_id: str, conditions: dict[str, str], waiting: bool) -> None:
    rows = [{"job_id": job_id, "key": key, "value": value, "waiting": waiting} for key, value in conditions.items()]
    tx.connection.executemany(INSERT_CONDITION, rows)


def _looked_at(tx: Tx, job: NewJob) -> int | None:
    """When the scheduler has to look at it; not before all that must happen once has happened."""
    if job.state != state.SCHEDULED:
        return job.expires_at
    return None if job.unmet else job.scheduled_at or tx.now
