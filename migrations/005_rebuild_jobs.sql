-- The jobs table as this daemon needs it: ADR-010's columns, an integer number, and what SQL filters, orders or updates.
-- Everything else that was asked for is the immutable JSON document `spec`.
--
-- It is rebuilt rather than altered, for three reasons:
-- * runs and events refer to a job by an integer, which is a third of the bytes of its id;
-- * CHECK (x IN (three or more)) builds a small table each time it is evaluated, a chain of ORs does not;
-- * large texts come last, so that reading the other columns never walks their overflow pages.

ALTER TABLE jobs RENAME TO jobs_of_phase_4;
ALTER TABLE job_conditions RENAME TO job_conditions_of_phase_4;

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
  result_summary TEXT,
  CHECK ((finished_at IS NULL) = (state = 'QUEUED' OR state = 'SCHEDULED' OR state = 'RUNNING')),
  CHECK (ended IS CASE WHEN finished_at IS NOT NULL THEN state END)
);

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

-- Rows of phase 4 know nothing of what the CHECKs ask for; RUNNING ones were left by a daemon that is gone.
INSERT INTO jobs (
  id, queue, job_type, subject_key, generation, priority, state, created_at, started_at, finished_at, ended, trace_id,
  execution_mode, pid, attempts, max_attempts, backoff_factor, deadline, ttl_ms, schedule_type, scheduled_at,
  schedule_delay_ms, wait_for_idle, require_charging, wait_for_event, parent_job_id, chain_group_id, user_tag,
  log_path, artifact_path, queued_at, claim_class, slots, is_delay, superseded_by, run_id, env_vars, payload,
  result_summary
)
SELECT id, queue, job_type, subject_key, generation, coalesce(priority, 0), state, created_at,
  CASE WHEN state = 'RUNNING' THEN coalesce(started_at, created_at) ELSE started_at END,
  CASE WHEN state IN ('QUEUED', 'SCHEDULED', 'RUNNING') THEN NULL ELSE coalesce(finished_at, created_at) END,
  CASE WHEN state NOT IN ('QUEUED', 'SCHEDULED', 'RUNNING') THEN state END,
  trace_id, execution_mode, pid, coalesce(attempts, 0), coalesce(max_attempts, 0), coalesce(backoff_factor, 2.0),
  deadline, ttl_ms, schedule_type, scheduled_at, schedule_delay_ms, coalesce(wait_for_idle, 0),
  coalesce(require_charging, 0), wait_for_event, parent_job_id, chain_group_id, user_tag, log_path, artifact_path,
  CASE WHEN state = 'QUEUED' THEN created_at END,
  CASE WHEN execution_mode IS NULL THEN 5 ELSE coalesce(wait_for_idle, 0) + 2 * coalesce(require_charging, 0) END,
  execution_mode IS NOT NULL,
  state = 'SCHEDULED' AND (schedule_type IS 'AFTER' OR attempts > 0),
  CASE WHEN state = 'SUPERSEDED' THEN '' END,
  CASE WHEN state = 'RUNNING' THEN lower(hex(randomblob(16))) END,
  env_vars, payload, result_summary
FROM jobs_of_phase_4
ORDER BY rowid;

UPDATE jobs SET expires_at = created_at + ttl_ms WHERE state = 'QUEUED' AND ttl_ms IS NOT NULL;
-- Phase 4 did not enforce lanes: of jobs with one generation the newest is the lane's, and of those that wait the
-- newest generation stays.
UPDATE jobs
SET supersede = 'none'
WHERE subject_key <> '' AND EXISTS (
  SELECT 1
  FROM jobs AS other
  WHERE other.subject_key = jobs.subject_key AND other.job_type = jobs.job_type
    AND other.generation = jobs.generation AND other.number > jobs.number
);
UPDATE jobs
SET state = 'SUPERSEDED', ended = 'SUPERSEDED', finished_at = jobs.created_at, superseded_by = newer.id
FROM jobs AS newer
WHERE jobs.state IN ('QUEUED', 'SCHEDULED') AND jobs.subject_key <> '' AND jobs.supersede <> 'none'
  AND newer.number = (
    SELECT number
    FROM jobs AS other
    WHERE other.subject_key = jobs.subject_key AND other.job_type = jobs.job_type AND other.supersede <> 'none'
      AND other.generation > jobs.generation
    ORDER BY generation DESC
    LIMIT 1
  );
