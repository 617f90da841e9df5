"""The gates that hold a job back, as rows and counters, so that a claim never reads a job it cannot start.

Latched gates open once: an event, a condition, the job's turn in a schedule, the release of a held job. Each is a row
of job_conditions, counted in jobs.unmet; the transaction that opens the last one makes the job QUEUED.
Room gates open and close. A room is a lane, which has space for one job.
A job that becomes QUEUED takes its room until it ends or becomes SCHEDULED again; an append job that has started keeps
it until it ends, so that none of its lane overtakes it between two attempts. A job whose room is taken gets the name of
the room in blocked_by; the job that releases the room unblocks the next one.
"""

from collections.abc import Iterable

from semantica_daemon.model import event, state
from semantica_daemon.model.admission import Gate
from semantica_daemon.store.external import room_of
from semantica_daemon.store.ready import claim_class
from semantica_daemon.store.tx import ChangedJob, Job, Tx

ANY_VALUE_OF = "semantica:event:"
TURN_OF = "semantica:turn:"
HOLD = "semantica:hold"

ADD = "INSERT INTO job_conditions (job_id, key, value, waiting, met_at) VALUES (?, ?, ?, ?, ?)"
# A job that was held and released before has the row already.
CLOSE = """
INSERT INTO job_conditions (job_id, key, value)
VALUES (?, ?, '')
ON CONFLICT (job_id, key) DO UPDATE
SET waiting = 1, met_at = NULL
"""
NEWEST = "SELECT coalesce(max(rowid), 0) FROM job_conditions"
WAITING = """
SELECT jobs.number
FROM job_conditions INDEXED BY idx_job_conditions_arrival
JOIN jobs ON jobs.id = job_id
WHERE waiting = 1 AND key = ? AND value = ? AND job_conditions.rowid <= ?
ORDER BY job_conditions.rowid
LIMIT ?
"""
OPEN = "UPDATE job_conditions SET met_at = ?, waiting = 0 WHERE job_id = ? AND key = ?"
OPENED = "UPDATE jobs SET unmet = ?, updated_at = ?, event_count = ?, last_event = ? WHERE number = ?"
STOP_WAITING = "UPDATE job_conditions SET waiting = 0 WHERE job_id = ? AND waiting = 1"

LIVE_OF_SCHEDULE = """
SELECT count(*)
FROM jobs INDEXED BY idx_jobs_schedule_live
WHERE finished_at IS NULL AND schedule_id IS NOT NULL AND schedule_id = ?
"""
WAITING_FOR_TURN = """
SELECT count(*), min(jobs.number)
FROM job_conditions INDEXED BY idx_job_conditions_lookup
JOIN jobs ON jobs.id = job_id
WHERE waiting = 1 AND key = ? AND value = ''
"""

LANE_IS_TAKEN = """
SELECT 1
FROM jobs INDEXED BY idx_jobs_subject_live
WHERE finished_at IS NULL AND subject_key <> '' AND subject_key = ? AND job_type = ?
  AND supersede IN ('append', 'keep', 'lane', 'subject') AND number <> ?
  AND (state <> 'SCHEDULED' OR (supersede = 'append' AND started_at IS NOT NULL))
LIMIT 1
"""
NEXT_BLOCKED = """
SELECT number, queue, job_type, concurrency_key, chain_group_id, priority, position, created_at, id, wait_for_idle,
  require_charging, slots
FROM jobs INDEXED BY idx_jobs_blocked
WHERE blocked_by IS NOT NULL AND blocked_by = ?
ORDER BY priority DESC, position ASC, created_at ASC, id
LIMIT 1
"""
UNBLOCK = "UPDATE jobs SET blocked_by = NULL, claim_class = ? WHERE number = ?"
UNBLOCK_EXTERNAL = "UPDATE jobs SET blocked_by = ?, claim_class = 5 WHERE number = ?"


# Latched gates


def add(tx: Tx, job_id: str, gates: Iterable[Gate], waiting: bool) -> None:
    """`waiting`: the job waits for them. Open ones are stored as met."""
    rows = [
        (job_id, gate.key, gate.value, int(waiting and not gate.is_open), tx.now if gate.is_open else None)
        for gate in gates
    ]
    tx.connection.executemany(ADD, rows)


