-- Jobs as the items of parallel work, for people who look into the database with sqlite3:
-- SELECT status, count(*) FROM items GROUP BY status. Times are in UTC. A job that waits for its next attempt is pending.

CREATE VIEW items AS
SELECT id,
  CASE
    WHEN state IN ('QUEUED', 'SCHEDULED') THEN 'pending'
    WHEN state = 'RUNNING' THEN 'processing'
    WHEN state = 'DONE' THEN 'completed'
    ELSE lower(state)
  END AS status,
  (
    SELECT worker_id
    FROM job_runs
    WHERE job_number = jobs.number AND job_runs.number = jobs.run_count
  ) AS worker_id,
  strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1000.0, 'unixepoch') AS started_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', finished_at / 1000.0, 'unixepoch') AS completed_at,
  result_summary AS result,
  error,
  attempts
FROM jobs;
