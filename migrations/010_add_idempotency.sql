-- A call repeated with the same key is the same job until the key expires, also when the job itself is pruned:
-- whoever prunes it leaves its last state in `ended`.

CREATE TABLE idempotency (
  idempotency_key TEXT PRIMARY KEY,
  job_id TEXT NOT NULL,
  spec_hash TEXT NOT NULL,
  ended TEXT,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE INDEX idx_idempotency_expires ON idempotency (expires_at);
