"""The query of job.explain: a job with its queue, lane and schedule, in one snapshot."""

from collections.abc import Collection
from typing import Any

from aiosqlite import Connection
from msgspec.json import encode

from semantica_daemon.model import state
from semantica_daemon.model.queue import Limits, QueueRules, stored_rules
from semantica_daemon.model.reason import MOST_AWAITED, AwaitedJob, JobSituation, UnderWay
from semantica_daemon.store import reads
from semantica_daemon.store.counts import EVERY_QUEUE
from semantica_daemon.store.ready import BLOCKED
from semantica_daemon.store.standing_rooms import full_rooms
from semantica_daemon.store.working import ALIVE_LEASES
from semantica_daemon.wire.job_view import Condition

COLUMNS = (
    "state", "queue", "started_at", "finished_at", "scheduled_at", "attempts", "max_attempts",
    "claim_attempts", "wait_for_idle", "require_charging", "wait_for_event", "event_met_at", "debounce_ms",
    "cancel_requested_at", "stale", "superseded_by", "error_code", "error_message", "is_starting", "needed_slots",
    "failed_member", "held_at", "archived_at", "is_external", "job_type",
)  # fmt: skip
CONTEXT_COLUMNS = (
    "subject_key", "priority", "position", "claim_class", "blocked_by", "awaits_turn", "schedule_id",
    "concurrency_key", "chain_group_id",
)  # fmt: skip
_COMPUTED = {
    "needed_slots": "slots",
    "failed_member": """(
    SELECT json_extract(payload, '$.failed_job_id')
    FROM job_events
    WHERE sequence = last_event AND event_type = 'job.cancelled'
  )""",
    "event_met_at": """(
    SELECT met_at FROM job_conditions WHERE job_id = jobs.id AND key = 'semantica:event:' || wait_for_event
  )""",
    "debounce_ms": "json_extract(spec, '$.debounce_ms')",
    "is_starting": "state = 'RUNNING' AND execution_mode = 'SUBPROCESS' AND pid IS NULL",
    "is_external": "execution_mode IS NULL",
    "error_code": "json_extract(error, '$.code')",
    "error_message": "json_extract(error, '$.message')",
    "awaits_turn": """EXISTS (
    SELECT 1
    FROM job_conditions
    WHERE job_id = jobs.id AND key = 'semantica:turn:' || schedule_id AND waiting = 1
  )""",
}
JOB = f"SELECT {', '.join(_COMPUTED.get(name, name) for name in COLUMNS + CONTEXT_COLUMNS)} FROM jobs WHERE id = :id"
CONDITIONS = """
SELECT key, value, met_at
FROM job_conditions
WHERE job_id = :id AND substr(key, 1, 10) <> 'semantica:' AND substr(key, 1, 4) <> 'job:'
ORDER BY key
"""
# The jobs whose end it waits for.
_AWAITED = """
FROM job_conditions
LEFT JOIN jobs AS other ON other.id = substr(key, -36)
WHERE job_id = :id AND waiting = 1
  AND ((key > 'job:' AND key < 'job;') OR (key > 'semantica:event:job:' AND key < 'semantica:event:job;'))
"""
AWAITED = f"SELECT substr(key, -36), value, other.state {_AWAITED} ORDER BY key LIMIT {MOST_AWAITED}"
AWAITED_COUNT = f"SELECT count(*) {_AWAITED}"
HIGHER = """
SELECT count(*)
FROM jobs INDEXED BY idx_jobs_pop
WHERE state = 'QUEUED' AND queue = :queue AND priority > :priority
  AND (claim_class = :claim_class OR NOT (claim_class | :claim_class) & 4)
"""
BEFORE = """
SELECT count(*)
FROM jobs INDEXED BY idx_jobs_pop
WHERE state = 'QUEUED' AND queue = :queue AND priority = :priority AND position < :position
  AND (claim_class = :claim_class OR NOT (claim_class | :claim_class) & 4)
"""
RUNNING = """
SELECT id, queue, started_at, slots, concurrency_key, chain_group_id
FROM jobs INDEXED BY idx_jobs_running
WHERE state = 'RUNNING'
"""
# The job that has the room of the lane.
LANE_HOLDER = """
SELECT id, state
FROM jobs INDEXED BY idx_jobs_subject_live
WHERE finished_at IS NULL AND subject_key <> '' AND subject_key = :subject_key AND job_type = :job_type
  AND supersede IN ('append', 'keep', 'lane', 'subject')
  AND (
    state = 'RUNNING' OR (state = 'QUEUED' AND claim_class <> 4)
    OR (state = 'SCHEDULED' AND supersede = 'append' AND started_at IS NOT NULL)
  )
LIMIT 1
"""
LANE_AHEAD = """
SELECT count(*)
FROM jobs INDEXED BY idx_jobs_blocked
WHERE blocked_by IS NOT NULL AND blocked_by = :blocked_by
  AND (priority > :priority OR (priority = :priority AND position < :position))
"""
# The workers that are alive and take such jobs; those that wait are alive however long ago they have called.
WORKERS = f"""
SELECT count(*)
FROM workers
WHERE left_at IS NULL
  AND (last_heartbeat > :now - {ALIVE_LEASES} * lease_ms OR worker_id IN (SELECT value FROM json_each(:waiting)))
  AND (queues IS NULL OR :queue IN (SELECT value FROM json_each(queues)))
  AND (job_types IS NULL OR :job_type IN (SELECT value FROM json_each(job_types)))
"""
EARLIER = """
SELECT id
FROM jobs INDEXED BY idx_jobs_schedule_live
WHERE finished_at IS NULL AND schedule_id IS NOT NULL AND schedule_id = :schedule_id
  AND NOT EXISTS (
    SELECT 1
    FROM job_conditions
    WHERE job_id = jobs.id AND key = 'semantica:turn:' || schedule_id AND waiting = 1
  )
LIMIT 1
"""
# The job whose end has made a start impossible.
FAILED_PARENT = """
SELECT other.id, other.state
FROM job_conditions
JOIN jobs AS other ON other.id = substr(key, 5)
WHERE job_id = :id AND key >= 'job:' AND key < 'job;' AND met_at IS NULL
  AND other.finished_at <= :finished_at AND other.state <> value
LIMIT 1
"""
RECENT = "SELECT recent_run_ms FROM queue_counts WHERE queue = :queue AND timed_runs > 0"


