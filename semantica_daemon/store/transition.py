"""The transitions of waiting jobs: QUEUED and SCHEDULED, and the end of a job that is not running. `run_transition` has
those of running jobs; no other file writes jobs.state.

Each function is one named change of a job that was read in this transaction (`Tx.read`); it updates the counts and
emits one event. `ended` has the consequences of a job's end.
"""

from typing import Any

from semantica_daemon.model import event, state
from semantica_daemon.store import gates
from semantica_daemon.store.ended import ended
from semantica_daemon.store.external import room_of
from semantica_daemon.store.ready import BLOCKED, EXTERNAL, claim_class
from semantica_daemon.store.tx import ChangedJob, Tx

# Its scheduled time has passed once: the job does not wait for it again, whatever the clock is set to.
WAIT_AGAIN = """
UPDATE jobs
SET state = 'SCHEDULED', scheduled_at = NULL, is_delay = 0, expires_at = NULL, updated_at = ?,
    event_count = ?, last_event = ?, attempts = ?, claim_class = iif(claim_class = 5, 5, 0), blocked_by = NULL
WHERE number = ?
"""
ENTER_QUEUE = """
UPDATE jobs
SET state = 'QUEUED', queued_at = ?, position = ?, expires_at = ?, updated_at = ?, event_count = ?, last_event = ?,
    claim_class = ?, blocked_by = ?, attempts = ?, claim_attempts = claim_attempts + ?
WHERE number = ?
"""
POSITION = "SELECT position FROM jobs WHERE number = ?"
POSTPONE = """
UPDATE jobs
SET state = 'SCHEDULED', scheduled_at = ?, expires_at = NULL, updated_at = ?, event_count = ?, last_event = ?,
    claim_class = iif(claim_class = 5, 5, 0), blocked_by = NULL
WHERE number = ?
"""
# A job that is QUEUED has no time left to wait for; one that is SCHEDULED goes on waiting for its time.
HOLD = """
UPDATE jobs
SET state = 'SCHEDULED', held_at = ?1, unmet = unmet + 1, updated_at = ?1, event_count = ?2, last_event = ?3,
    scheduled_at = iif(state = 'QUEUED', NULL, scheduled_at), is_delay = iif(state = 'QUEUED', 0, is_delay),
    expires_at = NULL, claim_class = iif(claim_class = 5, 5, 0), blocked_by = NULL
WHERE number = ?4
"""
RELEASE = "UPDATE jobs SET held_at = NULL WHERE number = ?"
END_WAITING = """
UPDATE OR FAIL jobs
SET state = ?, ended = ?, finished_at = ?, updated_at = ?, superseded_by = coalesce(?, superseded_by), event_count = ?,
    last_event = ?, claim_class = 0, blocked_by = NULL
WHERE number = ?
"""
# The event of a job that comes into a state. RUNNING has none: the start of the run emits job.started.
EVENT_OF = {to: f"job.{to.lower()}" for to in state.STATES if to != state.RUNNING}
LEVEL_OF_END = {state.FAILED: "error", state.SKIPPED_TTL: "warn", state.SKIPPED_DEADLINE: "warn"}


def withdraw(tx: Tx, job: ChangedJob) -> bool:
    """QUEUED → SCHEDULED: idle or mains power ended before the job could start."""
    if job.state != state.QUEUED:
        return False
    wait_again(tx, job, job.attempts, "the machine is no longer idle or on mains power")
    return True


def wait_again(
    tx: Tx, job: ChangedJob, attempts: int, message: str, facts: dict[str, Any] | None = None, level: str = "info"
) -> None:
    """QUEUED or RUNNING → SCHEDULED, until the machine is idle or on mains power again."""
    last = tx.emit(job, event.SCHEDULED, message, facts, level)
    tx.execute(WAIT_AGAIN, (tx.now, job.event_count + 1, last, attempts, job.number))
    tx.changed(job, state.SCHEDULED, attempts)
    gates.leave_room(tx, job)
    tx.wake_at(tx.now)


