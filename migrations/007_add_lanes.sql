-- Newest wins: what a lane knows outlives its jobs, so that pruning never lets an old save win.

CREATE TABLE lanes (
  subject_key TEXT NOT NULL,
  job_type TEXT NOT NULL,
  generation INTEGER NOT NULL,
  job_id TEXT NOT NULL,
  ended TEXT CHECK (ended IS NULL OR NOT (ended = 'QUEUED' OR ended = 'SCHEDULED' OR ended = 'RUNNING')),
  numbered_by TEXT NOT NULL CHECK (numbered_by IN ('server', 'client')),
  interrupts INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (subject_key, job_type)
) WITHOUT ROWID;

ALTER TABLE jobs ADD COLUMN supersede TEXT NOT NULL DEFAULT 'lane'
  CHECK (supersede = 'lane' OR supersede = 'subject' OR supersede = 'none');
ALTER TABLE jobs ADD COLUMN on_running TEXT NOT NULL DEFAULT 'finish' CHECK (on_running IN ('finish', 'cancel'));
ALTER TABLE jobs ADD COLUMN max_interrupts INTEGER NOT NULL DEFAULT 3;
ALTER TABLE jobs ADD COLUMN stale INTEGER NOT NULL DEFAULT 0 CHECK (stale IN (0, 1));
ALTER TABLE jobs ADD COLUMN superseded_by TEXT;
UPDATE jobs SET superseded_by = '' WHERE state = 'SUPERSEDED';
ALTER TABLE jobs ADD COLUMN retry_of TEXT CHECK (state <> 'SUPERSEDED' OR superseded_by IS NOT NULL);

CREATE UNIQUE INDEX idx_jobs_lane_generation ON jobs (subject_key, job_type, generation)
  WHERE subject_key <> '' AND supersede <> 'none' AND retry_of IS NULL;

-- Live is written as finished_at IS NULL (a CHECK ties it to the state): a change between live states then leaves
-- these alone. Selections (job.cancel and its kin) touch live jobs only, however long a tag's history is.
CREATE INDEX idx_jobs_lane_live ON jobs (subject_key, job_type)
  WHERE finished_at IS NULL AND subject_key <> '' AND supersede <> 'none';
CREATE INDEX idx_jobs_subject_live ON jobs (subject_key) WHERE finished_at IS NULL AND subject_key <> '';
CREATE INDEX idx_jobs_tag_live ON jobs (user_tag) WHERE finished_at IS NULL AND user_tag IS NOT NULL;
CREATE INDEX idx_jobs_group_live ON jobs (chain_group_id) WHERE finished_at IS NULL AND chain_group_id IS NOT NULL;
CREATE INDEX idx_jobs_group ON jobs (chain_group_id) WHERE chain_group_id IS NOT NULL;