async def standing(
    db: Connection, prefix: str, limits: Limits, now: int = 0, waiting: Collection[str] = ()
) -> JobSituation:
    """`waiting`: the workers that wait for jobs."""
    await db.execute("BEGIN")
    try:
        job_id, _ = await reads.state(db, prefix)
        row = next(iter(await db.execute_fetchall(JOB, {"id": job_id})))
        job = dict(zip(COLUMNS + CONTEXT_COLUMNS, row, strict=True))
        rows = {row[0]: row for row in await db.execute_fetchall(reads.QUEUES)}
        stored = rows.get(job["queue"])
        rules = limits.of(job["queue"], None if stored is None else stored_rules(*stored[3:]))
        found = {name: job[name] for name in COLUMNS} | await _read_context(db, job_id, job, rules)
        if job["is_external"] and job["state"] == "QUEUED":
            values = {**job, "now": now, "waiting": encode(waiting).decode()}
            found["workers"] = next(iter(await db.execute_fetchall(WORKERS, values)))[0]
        return JobSituation(job_id=job_id, **found, **await _queue(db, job["queue"], rows, rules, limits.max_slots))
    finally:
        await db.execute("ROLLBACK")


async def _read_context(db: Connection, job_id: str, job: dict[str, Any], rules: QueueRules) -> dict[str, Any]:
    running = [tuple(row) for row in await db.execute_fetchall(RUNNING)]
    found: dict[str, Any] = {
        "running": tuple(UnderWay(*row[:4]) for row in running),
        "conditions": tuple(Condition(*row) for row in await db.execute_fetchall(CONDITIONS, {"id": job_id})),
        **await _awaited(db, job_id),
    }
    if job["state"] == "QUEUED":
        found["reservation"] = await reads.active_reservation(db)
        found |= await _before(db, job)
        found |= await full_rooms(db, job, [(*row[:2], *row[4:]) for row in running], rules)
    if job["state"] == "CANCELLED":
        for row in await db.execute_fetchall(FAILED_PARENT, {"id": job_id, "finished_at": job["finished_at"]}):
            found |= {"failed_parent": row[0], "failed_parent_state": row[1]}
    if job["awaits_turn"]:
        earlier = list(await db.execute_fetchall(EARLIER, job))
        found["earlier"] = earlier[0][0] if earlier else None
    return found


async def _before(db: Connection, job: dict[str, Any]) -> dict[str, Any]:
    """The jobs that come before it: of its lane if it waits for the room of that, else of its queue."""
    if job["claim_class"] != BLOCKED:
        return {"ahead": sum([next(iter(await db.execute_fetchall(sql, job)))[0] for sql in (HIGHER, BEFORE)])}
    ahead = next(iter(await db.execute_fetchall(LANE_AHEAD, job)))[0]
    for holder, current in await db.execute_fetchall(LANE_HOLDER, job):
        lane = {"lane_runs": holder, "lane_state": current, "lane_ahead": ahead}
        return {"ahead": ahead + (current != state.RUNNING), **lane}
    return {"ahead": ahead}


async def _awaited(db: Connection, job_id: str) -> dict[str, Any]:
    """A job may wait for 10,000 others: the first ones are named, the rest is counted."""
    rows = list(await db.execute_fetchall(AWAITED, {"id": job_id}))
    count = len(rows)
    if count == MOST_AWAITED:
        count = next(iter(await db.execute_fetchall(AWAITED_COUNT, {"id": job_id})))[0]
    return {"awaited": tuple(AwaitedJob(*row) for row in rows), "more_awaited": count - len(rows)}


async def _queue(db: Connection, queue: str, rows: dict[str, Any], rules: QueueRules, max_slots: int) -> dict[str, Any]:
    """`rows`: the stored settings by queue."""
    paused = [row for name in (queue, EVERY_QUEUE) if (row := rows.get(name)) is not None and row[1] is not None]
    recent = list(await db.execute_fetchall(RECENT, {"queue": queue}))
    resumes = [row[2] for row in paused]
    return {
        "paused": bool(paused),
        "all_paused": any(row[0] == EVERY_QUEUE for row in paused),
        "resume_at": max(resumes) if resumes and None not in resumes else None,
        "slots": rules.slots or 0,
        "max_slots": max_slots,
        "recent_run_ms": recent[0][0] if recent else None,
    }
