-- The policy of a group. Its members are the jobs with its chain_group_id; a label without a row here has no policy.
-- stopped_upto: a member has failed in a group with on_failure 'stop'; members up to this job number that have not
-- started are cancelled, in several transactions.

CREATE TABLE groups (
  chain_group_id TEXT PRIMARY KEY,
  mode TEXT NOT NULL DEFAULT 'parallel' CHECK (mode = 'parallel' OR mode = 'sequential'),
  on_failure TEXT NOT NULL DEFAULT 'continue' CHECK (on_failure = 'stop' OR on_failure = 'continue' OR on_failure = 'skip'),
  max_parallel INTEGER CHECK (max_parallel > 0),
  created_at INTEGER NOT NULL,
  stopped_upto INTEGER,
  stopped_by TEXT CHECK (stopped_by IS NOT NULL OR stopped_upto IS NULL)
) WITHOUT ROWID;

CREATE INDEX idx_groups_stopped ON groups (stopped_upto) WHERE stopped_upto IS NOT NULL;
