-- Receipts and artifacts: the signed record of how a job has ended, and the files that it has made.
-- A receipt outlives its job, so it refers to it by id and not by a foreign key. `receipt` is the signed document, byte
-- for byte; `hash` is its sha256, which the receipt with the next number repeats as `previous`.

CREATE TABLE receipts (
  number INTEGER PRIMARY KEY,
  job_id TEXT NOT NULL UNIQUE,
  created_at INTEGER NOT NULL,
  hash TEXT NOT NULL,
  previous TEXT,
  signature TEXT NOT NULL,
  receipt TEXT NOT NULL CHECK (json_valid(receipt))
);

-- AFTER and ROLLBACK: see 021.
CREATE TRIGGER receipts_are_final
AFTER UPDATE ON receipts
BEGIN
  SELECT RAISE(ROLLBACK, 'a receipt is written once');
END;

-- `path` is relative to the folder of the job. `mtime` is in epoch ms, as the instants are.
CREATE TABLE artifacts (
  id INTEGER PRIMARY KEY,
  job_number INTEGER NOT NULL REFERENCES jobs(number) ON DELETE CASCADE,
  run_id TEXT,
  name TEXT NOT NULL,
  path TEXT NOT NULL,
  artifact_type TEXT NOT NULL CHECK (
    artifact_type = 'output' OR artifact_type = 'receipt' OR artifact_type = 'log' OR artifact_type = 'partial'
  ),
  status TEXT NOT NULL DEFAULT 'pending' CHECK (
    status = 'pending' OR status = 'writing' OR status = 'complete' OR status = 'failed' OR status = 'quarantined'
  ),
  size_bytes INTEGER,
  mtime INTEGER,
  sha256 TEXT,
  created_at INTEGER NOT NULL,
  verified_at INTEGER
);

CREATE INDEX idx_artifacts_job ON artifacts (job_number);