def postpone(tx: Tx, job: ChangedJob, at: int) -> None:
    """QUEUED → SCHEDULED: the job was given a time, which is to come."""
    last = tx.emit(job, event.SCHEDULED, "", {"scheduled_at": at})
    tx.execute(POSTPONE, (at, tx.now, job.event_count + 1, last, job.number))
    tx.changed(job, state.SCHEDULED, job.attempts)
    gates.leave_room(tx, job)
    tx.wake_at(at)


def hold(tx: Tx, job: ChangedJob) -> None:
    """QUEUED or SCHEDULED → SCHEDULED, until the job is released."""
    last = tx.emit(job, event.HELD)
    gates.close_gate(tx, job, gates.HOLD)
    tx.execute(HOLD, (tx.now, job.event_count + 1, last, job.number))
    if job.state == state.QUEUED:
        tx.changed(job, state.SCHEDULED, job.attempts)
        gates.leave_room(tx, job)


def release(tx: Tx, job: ChangedJob) -> None:
    """Opens the gate of a held job: it becomes QUEUED, as the last of its priority, unless it waits for more."""
    last = tx.emit(job, event.RELEASED, "", {"still_waits_for": job.unmet - 1})
    tx.execute(RELEASE, (job.number,))
    gates.open_gate(tx, job, gates.HOLD, job.event_count + 1, last)


def promote(tx: Tx, job: ChangedJob) -> bool:
    """SCHEDULED → QUEUED: the job is due, and waits only for a slot and perhaps for the room of its lane."""
    if job.state != state.SCHEDULED or job.unmet:
        return False
    enter_queue(tx, job, tx.emit(job, event.QUEUED), gates.blocking_room(tx, job), job.attempts)
    return True


def enter_queue(
    tx: Tx, job: ChangedJob, last_event: int, blocked_by: str | None, attempts: int, failed_claims: int = 0
) -> None:
    """SCHEDULED or RUNNING → QUEUED, as the last of its priority and with its whole TTL."""
    position = _position(tx, job)
    expires_at = None if job.ttl_ms is None else tx.now + job.ttl_ms
    claims = BLOCKED if blocked_by else claim_class(job.wait_for_idle, job.require_charging, job.slots)
    place = (-job.priority, position, job.created_at, job.job_id)
    if job.is_external and blocked_by is None:
        claims, blocked_by = EXTERNAL, room_of(job.external_source)
        tx.external.offer(job.external_source, place)
    else:
        tx.ready.offer((job.queue, claims, job.concurrency_key, job.chain_group_id), place)
    values = (tx.now, position, expires_at, tx.now, job.event_count + 1, last_event, claims, blocked_by)
    tx.execute(ENTER_QUEUE, (*values, attempts, failed_claims, job.number))
    tx.changed(job, state.QUEUED)
    tx.wake_at(expires_at)


def _position(tx: Tx, job: ChangedJob) -> int:
    """Behind the other jobs of its priority. A job of a sequential group that has run keeps its place: those behind it
    wait until it has ended."""
    group = job.chain_group_id
    if group is not None and job.started_at is not None and tx.rooms.policy(group).is_sequential:
        position: int = tx.execute(POSITION, (job.number,)).fetchone()[0]
        return position
    return tx.position_for(job.queue, job.priority, job.concurrency_key)


def end_waiting(
    tx: Tx, job: ChangedJob, to: str, by: str | None = None, message: str = "", facts: dict[str, Any] | None = None
) -> bool:
    """QUEUED or SCHEDULED → SUPERSEDED (`by` that job), CANCELLED or SKIPPED_*. Returns False if the job's state does
    not allow it. `facts`: for the event."""
    if job.state == state.RUNNING or to not in state.TRANSITIONS[job.state]:
        return False
    facts = {"superseded_by": by} if by else facts
    last = tx.emit(job, EVENT_OF[to], message, facts, LEVEL_OF_END.get(to, "info"))
    tx.execute(END_WAITING, (to, to, tx.now, tx.now, by, job.event_count + 1, last, job.number))
    ended(tx, job, to)
    return True
