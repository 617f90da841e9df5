-- ADR-010, phase 4: grouping, labels and what came out.

ALTER TABLE jobs ADD COLUMN parent_job_id TEXT;
ALTER TABLE jobs ADD COLUMN chain_group_id TEXT;
ALTER TABLE jobs ADD COLUMN user_tag TEXT;
ALTER TABLE jobs ADD COLUMN result_summary TEXT;
ALTER TABLE jobs ADD COLUMN artifact_path TEXT;

CREATE INDEX idx_jobs_user_tag ON jobs (user_tag);
