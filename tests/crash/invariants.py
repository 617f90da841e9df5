"""What must hold in the database of a daemon at any moment, whatever was done to the daemon. Reads only."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

STATE_OF_EVENT = """
CASE event_type WHEN 'job.started' THEN 'RUNNING' WHEN 'job.retrying' THEN 'SCHEDULED' WHEN 'job.requeued' THEN 'QUEUED'
ELSE upper(substr(event_type, 5)) END
"""
# RUNNING is told when the process of a command exists; from its claim until then it has no pid.
STATE_AS_TOLD = "iif(jobs.state = 'RUNNING' AND execution_mode = 'SUBPROCESS' AND pid IS NULL, 'QUEUED', jobs.state)"
CHANGES = "event_type NOT IN ('job.log', 'job.progress', 'job.unresponsive')"

# Each finds what must not be; the first few of them are shown. By a clock that was set nobody can tell what was first.
BROKEN = {
    "the sequence has a gap": """
        SELECT count(*), min(sequence), max(sequence) FROM events
        HAVING count(*) <> max(sequence) OR min(sequence) <> 1""",
    "the events of a job are not numbered 1, 2, 3": """
        SELECT id, sum(event_count) AS counted, sum(is_event) AS recorded, min(job_sequence), max(job_sequence)
        FROM (
          SELECT id, event_count, 0 AS is_event, NULL AS job_sequence FROM jobs UNION ALL
          SELECT job_id, 0, 1, job_sequence FROM events WHERE job_id IS NOT NULL)
        GROUP BY id HAVING counted <> recorded OR max(job_sequence) <> counted OR min(job_sequence) <> 1""",
    "a job was queued before all of its parents were DONE": """
        SELECT job_id, parent_id FROM job_parents
        JOIN jobs AS child ON child.id = job_id JOIN jobs AS parent ON parent.id = parent_id
        WHERE (child.run_count > 0 OR child.state = 'QUEUED') AND parent.state <> 'DONE'""",
    "a reservation outlives its job": """
        SELECT reservation_id, job_id FROM direct_reservations JOIN jobs ON jobs.id = job_id
        WHERE status = 'ACTIVE' AND jobs.finished_at IS NOT NULL""",
    "an event of a job that is not there": """
        SELECT sequence, job_id FROM events
        WHERE job_id IS NOT NULL AND job_id NOT IN (SELECT id FROM jobs)""",
    "a job is not what its last event says": f"""
        SELECT jobs.id, jobs.state, last.told
        FROM jobs JOIN (
          SELECT job_id, {STATE_OF_EVENT} AS told, max(sequence) FROM events
          WHERE job_id IS NOT NULL AND {CHANGES} GROUP BY job_id
        ) AS last ON last.job_id = jobs.id
        WHERE {STATE_AS_TOLD} <> last.told""",
    "a job ended more than once": """
        SELECT job_id, count(*) FROM events
        WHERE event_type IN ('job.done', 'job.failed', 'job.cancelled', 'job.superseded',
          'job.skipped_ttl', 'job.skipped_deadline')
        GROUP BY job_id HAVING count(*) > 1""",
    "a run goes on though its job does not": """
        SELECT runs.run_id, jobs.state FROM runs JOIN jobs ON jobs.id = runs.job_id
        WHERE (runs.status = 'RUNNING') <> (jobs.state = 'RUNNING' AND jobs.run_id = runs.run_id)""",
    "the number of runs is not what the job counts": """
        SELECT jobs.id, run_count, count(runs.run_id)
        FROM jobs LEFT JOIN runs ON runs.job_id = jobs.id
        GROUP BY jobs.id HAVING count(runs.run_id) <> run_count""",
    "the attempts are not the runs that were not given back": """
        SELECT jobs.id, attempts, count(runs.run_id)
        FROM jobs LEFT JOIN runs ON runs.job_id = jobs.id AND status <> 'INTERRUPTED'
        GROUP BY jobs.id HAVING count(runs.run_id) <> attempts""",
    "a process is known by halves": """
        SELECT runs.run_id, execution_mode, runs.pid, pid_started_at, boot_id, runs.log_path
        FROM runs JOIN jobs ON jobs.id = runs.job_id
        WHERE (runs.pid IS NULL) + (pid_started_at IS NULL) + (boot_id IS NULL) + (runs.log_path IS NULL)
          NOT IN (0, 4) OR (execution_mode <> 'SUBPROCESS' AND runs.pid IS NOT NULL)""",
    "a job does not know the process of its run": """
        SELECT jobs.id, jobs.pid, runs.pid FROM jobs JOIN runs USING (run_id)
        WHERE jobs.pid IS NOT runs.pid OR jobs.log_path IS NOT runs.log_path""",
    "a start that was not told, or told without one": """
        SELECT job_id, sum(is_start) AS starts, sum(is_told) AS told
        FROM (
          SELECT jobs.id AS job_id, execution_mode IS NOT 'SUBPROCESS' OR runs.pid IS NOT NULL AS is_start, 0 AS is_told
          FROM jobs JOIN runs ON runs.job_id = jobs.id UNION ALL
          SELECT job_id, 0, 1 FROM events WHERE event_type = 'job.started')
        GROUP BY job_id HAVING starts <> told""",
    "an external run without a lease, or a lease without a run": """
        SELECT jobs.id, jobs.state, leases.run_id
        FROM jobs LEFT JOIN leases ON leases.job_number = jobs.number
        WHERE (leases.run_id IS NOT NULL) <> (state = 'RUNNING' AND execution_mode IS NULL)
          OR leases.run_id <> jobs.run_id""",
    "two runs of a job overlap": """
        SELECT one.run_id, other.run_id FROM runs AS one JOIN runs AS other USING (job_id)
        WHERE one.number < other.number AND (one.finished_at IS NULL OR (one.finished_at > other.started_at
          AND NOT EXISTS (SELECT 1 FROM events WHERE event_type = 'daemon.clock_stepped')))""",
    "a job for one attempt ran more than once": """
        SELECT jobs.id, count(*) FROM jobs JOIN runs ON runs.job_id = jobs.id
        WHERE max_attempts <= 1 AND json_extract(spec, '$.on_interrupt') IS NULL
          AND NOT (status = 'INTERRUPTED' AND json_extract(runs.error, '$.code') IN ('E_SPAWN', 'E_CONDITION_LOST'))
        GROUP BY jobs.id HAVING count(*) > 1""",
    "a job ran more often than it may": """
        SELECT id, attempts, max_attempts FROM jobs WHERE attempts > max(max_attempts, 1)""",
    "an idempotency key stands for two jobs": """
        SELECT json_extract(spec, '$.idempotency_key') AS key, count(*) FROM jobs
        WHERE key IS NOT NULL GROUP BY key HAVING count(*) > 1""",
    "two live jobs of a lane wait, and neither is a retry of an older generation": """
        SELECT subject_key, job_type, count(*) FROM jobs
        WHERE subject_key <> '' AND supersede NOT IN ('none', 'append') AND state IN ('QUEUED', 'SCHEDULED')
          AND (retry_of IS NULL OR stale = 0)
        GROUP BY subject_key, job_type HAVING count(*) > 1""",
    "a generation has two live jobs": """
        SELECT subject_key, job_type, generation, count(*) FROM jobs
        WHERE subject_key <> '' AND supersede <> 'none' AND finished_at IS NULL
        GROUP BY subject_key, job_type, generation HAVING count(*) > 1""",
    "a retry of a job that has not ended, or that is about something else": """
        SELECT jobs.id, old.id, old.state FROM jobs LEFT JOIN jobs AS old ON old.id = jobs.retry_of
        WHERE jobs.retry_of IS NOT NULL AND (old.finished_at IS NULL OR old.number >= jobs.number
          OR (old.subject_key, old.job_type, old.generation) <> (jobs.subject_key, jobs.job_type, jobs.generation))""",
    "a retry that does not lead back to the first job": """
        SELECT jobs.id, mine.first_job_id, old.first_job_id
        FROM jobs LEFT JOIN job_retries AS mine ON mine.job_id = jobs.id
        LEFT JOIN job_retries AS old ON old.job_id = jobs.retry_of
        WHERE jobs.retry_of IS NOT NULL AND (mine.first_job_id IS NULL OR mine.first_job_id IS NOT old.first_job_id)""",
    "the runs of a job are not numbered 1, 2, 3": """
        SELECT job_id, count(*), min(number), max(number) FROM runs
        GROUP BY job_id HAVING min(number) <> 1 OR max(number) <> count(*)""",
    "a job refers to an environment that is not there": """
        SELECT id, environment_id FROM jobs
        WHERE environment_id IS NOT NULL AND environment_id NOT IN (SELECT environment_id FROM environments)""",
    "a lane does not know its newest": """
        SELECT lanes.subject_key, lanes.generation, max(jobs.generation)
        FROM lanes JOIN jobs USING (subject_key, job_type)
        GROUP BY lanes.subject_key, lanes.job_type HAVING max(jobs.generation) <> lanes.generation""",
    "the newest of a lane was superseded, or an older one by none that is newer": """
        SELECT jobs.id, jobs.generation, winner.generation
        FROM jobs LEFT JOIN jobs AS winner ON winner.id = jobs.superseded_by
        WHERE jobs.state = 'SUPERSEDED' AND coalesce(winner.generation, -1) <= jobs.generation""",
    "an older generation started after a newer one": """
        SELECT * FROM (
          SELECT jobs.id, generation, max(generation) OVER (
            PARTITION BY subject_key, job_type ORDER BY runs.run_id
          ) AS newest_yet
          FROM runs JOIN jobs ON jobs.id = runs.job_id WHERE subject_key <> '' AND retry_of IS NULL
        ) WHERE newest_yet > generation""",
    "what a job waits for is not what it counts": """
        SELECT id, state, unmet FROM jobs
        WHERE state IN ('SCHEDULED', 'QUEUED', 'RUNNING') AND unmet <> (
          SELECT count(*) FROM job_conditions WHERE job_id = jobs.id AND met_at IS NULL)""",
    "a job has started, or may, that still waits for something": """
        SELECT id, state, unmet FROM jobs WHERE state IN ('QUEUED', 'RUNNING') AND unmet > 0""",
    "a condition is looked up for none that waits, or not for one that does": """
        SELECT job_id, key, state, waiting, met_at FROM job_conditions JOIN jobs ON jobs.id = job_id
        WHERE waiting <> (state = 'SCHEDULED' AND met_at IS NULL)""",
    "a debounced job is held back longer than its lane may be": """
        SELECT id, created_at, scheduled_at, postponed_since FROM jobs
        WHERE state = 'SCHEDULED' AND attempts = 0 AND schedule_type = 'IMMEDIATE'
          AND scheduled_at > postponed_since + json_extract(spec, '$.max_wait_ms')""",
    "a job waits for a turn that nobody will pass on": """
        WITH live AS (
          SELECT id, schedule_id, EXISTS (
            SELECT 1 FROM job_conditions
            WHERE job_id = jobs.id AND key = 'semantica:turn:' || schedule_id AND waiting = 1) AS awaits_turn
          FROM jobs WHERE finished_at IS NULL AND schedule_id IS NOT NULL)
        SELECT id, schedule_id FROM live
        WHERE awaits_turn = 1 AND NOT EXISTS (
          SELECT 1 FROM live AS other WHERE other.schedule_id = live.schedule_id AND other.awaits_turn = 0)""",
    "a schedule has fired twice for one time": """
        SELECT json_extract(payload, '$.schedule_id') AS schedule, json_extract(payload, '$.trigger_at') AS at, count(*)
        FROM events WHERE event_type = 'schedule.fired'
          AND schedule NOT IN (SELECT schedule_id FROM schedules WHERE on_event IS NOT NULL)
          AND NOT EXISTS (SELECT 1 FROM events WHERE event_type = 'daemon.clock_stepped')
        GROUP BY schedule, at HAVING count(*) > 1""",
    "a schedule has made a job that it does not tell of": """
        SELECT id, schedule_id FROM jobs
        WHERE schedule_id IS NOT NULL AND retry_of IS NULL AND (id, schedule_id) NOT IN (
          SELECT json_extract(payload, '$.job_id'), json_extract(payload, '$.schedule_id')
          FROM events WHERE event_type = 'schedule.fired')""",
    "a schedule tells of a job that it has not made": """
        SELECT sequence, payload FROM events
        WHERE event_type = 'schedule.fired' AND json_extract(payload, '$.job_id') NOT IN (SELECT id FROM jobs)""",
    "a schedule has a time though it is disabled, or none though it is not": """
        SELECT schedule_id, enabled, next_trigger_at FROM schedules
        WHERE (enabled = 1 AND on_event IS NULL AND cron_expression IS NOT '@reboot')
          <> (next_trigger_at IS NOT NULL)""",
    "a queue miscounts": """
        WITH deleted AS MATERIALIZED (
          SELECT queue, max(sequence) AS sequence FROM job_events WHERE event_type = 'queue.deleted' GROUP BY queue)
        SELECT queue, 'counted' FROM queue_counts AS kept
        WHERE removed = 0 AND (done, failed, cancelled, superseded) <> (
          SELECT count(*) FILTER (WHERE state = 'DONE'), count(*) FILTER (WHERE state = 'FAILED'),
            count(*) FILTER (WHERE state = 'CANCELLED'), count(*) FILTER (WHERE state = 'SUPERSEDED')
          FROM jobs LEFT JOIN deleted USING (queue)
          WHERE jobs.queue = kept.queue AND last_event > coalesce(deleted.sequence, 0))""",
    "a queue that was deleted has live jobs": """
        SELECT id, queue, state FROM jobs JOIN queue_counts USING (queue) WHERE removed = 1 AND finished_at IS NULL""",
    "a job of an earlier daemon still runs": """
        SELECT job_id FROM events JOIN jobs ON jobs.id = job_id
        WHERE event_type = 'job.started' AND state = 'RUNNING' AND execution_mode IS NOT NULL
          AND json_extract(events.payload, '$.run_id') = jobs.run_id
          AND sequence < (SELECT max(sequence) FROM events WHERE event_type = 'daemon.started')""",
    "a job that an earlier daemon claimed still waits for its process": """
        SELECT jobs.id FROM jobs JOIN runs USING (run_id)
        WHERE state = 'RUNNING' AND runs.pid IS NULL AND runs.started_at < (
          SELECT timestamp_at FROM events WHERE event_type = 'daemon.started' ORDER BY sequence DESC LIMIT 1)
          AND execution_mode = 'SUBPROCESS'""",
}


# Runs and events name their job by its number; the questions above ask by its id.
VIEWS = (
    "CREATE TEMP VIEW runs AS SELECT job_runs.*, id AS job_id FROM job_runs JOIN jobs ON jobs.number = job_number",
    """CREATE TEMP VIEW events AS SELECT job_events.*, coalesce(id, job_number) AS job_id
