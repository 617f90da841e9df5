"""Queries of the readers. Each is one statement or one transaction, so that its result is one consistent snapshot.

They are async because the readers use aiosqlite; `rows` converts rows to views. `listing` has the query of job.list.
"""

from typing import Any, NamedTuple

from aiosqlite import Connection
from msgspec.json import encode

from semantica_daemon.errors import ReservationNotFound, RunNotFound
from semantica_daemon.model.event import Filter, StoredEvent
from semantica_daemon.model.reservation import Reservation
from semantica_daemon.store import counts, find, rows
from semantica_daemon.store.reservations import ACTIVE
from semantica_daemon.wire.admin import QueueStats
from semantica_daemon.wire.job_view import JobWithRuns
from semantica_daemon.wire.reservation import ReservationView
from semantica_daemon.wire.run import Error

PRAGMAS = ("PRAGMA query_only = ON", "PRAGMA busy_timeout = 200")
GET_BY_PREFIX = f"""
SELECT {rows.JOB_COLUMNS}, (
  SELECT json_array(hash, variables, secrets, left_out)
  FROM environments
  WHERE environments.environment_id = jobs.environment_id
) AS environment, (
  SELECT json_group_array(json_object('key', key, 'value', value, 'met_at', met_at))
  FROM job_conditions
  WHERE job_id = jobs.id AND substr(key, 1, 10) <> 'semantica:' AND NOT EXISTS (
    SELECT 1 FROM job_parents WHERE parent_id = substr(key, 5) AND job_parents.job_id = jobs.id
  )
) AS conditions, (
  SELECT json_group_array(json_object(
    'run_id', run_id, 'number', number, 'attempt', attempt, 'status', status,
    'started_at', started_at, 'finished_at', finished_at, 'exit_code', exit_code,
    'error', json(error), 'worker_id', worker_id, 'log_path', iif(jobs.archived_at IS NULL, log_path, NULL),
    'params_snapshot', CASE WHEN length(payload) <= 4096 THEN json(coalesce(params_snapshot, payload)) END
  ))
  FROM (
    SELECT *
    FROM (SELECT * FROM job_runs WHERE job_number = jobs.number ORDER BY number DESC LIMIT 100)
    ORDER BY number
  )
) AS runs, (
  SELECT json_group_array(json_object(
    'job_id', id, 'retry_of', retry_of, 'state', state, 'created_at', created_at, 'finished_at', finished_at
  ))
  FROM (
    SELECT other.*
    FROM job_retries AS mine
    JOIN job_retries AS others ON others.first_job_id = mine.first_job_id
    JOIN jobs AS other ON other.id = others.job_id
    WHERE mine.job_id = jobs.id
    ORDER BY other.number
  )
) AS retries
FROM jobs
WHERE id >= :id AND id < :id || 'g'
ORDER BY id
LIMIT 11
"""
# is_cut: whether output of the run was lost; NULL: not known here, because the run goes on or the job has many events.
LOGGED_RUN = """
SELECT jobs.state, jobs.exit_code, jobs.error, run.run_id, run.attempt, run.status, run.log_path, run.number,
  jobs.run_count, jobs.archived_at,
  iif(jobs.finished_at IS NULL OR jobs.event_count > 8, NULL, EXISTS (
    WITH RECURSIVE chain(at) AS (
      SELECT jobs.last_event
      UNION ALL
      SELECT previous FROM chain JOIN job_events ON sequence = at WHERE previous IS NOT NULL
    )
    SELECT 1
    FROM chain
    JOIN job_events ON sequence = at
    WHERE event_type = 'job.log' AND level = 'warn' AND json_extract(payload, '$.log_of') = run.run_id
  )) AS is_cut
FROM jobs
LEFT JOIN job_runs AS run ON run.job_number = jobs.number AND run.number = (
  SELECT max(number)
  FROM job_runs
  WHERE job_number = jobs.number AND (:attempt IS NULL OR attempt = :attempt) AND (:run_id IS NULL OR run_id = :run_id)
)
WHERE jobs.id = :job_id
"""
ORPHANS = """
SELECT jobs.run_id, run.pid, run.pid_started_at, run.boot_id
FROM jobs INDEXED BY idx_jobs_running
LEFT JOIN job_runs AS run ON run.job_number = jobs.number AND run.number = jobs.run_count
WHERE jobs.state = 'RUNNING' AND jobs.execution_mode = 'SUBPROCESS'
"""
REMOVALS = "SELECT job_id FROM workspace_removals LIMIT ?"
_EVENT_COLUMNS = """sequence, job_sequence, id, timestamp_at, event_type, level, message, job_events.payload,
  job_events.queue, job_events.user_tag"""
