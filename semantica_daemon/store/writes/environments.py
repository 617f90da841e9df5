"""What a start of the daemon means for the environments of callers: the secrets of waiting jobs are gone, and
environments that no job refers to are deleted. `store/environments` adds and reads them."""

from semantica_daemon.store.tx import Tx

# A waiting job refers to a second row with the same content, whose secrets are left out; an ended job keeps its own.
ADD_WITHOUT_SECRETS = """
INSERT OR IGNORE INTO environments (hash, variables, secrets, left_out)
SELECT hash, variables, secrets, 1
FROM environments
WHERE secrets IS NOT NULL AND left_out = 0 AND environment_id IN (
  SELECT environment_id FROM jobs INDEXED BY idx_jobs_pop WHERE state = 'QUEUED'
  UNION
  SELECT environment_id FROM jobs INDEXED BY idx_jobs_scheduled WHERE state = 'SCHEDULED'
)
"""
_LEAVE_OUT = """
UPDATE jobs INDEXED BY {index}
SET environment_id = without.environment_id
FROM environments AS known
JOIN environments AS without ON without.hash = known.hash AND without.left_out = 1
WHERE jobs.state = '{state}' AND known.environment_id = jobs.environment_id AND known.left_out = 0
"""
LEAVE_OUT = {
    "of queued jobs": _LEAVE_OUT.format(index="idx_jobs_pop", state="QUEUED"),
    "of scheduled jobs": _LEAVE_OUT.format(index="idx_jobs_scheduled", state="SCHEDULED"),
}
DELETE_UNUSED = """
DELETE FROM environments
WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.environment_id = environments.environment_id)
"""


def tidy_at_start(tx: Tx, request: None) -> None:
    """Runs after recovery, so that the runs which are put back are among the waiting jobs."""
    tx.execute(ADD_WITHOUT_SECRETS)
    for statement in LEAVE_OUT.values():
        tx.execute(statement)
    tx.execute(DELETE_UNUSED)  # looks once into an index of `jobs` for each environment
