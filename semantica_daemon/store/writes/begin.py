"""Records that the process of a SUBPROCESS run has started: stores its identity, and emits job.started."""

from msgspec.structs import replace

from semantica_daemon.model import event
from semantica_daemon.store.run_transition import Begun, read_run
from semantica_daemon.store.tx import ChangedJob, Tx

NAME_PROCESS = """
UPDATE OR FAIL job_runs
SET pid = ?, pid_started_at = ?, boot_id = ?, log_path = ?
WHERE job_number = ? AND number = ?
"""
BEGIN = """
UPDATE jobs
SET pid = ?, log_path = ?, updated_at = ?, event_count = ?, last_event = ?
WHERE number = ?
"""


def begin(tx: Tx, begun: Begun) -> None:
    job = read_run(tx, begun.run)
    if job is not None:
        begin_job(tx, job, begun)


def begin_job(tx: Tx, job: ChangedJob, begun: Begun) -> ChangedJob:
    """Returns the job as it is after its start."""
    run = begun.run
    identity = (begun.pid, begun.pid_started_at, begun.boot_id, begun.log_path)
    tx.execute(NAME_PROCESS, (*identity, run.job_number, run.run_number))
    facts = {"run_id": run.run_id, "attempt": run.attempt, "pid": begun.pid}
    last = tx.emit(job, event.STARTED, "", facts)
    tx.execute(BEGIN, (begun.pid, begun.log_path, tx.now, job.event_count + 1, last, job.number))
    return replace(job, event_count=job.event_count + 1, last_event=last)
