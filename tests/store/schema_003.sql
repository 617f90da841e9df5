CREATE TABLE facts (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE idempotency (
  idempotency_key TEXT PRIMARY KEY,
  job_id TEXT NOT NULL,
  spec_hash TEXT NOT NULL,
  ended TEXT,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE job_conditions (
  job_id TEXT NOT NULL,
  key TEXT NOT NULL,
  value TEXT NOT NULL, met_at INTEGER, waiting INTEGER NOT NULL DEFAULT 1
  CHECK (waiting = 0 OR (waiting = 1 AND met_at IS NULL)),
  PRIMARY KEY (job_id, key),
  FOREIGN KEY (job_id) REFERENCES jobs(id) ON DELETE CASCADE
);

CREATE TABLE job_events (
  sequence INTEGER PRIMARY KEY AUTOINCREMENT,
  job_id TEXT,
  job_sequence INTEGER,
  timestamp_at INTEGER NOT NULL,
  event_type TEXT NOT NULL,
  level TEXT NOT NULL CHECK (level = 'info' OR level = 'warn' OR level = 'error' OR level = 'debug'),
  subsystem TEXT NOT NULL,
  message TEXT NOT NULL,
  correlation_id TEXT,
  payload TEXT NOT NULL CHECK (json_valid(payload)),
  queue TEXT,
  user_tag TEXT,
  CHECK ((job_id IS NULL) = (job_sequence IS NULL))
);

CREATE TABLE job_runs (
  run_id TEXT PRIMARY KEY,
  job_id TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  status TEXT NOT NULL DEFAULT 'RUNNING' CHECK (
    status = 'RUNNING' OR status = 'DONE' OR status = 'FAILED'
    OR status = 'CANCELLED' OR status = 'SUPERSEDED' OR status = 'INTERRUPTED'
  ),
  params_snapshot TEXT NOT NULL CHECK (json_valid(params_snapshot)),
  template_id TEXT,
  worker_id TEXT,
  pid INTEGER,
  pid_started_at INTEGER,
  boot_id TEXT,
  log_path TEXT,
  exit_code INTEGER,
  error TEXT CHECK (error IS NULL OR json_valid(error)),
  artifacts TEXT CHECK (artifacts IS NULL OR json_valid(artifacts)),
  started_at INTEGER NOT NULL,
  finished_at INTEGER,
  CHECK ((finished_at IS NOT NULL) = (status <> 'RUNNING')),
  FOREIGN KEY (job_id) REFERENCES jobs(id) ON DELETE CASCADE
);

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
, trace_id TEXT, execution_mode TEXT CHECK(execution_mode IN ('IN_PROCESS', 'SUBPROCESS')), pid INTEGER, env_vars TEXT, attempts INTEGER DEFAULT 0, max_attempts INTEGER DEFAULT 0, backoff_factor REAL DEFAULT 2.0, deadline INTEGER, ttl_ms INTEGER, schedule_type TEXT CHECK(schedule_type IN ('IMMEDIATE', 'AT', 'AFTER', 'CONDITION')), scheduled_at INTEGER, schedule_delay_ms INTEGER, wait_for_idle INTEGER DEFAULT 0, require_charging INTEGER DEFAULT 0, wait_for_event TEXT, parent_job_id TEXT, chain_group_id TEXT, user_tag TEXT, result_summary TEXT, artifact_path TEXT, updated_at INTEGER, run_id TEXT, run_count INTEGER NOT NULL DEFAULT 0
  CHECK ((finished_at IS NULL) = (state = 'QUEUED' OR state = 'SCHEDULED' OR state = 'RUNNING'))
  CHECK (state <> 'RUNNING' OR (run_id IS NOT NULL AND started_at IS NOT NULL)), claim_attempts INTEGER NOT NULL DEFAULT 0, backoff_base_ms INTEGER NOT NULL DEFAULT 1000, timeout_ms INTEGER, grace_ms INTEGER, on_interrupt TEXT NOT NULL DEFAULT 'fail' CHECK (on_interrupt IN ('fail', 'requeue')), cancel_requested_at INTEGER, stop_state TEXT CHECK (
  stop_state IS NULL OR (stop_state IN ('CANCELLED', 'SUPERSEDED') AND cancel_requested_at IS NOT NULL)
), exit_code INTEGER, error_code TEXT, error_class TEXT
  CHECK (error_class IS NULL OR error_class = 'transient' OR error_class = 'permanent' OR error_class = 'infra'), error_message TEXT, error_details TEXT CHECK (error_details IS NULL OR json_valid(error_details)), progress_percent REAL, progress_phase TEXT, progress_items_completed INTEGER, progress_items_total INTEGER, progress_message TEXT, event_count INTEGER NOT NULL DEFAULT 0, supersede TEXT NOT NULL DEFAULT 'lane'
  CHECK (supersede = 'lane' OR supersede = 'subject' OR supersede = 'none'), on_running TEXT NOT NULL DEFAULT 'finish' CHECK (on_running IN ('finish', 'cancel')), max_interrupts INTEGER NOT NULL DEFAULT 3, stale INTEGER NOT NULL DEFAULT 0 CHECK (stale IN (0, 1)), superseded_by TEXT, retry_of TEXT CHECK (state <> 'SUPERSEDED' OR superseded_by IS NOT NULL), position INTEGER NOT NULL DEFAULT 0, queued_at INTEGER, expires_at INTEGER CHECK (state <> 'QUEUED' OR queued_at IS NOT NULL), idempotency_key TEXT, spec_hash TEXT, leftovers TEXT NOT NULL DEFAULT 'end' CHECK (leftovers IN ('end', 'keep')), unmet INTEGER NOT NULL DEFAULT 0 CHECK (unmet >= 0), event_met_at INTEGER, stop_when_lost INTEGER NOT NULL DEFAULT 0 CHECK (stop_when_lost IN (0, 1)), is_delay INTEGER NOT NULL DEFAULT 0 CHECK (is_delay IN (0, 1)), debounce_ms INTEGER, max_wait_ms INTEGER, postponed_since INTEGER, template_id TEXT, schedule_id TEXT, awaits_turn INTEGER NOT NULL DEFAULT 0 CHECK (awaits_turn IN (0, 1)));

CREATE TABLE lanes (
  subject_key TEXT NOT NULL,
  job_type TEXT NOT NULL,
  generation INTEGER NOT NULL,
  job_id TEXT NOT NULL,
  ended TEXT CHECK (ended IS NULL OR NOT (ended = 'QUEUED' OR ended = 'SCHEDULED' OR ended = 'RUNNING')),
  numbered_by TEXT NOT NULL CHECK (numbered_by IN ('server', 'client')),
  interrupts INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (subject_key, job_type)
) WITHOUT ROWID;

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
, recent_run_ms INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;

CREATE TABLE queues (
  queue TEXT PRIMARY KEY,
  slots INTEGER CHECK (slots >= 0),
  on_running TEXT CHECK (on_running IN ('finish', 'cancel')),
  max_queued INTEGER CHECK (max_queued >= 0),
  paused_at INTEGER,
  resume_at INTEGER CHECK (resume_at IS NULL OR paused_at IS NOT NULL)
) WITHOUT ROWID;

CREATE TABLE schedules (
  schedule_id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  template_id TEXT NOT NULL REFERENCES templates(template_id),
  cron_expression TEXT NOT NULL,
  timezone TEXT NOT NULL DEFAULT 'UTC',
  enabled INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
  param_overrides TEXT CHECK (param_overrides IS NULL OR json_valid(param_overrides)),
  misfire TEXT NOT NULL DEFAULT 'run_once' CHECK (misfire = 'run_once' OR misfire = 'skip' OR misfire = 'run_all'),
  overlap TEXT NOT NULL DEFAULT 'queue' CHECK (overlap = 'queue' OR overlap = 'skip' OR overlap = 'supersede'),
  last_triggered_at INTEGER,
  -- The watermark fired_to is the latest time that was fired; all times from fired_from to it were. After the clock is
  -- set back by less than three hours they are not fired again.
  fired_from INTEGER,
  fired_to INTEGER,
  next_trigger_at INTEGER CHECK (next_trigger_at IS NULL OR enabled = 1),
  last_job_id TEXT,
  interrupts INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);

CREATE TABLE schema_version (
  version INTEGER PRIMARY KEY,
  applied_at INTEGER NOT NULL,
  description TEXT NOT NULL,
  checksum TEXT NOT NULL
);

CREATE TABLE templates (
  template_id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  spec TEXT NOT NULL CHECK (json_valid(spec)),
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
);

CREATE INDEX idx_idempotency_expires ON idempotency (expires_at);

CREATE INDEX idx_job_conditions_lookup ON job_conditions (key, value, job_id);

CREATE INDEX idx_job_conditions_waiting ON job_conditions (key, value, job_id) WHERE waiting = 1;

CREATE INDEX idx_job_events_job_seq ON job_events (job_id, sequence) WHERE job_id IS NOT NULL;

CREATE INDEX idx_job_runs_job ON job_runs (job_id, attempt);

CREATE INDEX idx_jobs_deadline ON jobs (deadline)
  WHERE deadline IS NOT NULL AND state IN ('QUEUED', 'SCHEDULED');

CREATE INDEX idx_jobs_due ON jobs (wait_for_idle, require_charging, coalesce(scheduled_at, 0))
  WHERE state = 'SCHEDULED' AND unmet = 0;

CREATE INDEX idx_jobs_event ON jobs (wait_for_event)
  WHERE wait_for_event IS NOT NULL AND event_met_at IS NULL AND state = 'SCHEDULED';

CREATE INDEX idx_jobs_expires ON jobs (expires_at)
  WHERE expires_at IS NOT NULL AND state = 'QUEUED';

CREATE INDEX idx_jobs_gc ON jobs (finished_at);

CREATE INDEX idx_jobs_group ON jobs (chain_group_id) WHERE chain_group_id IS NOT NULL;

CREATE INDEX idx_jobs_group_live ON jobs (chain_group_id) WHERE finished_at IS NULL AND chain_group_id IS NOT NULL;

CREATE UNIQUE INDEX idx_jobs_lane_generation ON jobs (subject_key, job_type, generation)
  WHERE subject_key <> '' AND supersede <> 'none' AND retry_of IS NULL;

CREATE INDEX idx_jobs_lane_live ON jobs (subject_key, job_type)
  WHERE finished_at IS NULL AND subject_key <> '' AND supersede <> 'none';

CREATE INDEX idx_jobs_needy ON jobs (wait_for_idle, require_charging)
  WHERE state = 'QUEUED' AND (wait_for_idle = 1 OR require_charging = 1);

CREATE INDEX idx_jobs_pop ON jobs (queue, priority DESC, position ASC, created_at ASC, id)
  WHERE state = 'QUEUED' AND execution_mode IS NOT NULL;

CREATE INDEX idx_jobs_running ON jobs (queue, started_at) WHERE state = 'RUNNING';

CREATE INDEX idx_jobs_schedule_live ON jobs (schedule_id, awaits_turn)
  WHERE finished_at IS NULL AND schedule_id IS NOT NULL;

CREATE INDEX idx_jobs_state_queue ON jobs (state, queue);

CREATE INDEX idx_jobs_subject_generation ON jobs (subject_key, generation DESC);

CREATE INDEX idx_jobs_subject_live ON jobs (subject_key) WHERE finished_at IS NULL AND subject_key <> '';

CREATE INDEX idx_jobs_tag_live ON jobs (user_tag) WHERE finished_at IS NULL AND user_tag IS NOT NULL;

CREATE INDEX idx_jobs_user_tag ON jobs (user_tag);

CREATE INDEX idx_queues_resume ON queues (resume_at) WHERE resume_at IS NOT NULL;

CREATE INDEX idx_schedules_next ON schedules (next_trigger_at) WHERE next_trigger_at IS NOT NULL;

CREATE INDEX idx_schedules_template ON schedules (template_id);

CREATE TRIGGER job_runs_written_once
BEFORE UPDATE ON job_runs
WHEN OLD.status <> 'RUNNING'
  OR NEW.run_id IS NOT OLD.run_id
  OR NEW.job_id IS NOT OLD.job_id
  OR NEW.attempt IS NOT OLD.attempt
  OR NEW.params_snapshot IS NOT OLD.params_snapshot
  OR NEW.template_id IS NOT OLD.template_id
  OR NEW.worker_id IS NOT OLD.worker_id
  OR NEW.started_at IS NOT OLD.started_at
  OR (OLD.log_path IS NOT NULL AND NEW.log_path IS NOT OLD.log_path)
  OR (OLD.pid IS NOT NULL AND NEW.pid IS NOT OLD.pid)
  OR (OLD.pid_started_at IS NOT NULL AND NEW.pid_started_at IS NOT OLD.pid_started_at)
  OR (OLD.boot_id IS NOT NULL AND NEW.boot_id IS NOT OLD.boot_id)
BEGIN
  SELECT RAISE(ABORT, 'a run is written once and ended once');
END;

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (1, 0, 'initial schema', '6372c6b9edcfffc1309636ca4470ba0e95c016067647a1f6f15b16e23ea37ec1');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (2, 0, 'add execution retry', '8b384c7f16bc6e85f8e0bcf13a969781c9705c766c4f5bc21ecb7ff08eb9d70c');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (3, 0, 'add conditions', '0453495a06f1ce0c34a9cc1508e0592c66b834e1d2b9282d6362669b5223e196');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (4, 0, 'add dx fields', 'd979bea0d182e1390bec3d1e27069d8d37905ef6d6dd3d72dba2d174849770c7');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (5, 0, 'add runs', '4b0feb338b0c892bf083a739e92f5359262ad0b6d3398123c34d47764e2a3f6c');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (6, 0, 'add events', '38395281d6e88123aea8b67df251a5e553bf7137c28418857b73bea37948b7be');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (7, 0, 'add lanes', '24d87b7827f58e2b1ae91305785ce4ab45e3d3469ae53df313a5c870de062497');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (8, 0, 'add queues', '1ee0e85faeec57e3315f01a2ca3dde5af2516dfde5daeb93962572cad9a47621');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (9, 0, 'add idempotency', '64082fb78e484f5ea1d798439b89104aa5ead84848d51cdccee79fce5bc376a0');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (10, 0, 'add subprocesses', 'f596dd21c98eec05bf14608221cd333a84b9d94ae6d27df53e371837556a1b5c');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (11, 0, 'add waiting', '260090a43d07880ad4f73fa74f03ce78d8f90ff0dfaf8e480b18680c52f73821');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (12, 0, 'add schedules', 'cd32bc4d4af374fe6b6251cf13924313ec224ca23d436628da65ae4ea7cb97de');
