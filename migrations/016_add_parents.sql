-- Chains: a job waits until its parents are DONE. jobs.parent_job_id has the first of them.
-- The gates are rows of job_conditions with the key 'job:' and the parent's id. Both foreign keys delete the link only:
-- a parent that is deleted had ended, so no job waits for it any more.

CREATE TABLE job_parents (
  job_id TEXT NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
  ordinal INTEGER NOT NULL,  -- 0 is the first parent
  parent_id TEXT NOT NULL REFERENCES jobs(id) ON DELETE CASCADE CHECK (parent_id <> job_id),
  PRIMARY KEY (job_id, ordinal)
) WITHOUT ROWID;

CREATE UNIQUE INDEX idx_job_parents_parent ON job_parents (parent_id, job_id);
