-- The stream: every change of a job, in one sequence without gaps, written in the same transaction.
-- queue and user_tag stand beside the event so that a filter needs no join.
-- No foreign key: retention prunes events before and apart from their jobs.

ALTER TABLE jobs ADD COLUMN event_count INTEGER NOT NULL DEFAULT 0;

CREATE TABLE job_events (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id TEXT,
  job_sequence INTEGER,
  timestamp_at INTEGER NOT NULL,
  event_type TEXT NOT NULL,
  level TEXT NOT NULL CHECK (level = 'info' OR level = 'warn' OR level = 'error' OR level = 'debug'),
  subsystem TEXT NOT NULL,
  message TEXT NOT NULL,
  correlation_id TEXT,
  payload TEXT NOT NULL CHECK (json_valid(payload)),
  queue TEXT,
  user_tag TEXT,
  CHECK ((job_id IS NULL) = (job_sequence IS NULL))
);

CREATE INDEX idx_job_events_job_seq ON job_events (job_id, sequence) WHERE job_id IS NOT NULL;

-- What there is one of: the stream's epoch, the instant of the last synced commit.
CREATE TABLE facts (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

INSERT INTO facts (name, value) VALUES ('epoch', lower(hex(randomblob(8))));
