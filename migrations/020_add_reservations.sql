-- While a reservation is ACTIVE nothing is dispatched. job_id: of the job that job.execute runs under it.

CREATE TABLE direct_reservations (
  reservation_id TEXT PRIMARY KEY,
  reserved_at INTEGER NOT NULL,
  reserved_by TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'ACTIVE' CHECK (status = 'ACTIVE' OR status = 'RELEASED' OR status = 'EXPIRED'),
  expires_at INTEGER NOT NULL,
  job_id TEXT
);

CREATE UNIQUE INDEX idx_direct_reservations_active ON direct_reservations (status) WHERE status = 'ACTIVE';
