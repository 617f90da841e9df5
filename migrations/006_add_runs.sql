-- One row for each attempt at a job: written when it starts, its process named once, ended once.
-- The primary key keeps the runs of a job together and those of new jobs at the end: no second index is needed.
-- params_snapshot is NULL while it equals the job's payload, which cannot change once the job has run.

CREATE TABLE job_runs (
  job_number INTEGER NOT NULL REFERENCES jobs(number) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  status TEXT NOT NULL DEFAULT 'RUNNING' CHECK (
    status = 'RUNNING' OR status = 'DONE' OR status = 'FAILED'
    OR status = 'CANCELLED' OR status = 'SUPERSEDED' OR status = 'INTERRUPTED'
  ),
  started_at INTEGER NOT NULL,
  finished_at INTEGER,
  exit_code INTEGER,
  pid INTEGER,
  pid_started_at INTEGER,
  boot_id TEXT,
  worker_id TEXT,
  template_id TEXT,
  log_path TEXT,
  error TEXT,
  artifacts TEXT,
  params_snapshot TEXT,
  PRIMARY KEY (job_number, number),
  CHECK ((finished_at IS NOT NULL) = (status <> 'RUNNING'))
) WITHOUT ROWID;

-- Three triggers, so that the two updates that every run sees pay for one comparison each. AFTER and ROLLBACK: see 021.
CREATE TRIGGER job_runs_begin_is_final
AFTER UPDATE OF job_number, number, run_id, attempt, started_at, worker_id, template_id, params_snapshot ON job_runs
BEGIN
  SELECT RAISE(ROLLBACK, 'a run is written once');
END;
CREATE TRIGGER job_runs_process_is_final
AFTER UPDATE OF pid, pid_started_at, boot_id, log_path ON job_runs
WHEN OLD.pid IS NOT NULL OR OLD.pid_started_at IS NOT NULL OR OLD.boot_id IS NOT NULL OR OLD.log_path IS NOT NULL
  OR OLD.status <> 'RUNNING'
BEGIN
  SELECT RAISE(ROLLBACK, 'the process of a run is named once');
END;
CREATE TRIGGER job_runs_end_is_final
AFTER UPDATE OF status, finished_at, exit_code, error, artifacts ON job_runs
WHEN OLD.status <> 'RUNNING'
BEGIN
  SELECT RAISE(ROLLBACK, 'a run is ended once');
END;

INSERT INTO job_runs (job_number, number, run_id, attempt, started_at, pid)
SELECT number, 1, run_id, max(1, attempts), started_at, pid
FROM jobs
WHERE state = 'RUNNING';
UPDATE jobs SET run_count = 1 WHERE state = 'RUNNING';
