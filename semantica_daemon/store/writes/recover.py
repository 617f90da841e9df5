"""Recovery at start: the holder of the lock knows that every RUNNING job is orphaned. It applies the recovery matrix
of docs/decisions.md, row by row.

No run: one is written, so that its end can be. A run that ended: the job follows it. A run that did not: a crash.
"""

from typing import Any

import msgspec
from msgspec import Struct

from semantica_daemon.model.outcome import CRASHED, ESCAPED, Outcome
from semantica_daemon.store.transition import INSERT_RUN, Running
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.wire.run import Error

ORPHANS = """
SELECT jobs.id, jobs.run_id, jobs.attempts, jobs.started_at, jobs.payload, jobs.template_id,
  job_runs.status, job_runs.exit_code, job_runs.error
FROM jobs INDEXED BY idx_jobs_running
LEFT JOIN job_runs ON job_runs.run_id = jobs.run_id
WHERE jobs.state = 'RUNNING'
"""
ADOPT_STOP = """
UPDATE jobs
SET stop_state = :status, cancel_requested_at = coalesce(cancel_requested_at, :now),
    superseded_by = iif(:status = 'SUPERSEDED', coalesce(superseded_by, ''), superseded_by)
WHERE id = :job_id
"""


class Recovered(Struct, frozen=True):
    """The orphans by what became of them."""

    jobs: dict[str, str]


def recover(tx: Tx, escaped: frozenset[str]) -> Recovered:
    """`escaped`: runs whose processes could not be ended; their jobs must not be run again beside them."""
    jobs = {}
    for row in tx.execute(ORPHANS).fetchall():
        run = Running(row[0], row[1], row[2], row[3])
        outcome = _outcome(tx, run, row)
        became = finish(tx, Finish(run, ESCAPED if run.run_id in escaped and outcome is CRASHED else outcome))
        jobs[run.job_id] = became or "RUNNING"
    if jobs:
        tx.announce("daemon.recovered", f"{len(jobs)} jobs were running when the daemon ended", {"jobs": jobs})
    return Recovered(jobs)


def _outcome(tx: Tx, run: Running, row: tuple[Any, ...]) -> Outcome:
    payload, template_id, status, exit_code, error = row[4:]
    if status is None:
        values = {"run_id": run.run_id, "job_id": run.job_id, "attempt": run.attempt}
        tx.execute(INSERT_RUN, {**values, "payload": payload, "template_id": template_id, "now": run.started_at})
    if status in (None, "RUNNING"):
        return CRASHED
    if status in ("CANCELLED", "SUPERSEDED"):
        tx.execute(ADOPT_STOP, {"status": status, "now": tx.now, "job_id": run.job_id})
    if status == "DONE":
        return Outcome(exit_code=exit_code)
    kept = msgspec.json.decode(error, type=Error) if error else CRASHED.error
    return Outcome(error=kept, exit_code=exit_code, interrupted=status == "INTERRUPTED")