FROM job_events LEFT JOIN jobs ON jobs.number = job_number""",
)

UNUSED_ENVIRONMENTS = """
SELECT environment_id FROM environments
WHERE environment_id NOT IN (SELECT environment_id FROM jobs WHERE environment_id IS NOT NULL)
"""


@contextmanager
def reading(home: Path) -> Iterator[sqlite3.Connection]:
    """One snapshot for all questions, so that a daemon at work does not change the answers between them."""
    connection = sqlite3.connect(f"file:{home / 'meta.db'}?mode=ro", uri=True, isolation_level=None)
    for view in VIEWS:
        connection.execute(view)
    connection.execute("BEGIN")
    try:
        yield connection
    finally:
        connection.close()


def check_environments_are_used(home: Path) -> None:
    """Holds at the start of a daemon, until a job is pruned."""
    with reading(home) as connection:
        left = connection.execute(UNUSED_ENVIRONMENTS).fetchall()
    assert left == []


def check(home: Path) -> None:
    with reading(home) as connection:
        broken = {name: connection.execute(sql).fetchmany(5) for name, sql in BROKEN.items()}
        broken["the file is damaged"] = [
            row for row in connection.execute("PRAGMA quick_check").fetchall() if row != ("ok",)
        ]
    assert not any(broken.values()), {name: rows for name, rows in broken.items() if rows}
