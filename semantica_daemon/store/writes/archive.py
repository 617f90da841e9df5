"""job.archive: an ended job keeps its row; its folder is deleted after the commit, by `engine/removals`. The table
workspace_removals has the folders that are still to be deleted, so that a crash leaves none behind."""

from semantica_daemon.model import event
from semantica_daemon.model.selection import Hit, Lists, to_archive
from semantica_daemon.store.selected import Portion, change_each
from semantica_daemon.store.tx import Tx

ARCHIVE = """
UPDATE jobs
SET archived_at = ?1, updated_at = ?1, event_count = ?2, last_event = ?3
WHERE number = ?4
RETURNING run_count
"""
ADD_REMOVAL = "INSERT OR IGNORE INTO workspace_removals (job_id) VALUES (?)"
FORGET_REMOVAL = "DELETE FROM workspace_removals WHERE job_id = ?"


def archive(tx: Tx, portion: Portion) -> Lists:
    return change_each(tx, portion, to_archive, lambda hit: _archive(tx, hit))


def _archive(tx: Tx, hit: Hit) -> None:
    job = tx.read(hit.number)
    last = tx.emit(job, event.ARCHIVED)
    ((runs,),) = tx.execute(ARCHIVE, (tx.now, job.event_count + 1, last, job.number)).fetchall()
    if runs:
        tx.execute(ADD_REMOVAL, (job.job_id,))


def forget_removals(tx: Tx, job_ids: list[str]) -> None:
    """Called when the folders of these jobs are gone."""
    tx.connection.executemany(FORGET_REMOVAL, [(job_id,) for job_id in job_ids])
