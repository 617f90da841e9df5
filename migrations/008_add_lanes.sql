-- Newest wins: what is known of a lane outlives its jobs, so that pruning never lets an old save win.

CREATE TABLE lanes (
  subject_key TEXT NOT NULL,
  job_type TEXT NOT NULL,
  generation INTEGER NOT NULL,
  job_id TEXT NOT NULL,
  ended TEXT CHECK (ended IS NULL OR NOT (ended = 'QUEUED' OR ended = 'SCHEDULED' OR ended = 'RUNNING')),
  numbered_by TEXT NOT NULL CHECK (numbered_by = 'server' OR numbered_by = 'client'),
  interrupts INTEGER NOT NULL DEFAULT 0,
  -- Whether an append job was ever added: only then a new job has to look for such jobs.
  appends INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (subject_key, job_type)
) WITHOUT ROWID;

INSERT INTO lanes (subject_key, job_type, generation, job_id, ended, numbered_by)
SELECT subject_key, job_type, max(generation), id,
  CASE WHEN state IN ('QUEUED', 'SCHEDULED', 'RUNNING') THEN NULL ELSE state END, 'client'
FROM jobs
WHERE subject_key <> '' AND supersede <> 'none'
GROUP BY subject_key, job_type;
