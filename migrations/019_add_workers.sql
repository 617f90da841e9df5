-- External workers, and the leases of the runs they have claimed. A lease ends with its run; run_token is what the
-- worker reports by, and outlives a restart of the daemon.

CREATE TABLE workers (
  worker_id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  pid INTEGER,
  started_at INTEGER NOT NULL,
  last_heartbeat INTEGER NOT NULL,
  items_processed INTEGER NOT NULL DEFAULT 0,
  items_failed INTEGER NOT NULL DEFAULT 0,
  left_at INTEGER
);

CREATE TABLE leases (
  run_id TEXT PRIMARY KEY,
  worker_id TEXT NOT NULL REFERENCES workers(worker_id),
  job_number INTEGER NOT NULL REFERENCES jobs(number) ON DELETE CASCADE,
  run_token TEXT NOT NULL UNIQUE,
  lease_ms INTEGER NOT NULL CHECK (lease_ms > 0),
  expires_at INTEGER NOT NULL,
  -- When the run must have ended by its timeout_ms.
  ends_at INTEGER
);

CREATE INDEX idx_leases_expires ON leases (expires_at);
CREATE INDEX idx_leases_ends ON leases (ends_at) WHERE ends_at IS NOT NULL;
CREATE INDEX idx_leases_worker ON leases (worker_id);
CREATE INDEX idx_leases_job ON leases (job_number);
