-- What stays of jobs whose rows are pruned.

-- For ever: one row for each pruned job that has no receipt. finished_at is when it ended, pruned_at when its row went.
CREATE TABLE job_summaries (
  id TEXT PRIMARY KEY,
  job_type TEXT NOT NULL,
  queue TEXT NOT NULL,
  subject_key TEXT NOT NULL,
  generation INTEGER NOT NULL,
  state TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER NOT NULL,
  pruned_at INTEGER NOT NULL,
  exit_code INTEGER,
  error_code TEXT
) WITHOUT ROWID;

-- Of the events that are gone: how many there were on each day (in UTC), and how long the runs took that they report.
CREATE TABLE event_aggregates (
  day TEXT NOT NULL,
  queue TEXT NOT NULL,
  job_type TEXT NOT NULL,
  event_type TEXT NOT NULL,
  events INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (day, queue, job_type, event_type)
) WITHOUT ROWID;