UPDATE jobs
SET claim_class = 4, blocked_by = 'lane:' || length(job_type) || ':' || job_type || ':' || subject_key
WHERE state = 'QUEUED' AND subject_key <> '' AND supersede <> 'none' AND EXISTS (
  SELECT 1
  FROM jobs AS other
  WHERE other.subject_key = jobs.subject_key AND other.job_type = jobs.job_type AND other.supersede <> 'none'
    AND other.state = 'RUNNING'
);
UPDATE jobs
SET blocked_by = 'worker:' || json_array(
  queue, job_type, concurrency_key, chain_group_id, wait_for_idle + 2 * require_charging
)
WHERE state = 'QUEUED' AND claim_class = 5;

INSERT INTO job_conditions (job_id, key, value, waiting)
SELECT job_id, key, value, (SELECT state = 'SCHEDULED' AND attempts = 0 FROM jobs WHERE id = job_id)
FROM job_conditions_of_phase_4;
INSERT INTO job_conditions (job_id, key, value)
SELECT id, 'semantica:event:' || wait_for_event, ''
FROM jobs
WHERE wait_for_event IS NOT NULL AND state = 'SCHEDULED' AND attempts = 0;
UPDATE jobs
SET unmet = (SELECT count(*) FROM job_conditions WHERE job_id = jobs.id AND waiting = 1);

DROP TABLE job_conditions_of_phase_4;
DROP TABLE jobs_of_phase_4;

-- ADR-010's indexes by name. Each is partial, so that a job pays only for those it can be found by: the claim walks
-- QUEUED rows only, history is indexed when a job ends, and a job without subject or tag is in neither index.
-- Jobs with one concurrency key and group are together, so that a claim steps over all of them at once when the key or
-- the group has no room.
CREATE INDEX idx_jobs_pop ON jobs (
  queue, claim_class, concurrency_key, chain_group_id, priority DESC, position ASC, created_at ASC, id
) WHERE state = 'QUEUED';
CREATE INDEX idx_jobs_subject_generation ON jobs (subject_key, generation DESC) WHERE subject_key <> '';
CREATE INDEX idx_jobs_state_queue ON jobs (state, queue) WHERE finished_at IS NOT NULL;
CREATE INDEX idx_jobs_gc ON jobs (finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX idx_jobs_user_tag ON jobs (user_tag) WHERE user_tag IS NOT NULL;
CREATE INDEX idx_job_conditions_lookup ON job_conditions (key, value, job_id) WHERE waiting = 1;
-- In the order in which the rows were made, so that an event opens the gates of the oldest jobs first.
CREATE INDEX idx_job_conditions_arrival ON job_conditions (key, value) WHERE waiting = 1;

-- Live jobs. Live is written as finished_at IS NULL where the index must not change between live states.
CREATE INDEX idx_jobs_blocked ON jobs (blocked_by, priority DESC, position ASC, created_at ASC, id)
  WHERE blocked_by IS NOT NULL;
CREATE INDEX idx_jobs_scheduled ON jobs (queue) WHERE state = 'SCHEDULED';
CREATE INDEX idx_jobs_running ON jobs (queue) WHERE state = 'RUNNING';
CREATE INDEX idx_jobs_due ON jobs (wait_for_idle, require_charging, coalesce(scheduled_at, 0))
  WHERE state = 'SCHEDULED' AND unmet = 0;
CREATE INDEX idx_jobs_expires ON jobs (expires_at) WHERE expires_at IS NOT NULL AND state = 'QUEUED';
CREATE INDEX idx_jobs_deadline ON jobs (deadline) WHERE deadline IS NOT NULL AND state IN ('QUEUED', 'SCHEDULED');
CREATE INDEX idx_jobs_queued_for_machine ON jobs (wait_for_idle, require_charging)
  WHERE state = 'QUEUED' AND (wait_for_idle = 1 OR require_charging = 1);
CREATE INDEX idx_jobs_tag_live ON jobs (user_tag) WHERE finished_at IS NULL AND user_tag IS NOT NULL;
CREATE INDEX idx_jobs_group ON jobs (chain_group_id) WHERE chain_group_id IS NOT NULL;
CREATE INDEX idx_jobs_group_live ON jobs (chain_group_id) WHERE finished_at IS NULL AND chain_group_id IS NOT NULL;
CREATE INDEX idx_jobs_subject_live ON jobs (subject_key, job_type, supersede)
  WHERE finished_at IS NULL AND subject_key <> '';
CREATE INDEX idx_jobs_schedule_live ON jobs (schedule_id) WHERE finished_at IS NULL AND schedule_id IS NOT NULL;
CREATE UNIQUE INDEX idx_jobs_lane_generation ON jobs (subject_key, job_type, generation)
  WHERE subject_key <> '' AND supersede <> 'none' AND retry_of IS NULL;
