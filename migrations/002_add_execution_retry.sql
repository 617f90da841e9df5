-- ADR-010, phase 2: how a job is executed, retried and bounded in time.

ALTER TABLE jobs ADD COLUMN trace_id TEXT;
ALTER TABLE jobs ADD COLUMN execution_mode TEXT CHECK(execution_mode IN ('IN_PROCESS', 'SUBPROCESS'));
ALTER TABLE jobs ADD COLUMN pid INTEGER;
ALTER TABLE jobs ADD COLUMN env_vars TEXT;
ALTER TABLE jobs ADD COLUMN attempts INTEGER DEFAULT 0;
ALTER TABLE jobs ADD COLUMN max_attempts INTEGER DEFAULT 0;
ALTER TABLE jobs ADD COLUMN backoff_factor REAL DEFAULT 2.0;
ALTER TABLE jobs ADD COLUMN deadline INTEGER;
ALTER TABLE jobs ADD COLUMN ttl_ms INTEGER;
