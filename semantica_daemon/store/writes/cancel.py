"""job.cancel: waiting jobs end at once; running ones are asked to stop and end when their processes are gone."""

from semantica_daemon.model import event, state
from semantica_daemon.model.selection import Hit, Lists, to_cancel, to_cancel_waiting
from semantica_daemon.store import transition
from semantica_daemon.store.selected import Portion, change_each
from semantica_daemon.store.tx import StopRun, Tx

ASK_TO_STOP = """
UPDATE jobs
SET cancel_requested_at = coalesce(cancel_requested_at, ?), stop_state = 'CANCELLED', updated_at = ?,
    event_count = ?, last_event = ?
WHERE number = ?
RETURNING run_id
"""


def cancel(tx: Tx, portion: Portion) -> Lists:
    return change_each(tx, portion, to_cancel, lambda hit: _cancel(tx, hit, portion.reason))


def cancel_waiting(tx: Tx, portion: Portion) -> Lists:
    return change_each(tx, portion, to_cancel_waiting, lambda hit: _cancel(tx, hit, portion.reason))


def _cancel(tx: Tx, hit: Hit, reason: str) -> None:
    if hit.state == state.RUNNING:
        _ask_to_stop(tx, hit.number, reason)
    else:
        transition.end_waiting(tx, tx.read(hit.number), state.CANCELLED, message=reason)


def _ask_to_stop(tx: Tx, number: int, reason: str) -> None:
    job = tx.read(number)
    if job.stop_state == state.CANCELLED:
        return
    message = f"cancel requested: {reason}" if reason else "cancel requested"
    last = tx.emit(job, event.LOG, message)
    ((run_id,),) = tx.execute(ASK_TO_STOP, (tx.now, tx.now, job.event_count + 1, last, number)).fetchall()
    tx.stops.append(StopRun(run_id, "cancel"))