EVENTS = f"""
SELECT {_EVENT_COLUMNS}
FROM job_events
LEFT JOIN jobs ON number = job_number
WHERE sequence > :since
ORDER BY sequence
LIMIT :limit
"""
# From the newest event of the job back to the cursor; each event has the sequence of the one before it.
_CHAIN = """
WITH RECURSIVE chain(at) AS (
  SELECT last_event FROM jobs WHERE id = :job_id AND last_event > :since
  UNION ALL
  SELECT previous FROM chain JOIN job_events ON sequence = at WHERE previous > :since
)
"""
EVENTS_OF_JOB = f"""{_CHAIN}
SELECT {_EVENT_COLUMNS}
FROM chain
JOIN job_events ON sequence = at
JOIN jobs ON number = job_number
ORDER BY sequence
LIMIT :limit
"""
_MATCHES = """sequence < :before
  AND (:event_types IS NULL OR event_type IN (SELECT value FROM json_each(:event_types)))
  AND (:levels IS NULL OR level IN (SELECT value FROM json_each(:levels)))
  AND (:queue IS NULL OR job_events.queue = :queue) AND (:user_tag IS NULL OR job_events.user_tag = :user_tag)
ORDER BY sequence DESC
LIMIT :limit
"""
NEWEST_EVENTS = f"""
SELECT {_EVENT_COLUMNS}
FROM job_events
LEFT JOIN jobs ON number = job_number
WHERE sequence > :since AND {_MATCHES}"""
NEWEST_EVENTS_OF_JOB = f"""{_CHAIN}
SELECT {_EVENT_COLUMNS}
FROM chain
JOIN job_events ON sequence = at
JOIN jobs ON number = job_number
WHERE {_MATCHES}"""
LOG_IS_CUT = f"""{_CHAIN}
SELECT 1
FROM chain
JOIN job_events ON sequence = at
WHERE event_type = 'job.log' AND level = 'warn' AND json_extract(payload, '$.log_of') = :run_id
"""
ENDS_OF_STREAM = """
WITH newest AS (
  SELECT max(
    coalesce((SELECT max(sequence) FROM job_events), 0),
    coalesce((SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'last_sequence'), 0)
  ) AS sequence
)
SELECT coalesce((SELECT min(sequence) FROM job_events), newest.sequence + 1), newest.sequence FROM newest
"""
QUEUES = "SELECT queue, paused_at, resume_at, slots, on_running, max_queued, rate, keys FROM queues"
STATS = f"""
WITH live AS ({counts.LIVE_COUNTS})
SELECT queue_counts.queue, coalesce(sum(jobs) FILTER (WHERE state = 'QUEUED'), 0),
  coalesce(sum(jobs) FILTER (WHERE state = 'SCHEDULED'), 0), coalesce(sum(jobs) FILTER (WHERE state = 'RUNNING'), 0),
  done, failed, cancelled, superseded, skipped,
  CAST(wait_ms AS REAL) / nullif(runs, 0), CAST(run_ms AS REAL) / nullif(timed_runs, 0)
FROM queue_counts
LEFT JOIN live ON live.queue = queue_counts.queue
WHERE removed = 0
GROUP BY queue_counts.queue
ORDER BY queue_counts.queue
"""


RESERVATION = """
SELECT reservation_id, reserved_by, status, reserved_at, expires_at, job_id
FROM direct_reservations
WHERE reservation_id = :id
"""


class LoggedRun(NamedTuple):
    """The state of a job, and its newest run that matches the request; the fields of the run are None if the job has no
    run."""

    state: str
    exit_code: int | None
    error: Error | None
    run_id: str | None
    attempt: int | None
    status: str | None
    log_path: str | None
    number: int | None
    run_count: int
    archived_at: int | None
    is_cut: bool | None


