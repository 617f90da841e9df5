"""Recovery at start. The daemon holds the lock, so every RUNNING job is orphaned, except those of external workers:
their leases go on. Applies the recovery matrix of docs/decisions.md, row by row.

A job without a run gets one, so that its end can be stored. If the run's end is recorded, the job takes it; otherwise
the run counts as crashed.
"""

from typing import Any

import msgspec

from semantica_daemon.model.outcome import CRASHED, ESCAPED, Outcome
from semantica_daemon.store import leases
from semantica_daemon.store.run_transition import Running, run_insert
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.wire.run import Error

ORPHANS = """
SELECT jobs.id, jobs.run_id, jobs.attempts, jobs.started_at, jobs.number, jobs.run_count,
  run.run_id, run.status, run.exit_code, run.error, json_extract(jobs.spec, '$.template_id')
FROM jobs INDEXED BY idx_jobs_running
LEFT JOIN job_runs AS run ON run.job_number = jobs.number AND run.number = jobs.run_count
WHERE jobs.state = 'RUNNING' AND NOT EXISTS (
  SELECT 1
  FROM leases
  WHERE jobs.slots = 0 AND leases.job_number = jobs.number AND leases.run_id = jobs.run_id AND run.status = 'RUNNING'
)
"""
ADOPT_STOP = """
UPDATE jobs
SET stop_state = :status, cancel_requested_at = coalesce(cancel_requested_at, :now),
    superseded_by = iif(:status = 'SUPERSEDED', coalesce(superseded_by, ''), superseded_by)
WHERE number = :number
"""
COUNT_RUN = "UPDATE jobs SET run_count = ? WHERE number = ?"


def recover(tx: Tx, escaped: frozenset[str]) -> dict[str, str]:
    """Returns the orphaned jobs and the new state of each. `escaped`: runs whose processes could not be ended; their
    jobs must not be run again beside them."""
    tx.execute(leases.RENEW_AT_START, {"now": tx.now})
    jobs = {}
    for row in tx.execute(ORPHANS).fetchall():
        run, outcome = _run_and_outcome(tx, row)
        became = finish(tx, Finish(run, ESCAPED if run.run_id in escaped and outcome is CRASHED else outcome))
        jobs[run.job_id] = became or "RUNNING"
    if jobs:
        tx.announce("daemon.recovered", f"{len(jobs)} jobs were running when the daemon ended", {"jobs": jobs})
    return jobs


def _run_and_outcome(tx: Tx, row: tuple[Any, ...]) -> tuple[Running, Outcome]:
    stored_run, status, exit_code, error, template_id = row[6:]
    run = Running(*row[:6])
    if stored_run != run.run_id:
        run = msgspec.structs.replace(run, run_number=run.run_number + (run.run_number == 0 or stored_run is not None))
        tx.execute(*run_insert(run, template_id))
        tx.execute(COUNT_RUN, (run.run_number, run.job_number))
        return run, CRASHED
    if status == "RUNNING":
        return run, CRASHED
    if status in ("CANCELLED", "SUPERSEDED"):
        tx.execute(ADOPT_STOP, {"status": status, "now": tx.now, "number": run.job_number})
    if status == "DONE":
        return run, Outcome(exit_code=exit_code)
    kept = msgspec.json.decode(error, type=Error) if error else CRASHED.error
    return run, Outcome(error=kept, exit_code=exit_code, interrupted=status == "INTERRUPTED")
