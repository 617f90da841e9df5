-- What a SCHEDULED job waits for besides a time. `unmet` counts what has to happen once (events, conditions, its turn):
-- at zero only time and the machine are left, and idx_jobs_due has one ordered walk for each need of the machine.

ALTER TABLE jobs ADD COLUMN unmet INTEGER NOT NULL DEFAULT 0 CHECK (unmet >= 0);
ALTER TABLE jobs ADD COLUMN event_met_at INTEGER;
ALTER TABLE jobs ADD COLUMN stop_when_lost INTEGER NOT NULL DEFAULT 0 CHECK (stop_when_lost IN (0, 1));

-- 1: scheduled_at is the end of a delay (AFTER, backoff, debounce) and moves along when the clock is stepped.
ALTER TABLE jobs ADD COLUMN is_delay INTEGER NOT NULL DEFAULT 0 CHECK (is_delay IN (0, 1));
UPDATE jobs SET is_delay = 1 WHERE state = 'SCHEDULED' AND (schedule_type = 'AFTER' OR attempts > 0);

-- Debounce: since when this lane has been postponed without a run.
ALTER TABLE jobs ADD COLUMN debounce_ms INTEGER;
ALTER TABLE jobs ADD COLUMN max_wait_ms INTEGER;
ALTER TABLE jobs ADD COLUMN postponed_since INTEGER;

-- A condition is waited for until it is met or its job has ended; only such rows are looked up by an event.
ALTER TABLE job_conditions ADD COLUMN met_at INTEGER;
ALTER TABLE job_conditions ADD COLUMN waiting INTEGER NOT NULL DEFAULT 1
  CHECK (waiting = 0 OR (waiting = 1 AND met_at IS NULL));
CREATE INDEX idx_job_conditions_waiting ON job_conditions (key, value, job_id) WHERE waiting = 1;

UPDATE jobs SET wait_for_idle = coalesce(wait_for_idle, 0), require_charging = coalesce(require_charging, 0)
WHERE wait_for_idle IS NULL OR require_charging IS NULL;
UPDATE jobs
SET unmet = (wait_for_event IS NOT NULL) + (SELECT count(*) FROM job_conditions WHERE job_id = jobs.id)
WHERE state = 'SCHEDULED' AND attempts = 0;
-- What is live and waits for nothing of that any more has had it.
UPDATE jobs
SET event_met_at = coalesce(started_at, created_at)
WHERE wait_for_event IS NOT NULL AND unmet = 0 AND finished_at IS NULL;
UPDATE job_conditions
SET waiting = 0, met_at = (SELECT coalesce(started_at, created_at) FROM jobs WHERE id = job_id AND finished_at IS NULL)
WHERE job_id NOT IN (SELECT id FROM jobs WHERE state = 'SCHEDULED' AND unmet > 0);

DROP INDEX idx_jobs_due;
CREATE INDEX idx_jobs_due ON jobs (wait_for_idle, require_charging, coalesce(scheduled_at, 0))
  WHERE state = 'SCHEDULED' AND unmet = 0;
CREATE INDEX idx_jobs_event ON jobs (wait_for_event)
  WHERE wait_for_event IS NOT NULL AND event_met_at IS NULL AND state = 'SCHEDULED';
-- Those that go back to waiting when the machine is no longer idle, or off the mains, before they start.
CREATE INDEX idx_jobs_needy ON jobs (wait_for_idle, require_charging)
  WHERE state = 'QUEUED' AND (wait_for_idle = 1 OR require_charging = 1);

-- How long runs of the queue take of late, for job.explain.
ALTER TABLE queue_counts ADD COLUMN recent_run_ms INTEGER NOT NULL DEFAULT 0;
UPDATE queue_counts SET recent_run_ms = run_ms / ended_runs WHERE ended_runs > 0;
