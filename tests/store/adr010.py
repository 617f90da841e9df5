"""The SQL of ADR-010 (docs/decisions.md), word for word: the single source of truth of the schema, and its phases."""

JOBS = """
CREATE TABLE jobs (
  -- Identity
  id TEXT PRIMARY KEY,            -- UUID v4
  trace_id TEXT,                  -- OpenTelemetry Trace ID (Added in Phase 2)

  -- Classification
  queue TEXT NOT NULL,            -- e.g., 'code_intel', 'build'
  job_type TEXT NOT NULL,         -- e.g., 'INDEX_FILE', 'RUN_TEST'
  subject_key TEXT NOT NULL,      -- Format: <client>::<repo>::<path> (For Supersede)
  generation INTEGER NOT NULL,    -- Monotonic counter for Supersede logic

  -- State & Timing
  priority INTEGER DEFAULT 0,
  state TEXT NOT NULL CHECK(state IN (
    'QUEUED', 'SCHEDULED', 'RUNNING', 'DONE',
    'FAILED', 'CANCELLED', 'SUPERSEDED',
    'SKIPPED_TTL', 'SKIPPED_DEADLINE'
  )),
  created_at INTEGER NOT NULL,    -- Epoch ms
  started_at INTEGER,
  finished_at INTEGER,

  -- Execution Details (Phase 2+)
  execution_mode TEXT CHECK(execution_mode IN ('IN_PROCESS', 'SUBPROCESS')),
  pid INTEGER,                    -- OS PID for Subprocess
  env_vars TEXT,                  -- JSON: Context-specific env vars

  -- Resilience (Phase 2+)
  attempts INTEGER DEFAULT 0,
  max_attempts INTEGER DEFAULT 0,
  backoff_factor REAL DEFAULT 2.0,
  deadline INTEGER,               -- Epoch ms (Hard timeout)
  ttl_ms INTEGER,                 -- Time-to-Live in Queue

  -- Scheduling & Conditions (Phase 3+)
  schedule_type TEXT CHECK(schedule_type IN ('IMMEDIATE', 'AT', 'AFTER', 'CONDITION')),
  scheduled_at INTEGER,
  schedule_delay_ms INTEGER,
  wait_for_idle INTEGER DEFAULT 0,      -- Boolean (0/1)
  require_charging INTEGER DEFAULT 0,   -- Boolean (0/1)
  wait_for_event TEXT,                  -- Event Key (e.g., 'git:commit')

  -- Grouping & UX (Phase 4)
  parent_job_id TEXT,             -- For atomic chains
  chain_group_id TEXT,            -- Logical grouping (e.g., CI Session)
  user_tag TEXT,                  -- User-facing tag (e.g., 'nightly-check')

  -- Outputs
  payload TEXT NOT NULL,          -- Input Arguments (JSON)
  result_summary TEXT,            -- Execution Result (JSON)
  log_path TEXT,                  -- Path to stdout/stderr log file
  artifact_path TEXT              -- Path to output artifacts directory
);
"""

JOB_CONDITIONS = """
CREATE TABLE job_conditions (
  job_id TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (job_id, key),
  FOREIGN KEY (job_id) REFERENCES jobs(id) ON DELETE CASCADE
);
"""

# name: (table, columns with their direction)
INDEXES: dict[str, tuple[str, str]] = {
    "idx_jobs_pop": ("jobs", "queue, priority DESC, created_at ASC, id"),
    "idx_jobs_subject_generation": ("jobs", "subject_key, generation DESC"),
    "idx_jobs_state_queue": ("jobs", "state, queue"),
    "idx_jobs_gc": ("jobs", "finished_at"),
    "idx_jobs_user_tag": ("jobs", "user_tag"),
    "idx_job_conditions_lookup": ("job_conditions", "key, value, job_id"),
}

# What each phase adds: the table of section 5, its abbreviations written out as section 3 has the columns.
PHASES: dict[int, str] = {
    1: "id queue job_type subject_key generation priority state created_at started_at finished_at payload log_path",
    2: "trace_id execution_mode pid env_vars attempts max_attempts backoff_factor deadline ttl_ms",
    3: "schedule_type scheduled_at schedule_delay_ms wait_for_idle require_charging wait_for_event",
    4: "parent_job_id chain_group_id user_tag result_summary artifact_path",
}
FILES = ("001_initial_schema", "002_add_execution_retry", "003_add_conditions", "004_add_dx_fields")
