-- Queues, the order inside them, and what is due: partial indexes that never walk finished rows.

CREATE TABLE queues (
  queue TEXT PRIMARY KEY,
  slots INTEGER CHECK (slots >= 0),
  on_running TEXT CHECK (on_running IN ('finish', 'cancel')),
  max_queued INTEGER CHECK (max_queued >= 0),
  paused_at INTEGER,
  resume_at INTEGER CHECK (resume_at IS NULL OR paused_at IS NOT NULL)
) WITHOUT ROWID;

-- Maintained with every change of state, in the same transaction: stats never scan history.
CREATE TABLE queue_counts (
  queue TEXT PRIMARY KEY,
  queued INTEGER NOT NULL DEFAULT 0 CHECK (queued >= 0),
  scheduled INTEGER NOT NULL DEFAULT 0 CHECK (scheduled >= 0),
  running INTEGER NOT NULL DEFAULT 0 CHECK (running >= 0),
  done INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  superseded INTEGER NOT NULL DEFAULT 0,
  skipped INTEGER NOT NULL DEFAULT 0,
  runs INTEGER NOT NULL DEFAULT 0,
  wait_ms INTEGER NOT NULL DEFAULT 0,
  ended_runs INTEGER NOT NULL DEFAULT 0,
  run_ms INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

ALTER TABLE jobs ADD COLUMN position INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN queued_at INTEGER;
UPDATE jobs SET queued_at = created_at WHERE state = 'QUEUED';
ALTER TABLE jobs ADD COLUMN expires_at INTEGER CHECK (state <> 'QUEUED' OR queued_at IS NOT NULL);

INSERT INTO queue_counts (queue, queued, scheduled, running, done, failed, cancelled, superseded, skipped)
SELECT queue, sum(state = 'QUEUED'), sum(state = 'SCHEDULED'), sum(state = 'RUNNING'), sum(state = 'DONE'),
  sum(state = 'FAILED'), sum(state = 'CANCELLED'), sum(state = 'SUPERSEDED'), sum(state LIKE 'SKIPPED%')
FROM jobs
GROUP BY queue;

DROP INDEX idx_jobs_pop;
CREATE INDEX idx_jobs_pop ON jobs (queue, priority DESC, position ASC, created_at ASC, id)
  WHERE state = 'QUEUED' AND execution_mode IS NOT NULL;
CREATE INDEX idx_jobs_due ON jobs (scheduled_at)
  WHERE scheduled_at IS NOT NULL AND state = 'SCHEDULED';
CREATE INDEX idx_jobs_expires ON jobs (expires_at)
  WHERE expires_at IS NOT NULL AND state = 'QUEUED';
CREATE INDEX idx_jobs_deadline ON jobs (deadline)
  WHERE deadline IS NOT NULL AND state IN ('QUEUED', 'SCHEDULED');
CREATE INDEX idx_queues_resume ON queues (resume_at) WHERE resume_at IS NOT NULL;
