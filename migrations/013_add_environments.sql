-- The environments that callers hand over with their jobs. Each content is stored once, whatever number of jobs has it.
-- variables: JSON, name to text or {"base64": …}. secrets: JSON list of the names whose values are kept in memory only.
-- left_out: the daemon was restarted since, so that the jobs that refer to this row run without the secrets.

CREATE TABLE environments (
  environment_id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL,
  variables TEXT NOT NULL,
  secrets TEXT,
  left_out INTEGER NOT NULL DEFAULT 0 CHECK (left_out = 0 OR (left_out = 1 AND secrets IS NOT NULL)),
  UNIQUE (hash, left_out)
);

-- No foreign key: a job without an environment would pay for it. Rows that no job refers to are deleted at start.
ALTER TABLE jobs ADD COLUMN environment_id INTEGER;
CREATE INDEX idx_jobs_environment ON jobs (environment_id) WHERE environment_id IS NOT NULL;
