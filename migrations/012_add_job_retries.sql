-- Jobs that were repeated, and their retries. jobs.retry_of names the job before; here every job of such a history names
-- the first one, so that job.get reads a history by one index. A job that is never retried has no row.

CREATE TABLE job_retries (
  job_id TEXT PRIMARY KEY,
  first_job_id TEXT NOT NULL
) WITHOUT ROWID;

CREATE INDEX idx_job_retries_first ON job_retries (first_job_id);
