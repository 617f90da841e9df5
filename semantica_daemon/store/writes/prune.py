"""Deletes ended jobs with their runs and events, in one transaction, so that a kill leaves none half deleted.

What stays: the newest generation of a lane, an idempotency key with the job's last state, the daily counts of its
events, and a summary of a job that has no receipt. A job that a live job refers to, or whose folder is still to be
deleted, is kept.
"""

from typing import NamedTuple

from msgspec import Struct

from semantica_daemon.model.spec import rest_of
from semantica_daemon.store.tx import Tx

MOST = 50  # jobs that are pruned in one transaction

COLUMNS = "number, id, state, subject_key, chain_group_id, environment_id, last_event, spec"
ENDED = f"SELECT {COLUMNS} FROM jobs WHERE number = ? AND finished_at IS NOT NULL"
# Whether a live job refers to the job: as its parent, as an earlier or later try of the same work, as the job that
# supersedes it, or as a member of its group; whether a schedule shows it as its last job; whether its folder is left.
IS_NEEDED = {
    "parent": """
SELECT 1
FROM job_parents
JOIN jobs ON jobs.id = job_parents.job_id
WHERE parent_id = :id AND finished_at IS NULL
LIMIT 1
""",
    "retry": """
SELECT 1
FROM job_retries AS mine
JOIN job_retries AS others ON others.first_job_id = mine.first_job_id
JOIN jobs ON jobs.id = others.job_id
WHERE mine.job_id = :id AND finished_at IS NULL
LIMIT 1
""",
    "winner": """
SELECT 1
FROM jobs INDEXED BY idx_jobs_subject_live
WHERE subject_key = :subject_key AND subject_key <> '' AND finished_at IS NULL AND superseded_by = :id
LIMIT 1
""",
    "group": """
SELECT 1
FROM jobs INDEXED BY idx_jobs_group_live
WHERE chain_group_id = :group AND chain_group_id IS NOT NULL AND finished_at IS NULL
LIMIT 1
""",
    "schedule": "SELECT 1 FROM schedules WHERE last_job_id = :id LIMIT 1",
    "folder": "SELECT 1 FROM workspace_removals WHERE job_id = :id",
}
_EVENTS = """
WITH RECURSIVE chain(at) AS (
  SELECT last_event FROM jobs WHERE number = :number
  UNION ALL
  SELECT previous FROM chain JOIN job_events ON sequence = at WHERE previous IS NOT NULL
)
"""
COUNT_EVENTS = f"""
INSERT INTO event_aggregates (day, queue, job_type, event_type, events, duration_ms)
{_EVENTS}
SELECT date(timestamp_at / 1000, 'unixepoch'), coalesce(job_events.queue, ''), jobs.job_type, event_type, count(*),
  coalesce(sum(json_extract(job_events.payload, '$.duration_ms')), 0)
FROM chain
CROSS JOIN job_events ON sequence = at
CROSS JOIN jobs ON jobs.number = :number
GROUP BY 1, 2, 3, 4
ON CONFLICT (day, queue, job_type, event_type) DO UPDATE
SET events = events + excluded.events, duration_ms = duration_ms + excluded.duration_ms
"""
DELETE_EVENTS = f"{_EVENTS} DELETE FROM job_events WHERE sequence IN (SELECT at FROM chain)"
DELETED = "SELECT changes()"  # rowcount is not set after a statement that begins with WITH
ADD_SUMMARY = """
INSERT OR REPLACE INTO job_summaries (
  id, job_type, queue, subject_key, generation, state, created_at, started_at, finished_at, pruned_at, exit_code,
  error_code
)
SELECT id, job_type, queue, subject_key, generation, state, created_at, started_at, finished_at, :now, exit_code,
  json_extract(error, '$.code')
FROM jobs
WHERE number = :number AND NOT EXISTS (SELECT 1 FROM receipts WHERE job_id = jobs.id)
"""
KEEP_STATE = "UPDATE idempotency SET ended = ? WHERE idempotency_key = ? AND job_id = ?"
FORGET_RETRIES = "DELETE FROM job_retries WHERE job_id = ?"
DELETE_JOB = "DELETE FROM jobs WHERE number = ?"
DELETE_ENVIRONMENT = """
DELETE FROM environments
WHERE environment_id = ?1 AND NOT EXISTS (
  SELECT 1 FROM jobs INDEXED BY idx_jobs_environment WHERE jobs.environment_id = ?1 AND jobs.environment_id IS NOT NULL
)
"""
# The newest event is gone with its job: its number is not given to another event.
KEEP_SEQUENCE = "INSERT OR REPLACE INTO facts (name, value) VALUES ('last_sequence', ?)"


class Pruned(Struct, frozen=True):
    """`kept`: ids of ended jobs that are still needed."""

    jobs: int
    events: int
    kept: list[str]


class EndedJob(NamedTuple):
    number: int
    job_id: str
    state: str
    subject_key: str
    group: str | None
    environment_id: int | None
    last_event: int | None
    spec: str | None


def prune(tx: Tx, numbers: tuple[int, ...]) -> Pruned:
    """Leaves out jobs that are live, or gone already. Callers pass at most MOST numbers."""
    found = (tx.execute(ENDED, (number,)).fetchone() for number in numbers)
    jobs = [EndedJob(*row) for row in found if row is not None]
    kept = [job for job in jobs if _is_needed(tx, job)]
    gone = [job for job in jobs if job not in kept]
    events = sum(_delete(tx, job) for job in gone)
    if any(job.last_event == tx.next_sequence - 1 for job in gone):
        tx.execute(KEEP_SEQUENCE, (str(tx.next_sequence - 1),))
    for environment_id in {job.environment_id for job in gone if job.environment_id is not None}:
        tx.execute(DELETE_ENVIRONMENT, (environment_id,))
    return Pruned(len(gone), events, [job.job_id for job in kept])


def _is_needed(tx: Tx, job: EndedJob) -> bool:
    values = {"id": job.job_id, "subject_key": job.subject_key, "group": job.group}
    return any(tx.execute(sql, values).fetchone() is not None for sql in IS_NEEDED.values())


def _delete(tx: Tx, job: EndedJob) -> int:
    """Deletes the job, with its runs, conditions, links to parents and artifacts by their foreign keys. Returns the
    number of its events."""
    values = {"number": job.number, "now": tx.now}
    tx.execute(ADD_SUMMARY, values)
    tx.execute(COUNT_EVENTS, values)
    tx.execute(DELETE_EVENTS, values)
    events: int = tx.execute(DELETED).fetchone()[0]
    if (key := rest_of(job.spec).idempotency_key) is not None:
        tx.execute(KEEP_STATE, (job.state, key, job.job_id))
    tx.execute(FORGET_RETRIES, (job.job_id,))
    tx.execute(DELETE_JOB, (job.number,))
    return events