def newest_gate(tx: Tx) -> int:
    """The rowid of the newest gate. An event that comes now opens no gate that is made later."""
    found: int = tx.execute(NEWEST).fetchone()[0]
    return found


def open_for(
    tx: Tx, gates: list[tuple[str, str]], upto: int, most: int, about: dict[str, str | None]
) -> tuple[list[str], bool]:
    """Opens at most `most` of these gates, in the order in which their jobs arrived, and emits `about` for each of
    them. Returns the ids of the jobs, and whether there may be more."""
    matched = []
    found = [(n, key) for key, value in gates for (n,) in tx.execute(WAITING, (key, value, upto, most)).fetchall()]
    for number, key in sorted(found)[:most]:
        job = tx.read(number)
        facts = {**about, "still_waits_for": job.unmet - 1}
        last = tx.emit(job, event.LOG, f"event {about['key']} has come", facts)
        open_gate(tx, job, key, job.event_count + 1, last)
        matched.append(job.job_id)
    return list(dict.fromkeys(matched)), len(found) >= most


def stop_waiting(tx: Tx, job: Job) -> None:
    """Marks the gates of a job that has ended, so that nothing opens them any more."""
    tx.execute(STOP_WAITING, (job.job_id,))


def turn_is_taken(tx: Tx, schedule_id: str) -> bool:
    """Whether an earlier job of the schedule is still live."""
    return bool(tx.execute(LIVE_OF_SCHEDULE, (schedule_id,)).fetchone()[0])


def open_next_turn(tx: Tx, schedule_id: str) -> None:
    """Opens the gate of the oldest job that waits for its turn, if every live job of the schedule does."""
    key = TURN_OF + schedule_id
    waiting, oldest = tx.execute(WAITING_FOR_TURN, (key,)).fetchone()
    if waiting and tx.execute(LIVE_OF_SCHEDULE, (schedule_id,)).fetchone()[0] == waiting:
        job = tx.read(oldest)
        open_gate(tx, job, key, job.event_count, job.last_event)


def close_gate(tx: Tx, job: ChangedJob, key: str) -> None:
    """The caller counts it in jobs.unmet."""
    tx.execute(CLOSE, (job.job_id, key))


def open_gate(tx: Tx, job: ChangedJob, key: str, event_count: int, last_event: int | None) -> None:
    tx.execute(OPEN, (tx.now, job.job_id, key))
    tx.execute(OPENED, (job.unmet - 1, tx.now, event_count, last_event, job.number))
    if job.unmet == 1:
        tx.opened.append(job.number)


# Room gates


def blocking_room(tx: Tx, job: Job) -> str | None:
    """The room that a job about to become QUEUED must wait for; None if it is free."""
    if job.lane is None or job.keeps_room:
        return None
    return job.lane if lane_is_taken(tx, job.subject_key, job.job_type, job.number) else None


def lane_is_taken(tx: Tx, subject_key: str, job_type: str, but_by: int = 0) -> bool:
    """Whether a job has the room of the lane; `but_by` is the number of a job that does not count. Where a job waits
    for the room, another one has it: so the first row answers, however many wait."""
    return tx.execute(LANE_IS_TAKEN, (subject_key, job_type, but_by)).fetchone() is not None


def leave_room(tx: Tx, job: Job) -> None:
    """Releases the room of a job that becomes SCHEDULED, unless it keeps the room until it ends."""
    if not job.keeps_room:
        release_room(tx, job)


def release_room(tx: Tx, job: Job) -> None:
    """Frees the room that the job had taken in its former state, and unblocks the next job of that lane."""
    if job.lane is None or (job.state == state.SCHEDULED and not job.keeps_room) or job.waits_for_room:
        return
    row = tx.execute(NEXT_BLOCKED, (job.lane,)).fetchone()
    if row is not None:
        number, queue, job_type, key, group, priority, position, created_at, job_id, idle, charging, slots = row
        claims, place = claim_class(idle, charging, slots), (-priority, position, created_at, job_id)
        if slots == 0:
            source = (queue, job_type, key, group, claims)
            tx.execute(UNBLOCK_EXTERNAL, (room_of(source), number))
            tx.external.offer(source, place)
        else:
            tx.execute(UNBLOCK, (claims, number))
            tx.ready.offer((queue, claims, key, group), place)
