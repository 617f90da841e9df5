-- External workers, and the leases of the runs they have claimed. A lease is deleted when its run ends; run_token is what
-- the worker reports by, and outlives a restart of the daemon.

-- queues, job_types and lease_ms: of its latest claim. NULL: of every queue, of every type.
CREATE TABLE workers (
  worker_id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  pid INTEGER,
  started_at INTEGER NOT NULL,
  last_heartbeat INTEGER NOT NULL,
  items_processed INTEGER NOT NULL DEFAULT 0,
  items_failed INTEGER NOT NULL DEFAULT 0,
  queues TEXT CHECK (queues IS NULL OR json_valid(queues)),
  job_types TEXT CHECK (job_types IS NULL OR json_valid(job_types)),
  lease_ms INTEGER NOT NULL CHECK (lease_ms > 0),
  left_at INTEGER
) WITHOUT ROWID;

CREATE TABLE leases (
  run_id TEXT PRIMARY KEY,
  worker_id TEXT NOT NULL REFERENCES workers(worker_id),
  job_number INTEGER NOT NULL REFERENCES jobs(number) ON DELETE CASCADE,
  run_token TEXT NOT NULL UNIQUE,
  lease_ms INTEGER NOT NULL CHECK (lease_ms > 0),
  -- Never later than the three instants below.
  expires_at INTEGER NOT NULL,
  -- The end of its timeout_ms; the deadline of its job; the end of its grace period, once its worker was told to stop.
  ends_at INTEGER,
  deadline INTEGER,
  stop_at INTEGER
) WITHOUT ROWID;

CREATE INDEX idx_workers_heartbeat ON workers (last_heartbeat);
CREATE INDEX idx_leases_expires ON leases (expires_at);
CREATE INDEX idx_leases_worker ON leases (worker_id);
CREATE UNIQUE INDEX idx_leases_job ON leases (job_number);
