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

CREATE TABLE direct_reservations (
  reservation_id TEXT PRIMARY KEY,
  reserved_at INTEGER NOT NULL,
  reserved_by TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'ACTIVE' CHECK (status = 'ACTIVE' OR status = 'RELEASED' OR status = 'EXPIRED'),
  expires_at INTEGER NOT NULL,
  job_id TEXT
);

CREATE TABLE environments (
  environment_id INTEGER PRIMARY KEY,
  hash TEXT NOT NULL,
  variables TEXT NOT NULL,
  secrets TEXT,
  left_out INTEGER NOT NULL DEFAULT 0 CHECK (left_out = 0 OR (left_out = 1 AND secrets IS NOT NULL)),
  UNIQUE (hash, left_out)
);

CREATE TABLE event_aggregates (
  day TEXT NOT NULL,
  queue TEXT NOT NULL,
  job_type TEXT NOT NULL,
  event_type TEXT NOT NULL,
  events INTEGER NOT NULL,
  duration_ms INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (day, queue, job_type, event_type)
) WITHOUT ROWID;

CREATE TABLE facts (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE groups (
  chain_group_id TEXT PRIMARY KEY,
  mode TEXT NOT NULL DEFAULT 'parallel' CHECK (mode = 'parallel' OR mode = 'sequential'),
  on_failure TEXT NOT NULL DEFAULT 'continue' CHECK (on_failure = 'stop' OR on_failure = 'continue' OR on_failure = 'skip'),
  max_parallel INTEGER CHECK (max_parallel > 0),
  created_at INTEGER NOT NULL,
  stopped_upto INTEGER,
  stopped_by TEXT CHECK (stopped_by IS NOT NULL OR stopped_upto IS NULL)
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
  value TEXT NOT NULL,
  -- waiting: not met yet, and its job has not ended.
  waiting INTEGER NOT NULL DEFAULT 1 CHECK (waiting = 0 OR (waiting = 1 AND met_at IS NULL)),
  met_at INTEGER,
  PRIMARY KEY (job_id, key),
  FOREIGN KEY (job_id) REFERENCES jobs(id) ON DELETE CASCADE
);

CREATE TABLE job_events (
  sequence INTEGER PRIMARY KEY,
  job_number INTEGER,
  job_sequence INTEGER,
  previous INTEGER,
  timestamp_at INTEGER NOT NULL,
  event_type TEXT NOT NULL,
  level TEXT NOT NULL,
  subsystem TEXT GENERATED ALWAYS AS (substr(event_type, 1, instr(event_type, '.') - 1)) VIRTUAL,
  message TEXT NOT NULL,
  correlation_id TEXT,
  payload TEXT NOT NULL,
  queue TEXT,
  user_tag TEXT
);

CREATE TABLE job_parents (
  job_id TEXT NOT NULL REFERENCES jobs(id) ON DELETE CASCADE,
  ordinal INTEGER NOT NULL,  -- 0 is the first parent
  parent_id TEXT NOT NULL REFERENCES jobs(id) ON DELETE CASCADE CHECK (parent_id <> job_id),
  PRIMARY KEY (job_id, ordinal)
) WITHOUT ROWID;

CREATE TABLE job_retries (
  job_id TEXT PRIMARY KEY,
  first_job_id TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE job_runs (
  job_number INTEGER NOT NULL REFERENCES jobs(number) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  run_id TEXT NOT NULL,
  attempt INTEGER NOT NULL,
  status TEXT NOT NULL DEFAULT 'RUNNING' CHECK (
    status = 'RUNNING' OR status = 'DONE' OR status = 'FAILED'
    OR status = 'CANCELLED' OR status = 'SUPERSEDED' OR status = 'INTERRUPTED'
  ),
  started_at INTEGER NOT NULL,
  finished_at INTEGER,
  exit_code INTEGER,
  pid INTEGER,
  pid_started_at INTEGER,
  boot_id TEXT,
  worker_id TEXT,
  template_id TEXT,
  log_path TEXT,
  error TEXT,
  artifacts TEXT,
  params_snapshot TEXT,
  PRIMARY KEY (job_number, number),
  CHECK ((finished_at IS NOT NULL) = (status <> 'RUNNING'))
) WITHOUT ROWID;

CREATE TABLE job_summaries (
  id TEXT PRIMARY KEY,
  job_type TEXT NOT NULL,
  queue TEXT NOT NULL,
  subject_key TEXT NOT NULL,
  generation INTEGER NOT NULL,
  state TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER NOT NULL,
  pruned_at INTEGER NOT NULL,
  exit_code INTEGER,
  error_code TEXT
) WITHOUT ROWID;

CREATE TABLE jobs (
  number INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  queue TEXT NOT NULL,
  job_type TEXT NOT NULL,
  subject_key TEXT NOT NULL,
  generation INTEGER NOT NULL,
  priority INTEGER DEFAULT 0,
  state TEXT NOT NULL CHECK (
    state = 'QUEUED' OR state = 'SCHEDULED' OR state = 'RUNNING' OR state = 'DONE' OR state = 'FAILED'
    OR state = 'CANCELLED' OR state = 'SUPERSEDED' OR state = 'SKIPPED_TTL' OR state = 'SKIPPED_DEADLINE'
  ),
  created_at INTEGER NOT NULL,
  started_at INTEGER,
  finished_at INTEGER,
  trace_id TEXT,
  execution_mode TEXT CHECK (execution_mode = 'IN_PROCESS' OR execution_mode = 'SUBPROCESS'),
  pid INTEGER,
  attempts INTEGER DEFAULT 0,
  max_attempts INTEGER DEFAULT 0,
  backoff_factor REAL DEFAULT 2.0,
  deadline INTEGER,
  ttl_ms INTEGER,
  schedule_type TEXT DEFAULT 'IMMEDIATE' CHECK (
    schedule_type = 'IMMEDIATE' OR schedule_type = 'AT' OR schedule_type = 'AFTER' OR schedule_type = 'CONDITION'
  ),
  scheduled_at INTEGER,
  schedule_delay_ms INTEGER,
  wait_for_idle INTEGER NOT NULL DEFAULT 0,
  require_charging INTEGER NOT NULL DEFAULT 0,
  wait_for_event TEXT,
  parent_job_id TEXT,
  chain_group_id TEXT,
  user_tag TEXT,
  log_path TEXT,
  artifact_path TEXT,
  -- The state that it has ended in. A copy, because no statement that only starts a job writes it: 021 guards it.
  ended TEXT,

  -- Order in the queue, and who may take the job from it. claim_class: 0 any slot; 1 a slot while the machine is idle,
  -- 2 while it is on mains, 3 both; 4 nobody, because a room that it needs is full (blocked_by names that room);
  -- 5 external workers only (blocked_by is 'worker:' and a JSON array of its queue, type, concurrency key, group and needs
  -- of the machine, by which they find it).
  queued_at INTEGER CHECK (queued_at IS NOT NULL OR state <> 'QUEUED'),
  expires_at INTEGER,
  position INTEGER NOT NULL DEFAULT 0,
  claim_class INTEGER NOT NULL DEFAULT 0,
  blocked_by TEXT CHECK (blocked_by IS NULL OR claim_class >= 4),
  claim_attempts INTEGER NOT NULL DEFAULT 0,
  -- How many slots a run of it takes: none if an external worker runs it.
  slots INTEGER NOT NULL DEFAULT 1,
  concurrency_key TEXT,

  -- What it waits for. unmet counts its rows in job_conditions that are not met yet. is_delay: scheduled_at is the end
  -- of a delay and moves with the clock when that is set. postponed_since: when debounce first held its lane back.
  unmet INTEGER NOT NULL DEFAULT 0 CHECK (unmet >= 0),
  is_delay INTEGER NOT NULL DEFAULT 0,
  postponed_since INTEGER,

  -- Newest wins. stop_state: what the job becomes when its running attempt, which was asked to stop, has ended.
  supersede TEXT NOT NULL DEFAULT 'lane' CHECK (
    supersede = 'lane' OR supersede = 'subject' OR supersede = 'none' OR supersede = 'keep' OR supersede = 'append'
  ),
  superseded_by TEXT CHECK (superseded_by IS NOT NULL OR state <> 'SUPERSEDED'),
  stale INTEGER NOT NULL DEFAULT 0,
  cancel_requested_at INTEGER,
  stop_state TEXT CHECK (
    stop_state IS NULL OR ((stop_state = 'CANCELLED' OR stop_state = 'SUPERSEDED') AND cancel_requested_at IS NOT NULL)
  ),
  retry_of TEXT,
  schedule_id TEXT,

  -- Its runs and events: the current run, how many there were, and the newest event (each event names the one before).
  run_id TEXT CHECK (state <> 'RUNNING' OR (run_id IS NOT NULL AND started_at IS NOT NULL)),
  run_count INTEGER NOT NULL DEFAULT 0,
  event_count INTEGER NOT NULL DEFAULT 0,
  last_event INTEGER,
  updated_at INTEGER,
  held_at INTEGER,
  archived_at INTEGER,
  exit_code INTEGER,

  error TEXT,
  progress TEXT,
  spec TEXT,
  env_vars TEXT,
  payload TEXT NOT NULL,
  result_summary TEXT, environment_id INTEGER,
  CHECK ((finished_at IS NULL) = (state = 'QUEUED' OR state = 'SCHEDULED' OR state = 'RUNNING')),
  CHECK (ended IS CASE WHEN finished_at IS NOT NULL THEN state END)
);

CREATE TABLE lanes (
  subject_key TEXT NOT NULL,
  job_type TEXT NOT NULL,
  generation INTEGER NOT NULL,
  job_id TEXT NOT NULL,
  ended TEXT CHECK (ended IS NULL OR NOT (ended = 'QUEUED' OR ended = 'SCHEDULED' OR ended = 'RUNNING')),
  numbered_by TEXT NOT NULL CHECK (numbered_by = 'server' OR numbered_by = 'client'),
  interrupts INTEGER NOT NULL DEFAULT 0,
  -- Whether an append job was ever added: only then a new job has to look for such jobs.
  appends INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (subject_key, job_type)
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
, removed INTEGER NOT NULL DEFAULT 0) WITHOUT ROWID;

CREATE TABLE queues (
  queue TEXT PRIMARY KEY,
  slots INTEGER CHECK (slots >= 0),
  on_running TEXT CHECK (on_running = 'finish' OR on_running = 'cancel'),
  max_queued INTEGER CHECK (max_queued >= 0),
  paused_at INTEGER,
  resume_at INTEGER CHECK (resume_at IS NULL OR paused_at IS NOT NULL)
, rate TEXT CHECK (rate IS NULL OR json_valid(rate)), keys TEXT CHECK (keys IS NULL OR json_valid(keys))) WITHOUT ROWID;

CREATE TABLE rates (
  queue TEXT NOT NULL,
  concurrency_key TEXT NOT NULL DEFAULT '',
  started_at INTEGER NOT NULL,
  starts INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  PRIMARY KEY (queue, concurrency_key, started_at)
) WITHOUT ROWID;

CREATE TABLE receipts (
  number INTEGER PRIMARY KEY,
  job_id TEXT NOT NULL UNIQUE,
  created_at INTEGER NOT NULL,
  hash TEXT NOT NULL,
  previous TEXT,
  signature TEXT NOT NULL,
  receipt TEXT NOT NULL CHECK (json_valid(receipt))
);

CREATE TABLE schedules (
  schedule_id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  template_id TEXT NOT NULL REFERENCES templates(template_id),
  cron_expression TEXT,
  timezone TEXT NOT NULL DEFAULT 'UTC',
  -- An interval is counted from its anchor, and moves with the clock when that is set.
  every_ms INTEGER CHECK (every_ms > 0),
  anchor_at INTEGER,
  on_event TEXT,
  event_value TEXT CHECK (event_value IS NULL OR on_event IS NOT NULL),
  jitter_ms INTEGER NOT NULL DEFAULT 0 CHECK (jitter_ms >= 0),
  enabled INTEGER NOT NULL DEFAULT 1 CHECK (enabled IN (0, 1)),
  param_overrides TEXT CHECK (param_overrides IS NULL OR json_valid(param_overrides)),
  misfire TEXT NOT NULL DEFAULT 'run_once' CHECK (misfire = 'run_once' OR misfire = 'skip' OR misfire = 'run_all'),
  overlap TEXT NOT NULL DEFAULT 'queue' CHECK (overlap = 'queue' OR overlap = 'skip' OR overlap = 'supersede'),
  last_triggered_at INTEGER,
  -- The watermark fired_to is the latest time that was fired; all times from fired_from to it were. After the clock is
  -- set back by less than three hours they are not fired again.
  fired_from INTEGER,
  fired_to INTEGER,
  next_trigger_at INTEGER CHECK (next_trigger_at IS NULL OR (enabled = 1 AND on_event IS NULL)),
  last_job_id TEXT,
  interrupts INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  CHECK ((cron_expression IS NOT NULL) + (every_ms IS NOT NULL) + (on_event IS NOT NULL) = 1),
  CHECK ((every_ms IS NULL) = (anchor_at IS NULL))
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

CREATE TABLE workspace_removals (
  job_id TEXT PRIMARY KEY
) WITHOUT ROWID;

CREATE INDEX idx_artifacts_job ON artifacts (job_number);

CREATE UNIQUE INDEX idx_direct_reservations_active ON direct_reservations (status) WHERE status = 'ACTIVE';

CREATE INDEX idx_groups_stopped ON groups (stopped_upto) WHERE stopped_upto IS NOT NULL;

CREATE INDEX idx_idempotency_expires ON idempotency (expires_at);

CREATE INDEX idx_job_conditions_arrival ON job_conditions (key, value) WHERE waiting = 1;

CREATE INDEX idx_job_conditions_lookup ON job_conditions (key, value, job_id) WHERE waiting = 1;

CREATE UNIQUE INDEX idx_job_parents_parent ON job_parents (parent_id, job_id);

CREATE INDEX idx_job_retries_first ON job_retries (first_job_id);

CREATE INDEX idx_jobs_blocked ON jobs (blocked_by, priority DESC, position ASC, created_at ASC, id)
  WHERE blocked_by IS NOT NULL;

CREATE INDEX idx_jobs_deadline ON jobs (deadline) WHERE deadline IS NOT NULL AND state IN ('QUEUED', 'SCHEDULED');

CREATE INDEX idx_jobs_due ON jobs (wait_for_idle, require_charging, coalesce(scheduled_at, 0))
  WHERE state = 'SCHEDULED' AND unmet = 0;

CREATE INDEX idx_jobs_environment ON jobs (environment_id) WHERE environment_id IS NOT NULL;

CREATE INDEX idx_jobs_expires ON jobs (expires_at) WHERE expires_at IS NOT NULL AND state = 'QUEUED';

CREATE INDEX idx_jobs_gc ON jobs (finished_at) WHERE finished_at IS NOT NULL;

CREATE INDEX idx_jobs_group ON jobs (chain_group_id) WHERE chain_group_id IS NOT NULL;

CREATE INDEX idx_jobs_group_live ON jobs (chain_group_id) WHERE finished_at IS NULL AND chain_group_id IS NOT NULL;

CREATE UNIQUE INDEX idx_jobs_lane_generation ON jobs (subject_key, job_type, generation)
  WHERE subject_key <> '' AND supersede <> 'none' AND retry_of IS NULL;

CREATE INDEX idx_jobs_pop ON jobs (
  queue, claim_class, concurrency_key, chain_group_id, priority DESC, position ASC, created_at ASC, id
) WHERE state = 'QUEUED';

CREATE INDEX idx_jobs_queued_for_machine ON jobs (wait_for_idle, require_charging)
  WHERE state = 'QUEUED' AND (wait_for_idle = 1 OR require_charging = 1);

CREATE INDEX idx_jobs_running ON jobs (queue) WHERE state = 'RUNNING';

CREATE INDEX idx_jobs_schedule_live ON jobs (schedule_id) WHERE finished_at IS NULL AND schedule_id IS NOT NULL;

CREATE INDEX idx_jobs_scheduled ON jobs (queue) WHERE state = 'SCHEDULED';

CREATE INDEX idx_jobs_state_queue ON jobs (state, queue) WHERE finished_at IS NOT NULL;

CREATE INDEX idx_jobs_subject_generation ON jobs (subject_key, generation DESC) WHERE subject_key <> '';

CREATE INDEX idx_jobs_subject_live ON jobs (subject_key, job_type, supersede)
  WHERE finished_at IS NULL AND subject_key <> '';

CREATE INDEX idx_jobs_tag_live ON jobs (user_tag) WHERE finished_at IS NULL AND user_tag IS NOT NULL;

CREATE INDEX idx_jobs_user_tag ON jobs (user_tag) WHERE user_tag IS NOT NULL;

CREATE INDEX idx_leases_expires ON leases (expires_at);

CREATE UNIQUE INDEX idx_leases_job ON leases (job_number);

CREATE INDEX idx_leases_worker ON leases (worker_id);

CREATE INDEX idx_queues_resume ON queues (resume_at) WHERE resume_at IS NOT NULL;

CREATE INDEX idx_rates_expires ON rates (expires_at);

CREATE INDEX idx_schedules_event ON schedules (on_event) WHERE on_event IS NOT NULL AND enabled = 1;

CREATE INDEX idx_schedules_next ON schedules (next_trigger_at) WHERE next_trigger_at IS NOT NULL;

CREATE INDEX idx_schedules_template ON schedules (template_id);

CREATE INDEX idx_workers_heartbeat ON workers (last_heartbeat);

CREATE TRIGGER job_runs_begin_is_final
AFTER UPDATE OF job_number, number, run_id, attempt, started_at, worker_id, template_id, params_snapshot ON job_runs
BEGIN
  SELECT RAISE(ROLLBACK, 'a run is written once');
END;

CREATE TRIGGER job_runs_end_is_final
AFTER UPDATE OF status, finished_at, exit_code, error, artifacts ON job_runs
WHEN OLD.status <> 'RUNNING'
BEGIN
  SELECT RAISE(ROLLBACK, 'a run is ended once');
END;

CREATE TRIGGER job_runs_process_is_final
AFTER UPDATE OF pid, pid_started_at, boot_id, log_path ON job_runs
WHEN OLD.pid IS NOT NULL OR OLD.pid_started_at IS NOT NULL OR OLD.boot_id IS NOT NULL OR OLD.log_path IS NOT NULL
  OR OLD.status <> 'RUNNING'
BEGIN
  SELECT RAISE(ROLLBACK, 'the process of a run is named once');
END;

CREATE TRIGGER jobs_archived_is_ended
BEFORE UPDATE OF archived_at ON jobs
WHEN NEW.archived_at IS NOT NULL AND OLD.finished_at IS NULL
BEGIN
  SELECT RAISE(ABORT, 'only a job that has ended is archived');
END;

CREATE TRIGGER jobs_end_is_final
AFTER UPDATE OF finished_at, ended ON jobs
WHEN OLD.ended IS NOT NULL
  AND NOT (OLD.ended = 'DONE' AND NEW.ended IS 'FAILED' AND NEW.finished_at = OLD.finished_at)
BEGIN
  SELECT RAISE(ROLLBACK, 'the end of a job is final');
END;

CREATE TRIGGER jobs_spec_is_final
BEFORE UPDATE OF payload, env_vars, job_type, spec ON jobs
WHEN OLD.run_count > 0
BEGIN
  SELECT RAISE(ABORT, 'a job that has run keeps its payload, variables, type and template');
END;

CREATE TRIGGER receipts_are_final
AFTER UPDATE ON receipts
BEGIN
  SELECT RAISE(ROLLBACK, 'a receipt is written once');
END;

CREATE VIEW items AS
SELECT id,
  CASE
    WHEN state IN ('QUEUED', 'SCHEDULED') THEN 'pending'
    WHEN state = 'RUNNING' THEN 'processing'
    WHEN state = 'DONE' THEN 'completed'
    ELSE lower(state)
  END AS status,
  (
    SELECT worker_id
    FROM job_runs
    WHERE job_number = jobs.number AND job_runs.number = jobs.run_count
  ) AS worker_id,
  strftime('%Y-%m-%dT%H:%M:%fZ', started_at / 1000.0, 'unixepoch') AS started_at,
  strftime('%Y-%m-%dT%H:%M:%fZ', finished_at / 1000.0, 'unixepoch') AS completed_at,
  result_summary AS result,
  error,
  attempts
FROM jobs;

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (1, 0, 'initial schema', '6372c6b9edcfffc1309636ca4470ba0e95c016067647a1f6f15b16e23ea37ec1');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (2, 0, 'add execution retry', '8b384c7f16bc6e85f8e0bcf13a969781c9705c766c4f5bc21ecb7ff08eb9d70c');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (3, 0, 'add conditions', '0453495a06f1ce0c34a9cc1508e0592c66b834e1d2b9282d6362669b5223e196');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (4, 0, 'add dx fields', 'd979bea0d182e1390bec3d1e27069d8d37905ef6d6dd3d72dba2d174849770c7');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (5, 0, 'rebuild jobs', '7d59ee6c8896d37e6df8595ec9b36e483684fd39db5c2ea9ff99b88ea9c74041');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (6, 0, 'add runs', '2d1d5729348cb6fd73bafd42a0b500d7ccef535d9b53aa4ed283a9edac1f2fef');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (7, 0, 'add events', '72ce3b0439e049da361ee17dc03488572df0019c9a76d4737a123502eb3096c9');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (8, 0, 'add lanes', 'dbc812323b0d41b39eaef961ff579688273826302f1ee8afec741c3d8f5ac2cc');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (9, 0, 'add queues', '0d78bed21edfa149835c742550e8a8ec97dad2dc2186365c4e60b76d1ce554eb');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (10, 0, 'add idempotency', '6dfc348b9867a4f1696d6921cffb50164c7ef933bfa0f475332d7c2dde2b22e7');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (11, 0, 'add schedules', '473785a9274a52ed796bbc6897d017527e5817089e0d75a86e887f37860028c1');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (12, 0, 'add job retries', '0563865374fd7e31128c37ed014eee320b65a9da07ab6e21df400a4f7ad1fd6c');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (13, 0, 'add environments', '803a6a9616458eede76dea5e6d75028afc94fdac6e017027fe36b5064ab0a8b5');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (14, 0, 'rebuild schedules', '7258ed5fffc15442167744c3504d2d7a5d536d53f4d401b7c02b3b5a46aa1c3c');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (15, 0, 'add removed queues', '0016180371a2bb9994ec22c6448bb94f88034ab6235f6ad031ac021141848fd7');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (16, 0, 'add parents', '697f1d971b88a1be242f47516f0c24dd798d58662c22cc7af51a1c872bf6c7c1');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (17, 0, 'add groups', '96d532d1cc68a77359035a4bf16b1a61c8f0318ae417473b346cb696e0f09dc0');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (18, 0, 'add room limits', '727421ad228d5035fcc7068587d14e659cc7b9f977ac0e53138f4154c9fc5c01');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (19, 0, 'add workers', '1713186dddec81722c64c35e78a04936567e57ce1b03d493f47d67182d4c44f6');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (20, 0, 'add reservations', '37c1c2efd522199c11b8c877bdeaf6c36b2ed03745040117a98d39969505ffdf');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (21, 0, 'guard jobs', '7324eb45f06a83ea08e60f5b00bce8a9c894afe07eba9ff5ff16a22e78b311d7');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (22, 0, 'add items', '6f037c447e91c2095cf6757de0eddab844fe42483bb2e5c1b52e7bfb381a37d0');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (23, 0, 'add workspace removals', 'a3734944dabea853b97c7a76d723099ff9669e5196f4fc9c81a9d82fb8bb9615');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (24, 0, 'add receipts', '5ba97bb6a119abc97e0bd3ace101f252d53ae7b35570b74ef2414d67bd52264a');

INSERT INTO schema_version (version, applied_at, description, checksum)
VALUES (25, 0, 'add retention', 'b9e10a708a018dac4a3fff018fd0ce53f4b3606aa4a872af887680e91df7256f');
