"""A store with a long past: thousands of finished jobs in the very lanes, queues, tags and schedules that tests ask
for, which once waited for the same events."""

from tests.builders import NOW, Store

FINISHED = 20_000
FILL = """
WITH RECURSIVE number(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM number WHERE n < :count)
INSERT INTO jobs (
  id, queue, job_type, subject_key, generation, state, created_at, updated_at, started_at, finished_at, payload,
  execution_mode, max_attempts, deadline, scheduled_at, expires_at, user_tag, chain_group_id, superseded_by, run_id,
  run_count, queued_at, position, event_count, last_event, wait_for_idle, require_charging, wait_for_event, unmet,
  schedule_id, ended, spec
)
SELECT printf('%08x-0000-4000-8000-000000000000', n), 'default', 'semantica.noop', 's', n,
  CASE n % 3 WHEN 0 THEN 'DONE' WHEN 1 THEN 'FAILED' ELSE 'SUPERSEDED' END, :now - n, :now, :now, :now, '{}',
  'IN_PROCESS', 0, :now - n, :now - n, :now - n, 'tag', 'group', 'winner', printf('run %d', n), 1, :now - n, n * 100, 2,
  :count + n, n % 2, n / 2 % 2, 'e', (n % 3 = 2) * 2, 'schedule',
  CASE n % 3 WHEN 0 THEN 'DONE' WHEN 1 THEN 'FAILED' ELSE 'SUPERSEDED' END,
  '{"stop_when_lost": true, "template_id": "template"}'
FROM number
"""
FILL_CONDITIONS = """
INSERT INTO job_conditions (job_id, key, value, met_at, waiting)
SELECT id, 'semantica:event:e', '', CASE number % 3 WHEN 2 THEN NULL ELSE :now END, 0 FROM jobs
UNION ALL
SELECT id, 'semantica:turn:schedule', '', CASE number % 3 WHEN 2 THEN NULL ELSE :now END, 0 FROM jobs
UNION ALL
SELECT id, 'e', 'v', CASE number % 3 WHEN 2 THEN NULL ELSE :now END, 0 FROM jobs
"""
FILL_SCHEDULE = (
    """
INSERT INTO templates (template_id, name, spec, created_at, updated_at)
VALUES ('template', 'a template', '{"job_type": "semantica.noop"}', :now, :now)
""",
    """
INSERT INTO schedules (schedule_id, name, template_id, cron_expression, next_trigger_at, created_at, updated_at)
VALUES ('schedule', 'a schedule', 'template', '* * * * *', :now + 60000, :now, :now)
""",
)
FILL_RUNS = """
INSERT INTO job_runs (job_number, number, run_id, attempt, status, started_at, finished_at)
SELECT number, 1, run_id, 1, 'DONE', :now, :now FROM jobs
"""
FILL_EVENTS = """
INSERT INTO job_events (
  sequence, job_number, job_sequence, previous, timestamp_at, event_type, level, message, payload, queue
)
SELECT number, number, 1, NULL, :now, 'job.queued', 'info', '', '{}', 'default' FROM jobs
UNION ALL
SELECT :count + number, number, 2, number, :now, 'job.done', 'info', '', '{}', 'default' FROM jobs
"""
FILL_LANE = """
INSERT INTO lanes (subject_key, job_type, generation, job_id, ended, numbered_by)
VALUES ('s', 'semantica.noop', :count, 'newest', 'DONE', 'server')
"""
FILL_KEYS = """
INSERT INTO idempotency (idempotency_key, job_id, spec_hash, expires_at)
SELECT 'old ' || id, id, 'hash', :now + 1000000 FROM jobs
"""


def fill(store: Store, count: int = FINISHED) -> None:
    """ANALYZE is never run: the plans must not depend on statistics."""
    values = {"count": count, "now": NOW}
    store.connection.execute("BEGIN")
    for statement in (FILL, FILL_RUNS, FILL_EVENTS, FILL_LANE, FILL_KEYS, FILL_CONDITIONS, *FILL_SCHEDULE):
        store.connection.execute(statement, values)
    store.connection.execute("COMMIT")
    store.database._load()
