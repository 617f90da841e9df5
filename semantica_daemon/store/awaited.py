"""Which jobs others wait for: in memory, beside the gates of job_conditions that have the key `job:` and an id.

The end of a job that nobody waits for costs one look into a set. `chains` opens the gates.
"""

import sqlite3

LOAD = """
SELECT awaited.job_id, coalesce(state, 'DELETED'), state IS NULL OR finished_at IS NOT NULL
FROM (
  SELECT DISTINCT substr(key, -36) AS job_id
  FROM job_conditions INDEXED BY idx_job_conditions_lookup
  WHERE waiting = 1 AND key >= 'job:' AND key < 'job;'
  UNION
  SELECT DISTINCT substr(key, -36)
  FROM job_conditions INDEXED BY idx_job_conditions_lookup
  WHERE waiting = 1 AND key >= 'semantica:event:job:' AND key < 'semantica:event:job;'
) AS awaited
LEFT JOIN jobs ON jobs.id = awaited.job_id
"""


class AwaitedJobs:
    """`live`: the ids of jobs that have not ended. `ended`: those that have, with their state, until the jobs that
    waited for them are settled."""

    def __init__(self) -> None:
        self.live: set[str] = set()
        self.ended: dict[str, str] = {}

    def load(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute(LOAD).fetchall()
        self.live = {job_id for job_id, _, has_ended in rows if not has_ended}
        self.ended = {job_id: state for job_id, state, has_ended in rows if has_ended}

    def end(self, job_id: str, state: str) -> None:
        self.live.discard(job_id)
        self.ended[job_id] = state
