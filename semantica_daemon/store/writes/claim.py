"""Free slots take the next jobs. The writer runs this last in every transaction, so that whatever a batch has queued,
freed or opened starts in the commit that made it so; a job is never RUNNING without a slot."""

from typing import Any

from semantica_daemon.model import state
from semantica_daemon.store import transition
from semantica_daemon.store.ready import Place, Source
from semantica_daemon.store.transition import Claim
from semantica_daemon.store.tx import Tx

# The next jobs of one source: every row it returns can be started, but for those whose time has run out.
POP = f"""
SELECT {transition.START_COLUMNS}
FROM jobs INDEXED BY idx_jobs_pop
WHERE state = 'QUEUED' AND queue = ? AND claim_class = ?
ORDER BY priority DESC, position ASC, created_at ASC, id
LIMIT ?
"""


def claim(tx: Tx) -> list[Claim]:
    """In the order of all queues together: priority, position, created_at, id."""
    claims: list[Claim] = []
    while (best := tx.ready.best(tx.counts, tx.facts)) is not None:
        claims += _take(tx, *best)
    return claims


def _take(tx: Tx, source: Source, other: Place | None) -> list[Claim]:
    """As many as there is room for while no other source competes, else one. The row after them is the new best."""
    room = 1 if other is not None else min(tx.counts.room, tx.counts.free_slots(source[0]))
    rows = tx.execute(POP, (*source, room + 1)).fetchall()
    if rows and other is not None and other < _place(rows[0]):
        tx.ready.replace(source, _place(rows[0]))  # its best job was gone, and the other source comes first
        return []
    tx.ready.replace(source, _place(rows[room]) if len(rows) > room else None)
    starts: list[tuple[Any, ...]] = []
    claims = [transition.start(tx, row, starts) for row in rows[:room] if not _is_too_late(tx, row)]
    tx.connection.executemany(transition.START, starts)
    return claims


def _is_too_late(tx: Tx, row: tuple[Any, ...]) -> bool:
    """Timers end what is too late; a claim that comes before them must not start it."""
    deadline, expires_at = row[7], row[8]
    if deadline is not None and deadline <= tx.now:
        return transition.end_waiting(tx, tx.read(row[0]), state.SKIPPED_DEADLINE)
    if expires_at is not None and expires_at <= tx.now:
        return transition.end_waiting(tx, tx.read(row[0]), state.SKIPPED_TTL)
    return False


def _place(row: tuple[Any, ...]) -> Place:
    return -row[4], row[5], row[6], row[1]
