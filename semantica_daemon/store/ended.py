"""The consequences of the end of a job, in the transaction that ends it. A new consequence is added to `ended`."""

from semantica_daemon.model.group import FAILURES
from semantica_daemon.store import gates
from semantica_daemon.store.tx import Job, Tx

LANE_ENDED = "UPDATE lanes SET ended = ? WHERE subject_key = ? AND job_type = ? AND job_id = ?"
RESET_LANE_INTERRUPTS = """
UPDATE lanes
SET interrupts = 0
WHERE subject_key = ? AND job_type = ? AND interrupts > 0
"""
RESET_SCHEDULE_INTERRUPTS = "UPDATE schedules SET interrupts = 0 WHERE schedule_id = ? AND interrupts > 0"


def ended(tx: Tx, job: Job, to: str, run_status: str | None = None) -> None:
    """`job`: as it was before; `to`: its terminal state; `run_status`: how its run ended, if it was running."""
    tx.changed(job, to)
    if job.lane is not None:
        tx.execute(LANE_ENDED, (to, job.subject_key, job.job_type, job.job_id))
        gates.release_room(tx, job)
    if job.unmet:
        gates.stop_waiting(tx, job)
    if job.job_id in tx.awaited.live:
        tx.awaited.end(job.job_id, to)
    if job.chain_group_id is not None:
        tx.ended_groups.add(job.chain_group_id)
        if to in FAILURES:
            tx.rooms.stop(job.chain_group_id, job.job_id)
    if job.schedule_id is not None:
        gates.open_next_turn(tx, job.schedule_id)
    if run_status in ("DONE", "FAILED"):
        _reset_interrupts(tx, job)


def _reset_interrupts(tx: Tx, job: Job) -> None:
    """A run was not interrupted, so the count of interruptions in a row starts again at 0."""
    if job.lane is not None:
        tx.execute(RESET_LANE_INTERRUPTS, (job.subject_key, job.job_type))
    if job.schedule_id is not None:
        tx.execute(RESET_SCHEDULE_INTERRUPTS, (job.schedule_id,))
