"""job.cancel: waiting jobs end at once; running ones are asked to stop and end when their processes are gone."""

from semantica_daemon.model import event, state
from semantica_daemon.model.selection import selection
from semantica_daemon.store import find, transition
from semantica_daemon.store.tx import StopRun, Tx
from semantica_daemon.wire.job import CancelParams, CancelResult

MOST = 1000
ASK_TO_STOP = """
UPDATE jobs
SET cancel_requested_at = coalesce(cancel_requested_at, ?), stop_state = 'CANCELLED', updated_at = ?,
    event_count = ?, last_event = ?
WHERE number = ?
RETURNING run_id
"""


def cancel(tx: Tx, params: CancelParams) -> CancelResult:
    """At most MOST jobs of a field at a time; `engine/waiting` calls again while there are more."""
    chosen = selection(params)
    if chosen.field:
        jobs = find.live(tx, chosen.field, chosen.value, MOST)
    else:
        jobs = list(dict.fromkeys(find.job(tx, job_id) for job_id in chosen.job_ids))
    result = CancelResult([], [], [])
    for number, job_id, current in jobs:
        if current == state.RUNNING and not params.only_waiting:
            _ask_to_stop(tx, number, params.reason)
            result.cancelling.append(job_id)
        elif transition.end_waiting(tx, tx.read(number), state.CANCELLED, message=params.reason):
            result.cancelled.append(job_id)
        else:
            result.unchanged.append(job_id)
    return result


def _ask_to_stop(tx: Tx, number: int, reason: str) -> None:
    job = tx.read(number)
    if job.stop_state == state.CANCELLED:
        return
    message = f"cancel requested: {reason}" if reason else "cancel requested"
    last = tx.emit(job, event.LOG, message)
    ((run_id,),) = tx.execute(ASK_TO_STOP, (tx.now, tx.now, job.event_count + 1, last, number)).fetchall()
    tx.stops.append(StopRun(run_id, "cancel"))
