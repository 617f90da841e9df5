"""job.cancel: what waits ends at once; what runs is asked to stop and ends when it is really gone."""

from semantica_daemon.model import event, state
from semantica_daemon.model.selection import selection
from semantica_daemon.store import find, transition
from semantica_daemon.store.tx import StopRun, Touched, Tx
from semantica_daemon.wire.job import CancelParams, CancelResult

MOST = 1000
ASK = f"""
UPDATE jobs
SET cancel_requested_at = coalesce(cancel_requested_at, :now), stop_state = 'CANCELLED', updated_at = :now,
    event_count = event_count + 1
WHERE id = :job_id AND state = 'RUNNING' AND stop_state IS NOT 'CANCELLED'
{transition.TOUCHED}, run_id
"""


def cancel(tx: Tx, params: CancelParams) -> CancelResult:
    """At most MOST jobs of a field at a time; `engine/waiting` calls again while there are more."""
    chosen = selection(params)
    if chosen.field:
        jobs = find.live(tx, chosen.field, chosen.value, MOST)
    else:
        jobs = list(dict.fromkeys(find.job(tx, job_id) for job_id in chosen.job_ids))
    result = CancelResult([], [], [])
    for job_id, current in jobs:
        if current == state.RUNNING:
            _ask(tx, job_id, params.reason)
            result.cancelling.append(job_id)
        elif transition.end_waiting(tx, job_id, current, state.CANCELLED, message=params.reason):
            result.cancelled.append(job_id)
        else:
            result.unchanged.append(job_id)
    return result


def _ask(tx: Tx, job_id: str, reason: str) -> None:
    for row in tx.execute(ASK, {"job_id": job_id, "now": tx.now}).fetchall():
        message = f"cancel requested: {reason}" if reason else "cancel requested"
        tx.emit(Touched(*row[:5]), event.LOG, message)
        tx.stops.append(StopRun(row[5], "cancel"))
