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
    while (source := tx.ready.best(tx.counts, tx.facts)) is not None:
        claims += _take(tx, source)
    return claims


def _take(tx: Tx, source: Source) -> list[Claim]:
    """As many as there is room for when no other source competes, else one. The row after them is the new best."""
    room = min(tx.counts.room, tx.counts.free_slots(source[0])) if tx.ready.is_only(source) else 1
    rows = tx.execute(POP, (*source, room + 1)).fetchall()
    tx.ready.replace(source, _place(rows[0]) if rows else None)
    if tx.ready.best(tx.counts, tx.facts) != source:
        return []  # its best job was gone, and another source comes first
    tx.ready.replace(source, _place(rows[room]) if len(rows) > room else None)
    started = (_start(tx, row) for row in rows[:room])
    return [claimed for claimed in started if claimed is not None]


def _start(tx: Tx, row: tuple[Any, ...]) -> Claim | None:
    """Timers end what is too late; a claim that comes before them must not start it."""
    deadline, expires_at = row[7], row[8]
    if deadline is not None and deadline <= tx.now:
        transition.end_waiting(tx, tx.read(row[0]), state.SKIPPED_DEADLINE)
        return None
    if expires_at is not None and expires_at <= tx.now:
        transition.end_waiting(tx, tx.read(row[0]), state.SKIPPED_TTL)
        return None
    return transition.start(tx, row)


def _place(row: tuple[Any, ...]) -> Place:
    return -row[4], row[5], row[6], row[1]