async def job(db: Connection, prefix: str) -> JobWithRuns:
    found = list(await db.execute_fetchall(GET_BY_PREFIX, {"id": prefix.lower()}))
    return rows.job_with_runs(find.the_one(found, prefix, id_at=0))


async def state(db: Connection, prefix: str) -> tuple[str, str]:
    """(id, state): the least that a waiting call has to read."""
    found = list(await db.execute_fetchall(find.BY_PREFIX, {"id": prefix.lower()}))
    _, job_id, now = find.the_one(found, prefix)
    return job_id, now


async def logged_run(db: Connection, job_id: str, attempt: int | None, run_id: str | None) -> LoggedRun:
    values = {"job_id": job_id, "attempt": attempt, "run_id": run_id}
    row = find.the_one(list(await db.execute_fetchall(LOGGED_RUN, values)), job_id)
    if row[3] is None and (attempt is not None or run_id is not None):
        raise RunNotFound(f"job {job_id} has no run {attempt or run_id}", "job.get lists its runs", job_id=job_id)
    return LoggedRun(row[0], row[1], rows.error(row[2]), *row[3:])


async def log_is_cut(db: Connection, job_id: str, run_id: str | None) -> bool:
    """Whether output of that run was lost, for whatever reason; known only after the run has ended."""
    found = await db.execute_fetchall(LOG_IS_CUT, {"job_id": job_id, "run_id": run_id, "since": 0})
    return bool(list(found))


async def removals(db: Connection, most: int) -> list[str]:
    """The jobs whose folders are to be deleted."""
    return [row[0] for row in await db.execute_fetchall(REMOVALS, (most,))]


async def orphans(db: Connection) -> list[tuple[Any, ...]]:
    """(run id, pid, start of the process, boot id) of each run that an earlier daemon has left RUNNING."""
    return [tuple(row) for row in await db.execute_fetchall(ORPHANS)]


async def events(db: Connection, since: int, wanted: Filter, limit: int) -> list[StoredEvent]:
    values = {"since": since, "limit": limit, "job_id": wanted.job_id}
    found = await db.execute_fetchall(EVENTS_OF_JOB if wanted.job_id else EVENTS, values)
    return [rows.stored_event(row) for row in found]


async def newest_events(db: Connection, since: int, before: int, wanted: Filter, limit: int) -> list[StoredEvent]:
    """The newest events between the two sequences that match, the newest first."""
    types, levels = (encode(names).decode() if names else None for names in (wanted.event_types, wanted.levels))
    values = {
        "since": since, "before": before, "limit": limit, "job_id": wanted.job_id, "queue": wanted.queue,
        "user_tag": wanted.user_tag, "event_types": types, "levels": levels,
    }  # fmt: skip
    found = await db.execute_fetchall(NEWEST_EVENTS_OF_JOB if wanted.job_id else NEWEST_EVENTS, values)
    return [rows.stored_event(row) for row in found]


async def stream_ends(db: Connection) -> tuple[int, int]:
    """(oldest sequence that is stored, newest that was assigned), also if it is pruned."""
    oldest, newest = next(iter(await db.execute_fetchall(ENDS_OF_STREAM)))
    return oldest, newest


async def queue_rows(db: Connection) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in await db.execute_fetchall(QUEUES)]


async def active_reservation(db: Connection) -> Reservation | None:
    row = await (await db.execute(ACTIVE)).fetchone()
    return None if row is None else Reservation(*row)


async def reservation(db: Connection, reservation_id: str | None) -> ReservationView | None:
    """The reservation with this id; without an id the ACTIVE one, or None."""
    if reservation_id is None:
        active = await active_reservation(db)
        return None if active is None else await reservation(db, active.reservation_id)
    row = await (await db.execute(RESERVATION, {"id": reservation_id})).fetchone()
    if row is None:
        hint = "reservation.get without an id shows the one that is ACTIVE"
        raise ReservationNotFound(f"no reservation {reservation_id}", hint, reservation_id=reservation_id)
    return ReservationView(*row)


async def stats(db: Connection) -> list[QueueStats]:
    return [QueueStats(*row) for row in await db.execute_fetchall(STATS)]
