-- The rules of queues that queue.configure and queue.pause have made durable, and what each queue has done so far.

CREATE TABLE queues (
  queue TEXT PRIMARY KEY,
  slots INTEGER CHECK (slots >= 0),
  on_running TEXT CHECK (on_running = 'finish' OR on_running = 'cancel'),
  max_queued INTEGER CHECK (max_queued >= 0),
  paused_at INTEGER,
  resume_at INTEGER CHECK (resume_at IS NULL OR paused_at IS NOT NULL)
) WITHOUT ROWID;
CREATE INDEX idx_queues_resume ON queues (resume_at) WHERE resume_at IS NOT NULL;

-- Totals of jobs and runs that have ended, kept in the commit that ends them: stats never scan history. What is live is
-- counted from the partial indexes of jobs instead, so that an enqueue and a claim need not write here.
CREATE TABLE queue_counts (
  queue TEXT PRIMARY KEY,
  done INTEGER NOT NULL DEFAULT 0,
  failed INTEGER NOT NULL DEFAULT 0,
  cancelled INTEGER NOT NULL DEFAULT 0,
  superseded INTEGER NOT NULL DEFAULT 0,
  skipped INTEGER NOT NULL DEFAULT 0,
  runs INTEGER NOT NULL DEFAULT 0,
  wait_ms INTEGER NOT NULL DEFAULT 0,
  timed_runs INTEGER NOT NULL DEFAULT 0,
  run_ms INTEGER NOT NULL DEFAULT 0,
  recent_run_ms INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;

INSERT INTO queue_counts (queue, done, failed, cancelled, superseded, skipped)
SELECT queue, sum(state = 'DONE'), sum(state = 'FAILED'), sum(state = 'CANCELLED'), sum(state = 'SUPERSEDED'),
  sum(state = 'SKIPPED_TTL' OR state = 'SKIPPED_DEADLINE')
FROM jobs
GROUP BY queue;
