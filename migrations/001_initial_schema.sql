-- ADR-010, phase 1: identity, supersede, state and timing, payload.

CREATE TABLE jobs (
  id TEXT PRIMARY KEY,
  queue TEXT NOT NULL,
  job_type TEXT NOT NULL,
  subject_key TEXT NOT NULL,
  generation INTEGER NOT NULL,
  priority INTEGER DEFAULT 0,
  state TEXT NOT NULL CHECK(state IN (
    'QUEUED', 'SCHEDULED', 'RUNNING', 'DONE',
    'FAILED', 'CANCELLED', 'SUPERSEDED',
    'SKIPPED_TTL', 'SKIPPED_DEADLINE'
  )),
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER,
  payload TEXT NOT NULL,
  log_path TEXT
);

CREATE INDEX idx_jobs_pop ON jobs (queue, priority DESC, created_at ASC, id);
CREATE INDEX idx_jobs_subject_generation ON jobs (subject_key, generation DESC);
CREATE INDEX idx_jobs_state_queue ON jobs (state, queue);
CREATE INDEX idx_jobs_gc ON jobs (finished_at);
