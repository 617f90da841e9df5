"""Claims jobs for free slots. The writer runs this last in every transaction, so that a job starts in the same commit
that queued it, opened its last gate or freed a slot for it. A job is never RUNNING without a slot."""

from typing import Any

from semantica_daemon.model import state
from semantica_daemon.model.reservation import Reservation
from semantica_daemon.store import run_transition, transition
from semantica_daemon.store.counts import EVERY_QUEUE
from semantica_daemon.store.ready import BLOCKED, WIDTH, Place, Source
from semantica_daemon.store.run_transition import Claim
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes.reservations import settle

# The next jobs of one source: each can be started, unless its deadline or TTL has passed.
POP = f"""
SELECT {run_transition.START_COLUMNS}
FROM jobs INDEXED BY idx_jobs_pop
WHERE state = 'QUEUED' AND queue = ? AND claim_class = ? AND concurrency_key IS ? AND chain_group_id IS ?
ORDER BY priority DESC, position ASC, created_at ASC, id
LIMIT ?
"""
# The same for jobs without key and group: binding two NULLs takes more time than the rest of the statement's start.
POP_PLAIN = POP.replace("key IS ?", "key IS NULL").replace("group_id IS ?", "group_id IS NULL")
# The job that job.execute runs, unless its lane has no room for it.
RESERVED = f"""
SELECT {run_transition.START_COLUMNS}, queue, claim_class, concurrency_key, chain_group_id
FROM jobs
WHERE id = ? AND state = 'QUEUED' AND NOT claim_class & 4
"""


def claim(tx: Tx) -> list[Claim]:
    """Claims in the order of all queues together: priority, position, created_at, id."""
    if tx.reservations.active is not None:
        return _claim_reserved(tx, tx.reservations.active)
    claims: list[Claim] = []
    if tx.ready.held:
        tx.ready.release_held()
    while (best := tx.ready.best(tx.facts, tx.now)) is not None:
        claims += _take(tx, *best)
    if tx.counts.has_rates:
        tx.wake_at(tx.ready.next_opening)
    return claims


def _claim_reserved(tx: Tx, reservation: Reservation) -> list[Claim]:
    """Claims the job of the reservation and no other. It needs no free slot; a pause and the rate of its queue do not
    hold it back. Its lane, its key and its group do, because they keep jobs from running beside each other."""
    row = tx.execute(RESERVED, (reservation.job_id,)).fetchone() if reservation.job_id is not None else None
    if row is None:
        return []
    if is_too_late(tx, row):
        settle(tx)
        return claim(tx)
    *columns, queue, claims, key, group = row
    if (full := tx.rooms.full_room(queue, key, group, tx.now)) is not None:
        tx.wake_at(full[1])
        return []
    starts: list[tuple[Any, ...]] = []
    claimed = run_transition.start(tx, (queue, claims, key, group), tuple(columns), starts)
    tx.connection.executemany(run_transition.START, starts)
    return [claimed]


def _take(tx: Tx, source: Source, other: Place | None) -> list[Claim]:
    """Claims from one source: all jobs that have a free slot, or one if another source has a startable job too. The row
    after them is the new best place of the source."""
    most = 1 if other is not None else _most(tx, source[0])
    if source[2] is None and source[3] is None:
        rows = tx.execute(POP_PLAIN, (source[0], source[1], most + 1)).fetchall()
    else:
        rows = tx.execute(POP, (*source, most + 1)).fetchall()
    if rows and other is not None and other < place_of(rows[0]):
        tx.ready.replace(source, place_of(rows[0]))  # the best job was gone, so the other source comes first
        return []
    if source[1] > BLOCKED and rows and _lacks_slots(tx, source, place_of(rows[0])):
        return []
    tx.ready.replace(source, place_of(rows[most]) if len(rows) > most else None)
    starts: list[tuple[Any, ...]] = []
    claims = [run_transition.start(tx, source, row, starts) for row in rows[:most] if not is_too_late(tx, row)]
    tx.connection.executemany(run_transition.START, starts)
    return claims


def _most(tx: Tx, queue: str) -> int:
    """How many jobs of the queue, of one slot each, may start."""
    free = min(tx.counts.free_global_slots, tx.counts.free_slots(queue))
    return min(free, tx.counts.rate_left(queue, tx.now)) if tx.counts.has_rates else free


def _lacks_slots(tx: Tx, source: Source, place: Place) -> bool:
    """Whether a job that takes several slots has to wait for more of them. Meanwhile no job behind it takes any."""
    needed = source[1] >> WIDTH
    if needed > tx.counts.free_slots(source[0]):
        tx.ready.hold(source[0], place)
    elif needed > tx.counts.free_global_slots:
        tx.ready.hold(EVERY_QUEUE, place)
    else:
        return False
    return True


def is_too_late(tx: Tx, row: tuple[Any, ...]) -> bool:
    """Ends a job whose deadline or TTL has passed. The scheduler does so too, but the claim may run before it."""
    number, deadline, expires_at = row[0], row[4], row[5]
    if deadline is not None and deadline <= tx.now:
        return transition.end_waiting(tx, tx.read(number), state.SKIPPED_DEADLINE)
    if expires_at is not None and expires_at <= tx.now:
        return transition.end_waiting(tx, tx.read(number), state.SKIPPED_TTL)
    return False


def place_of(row: tuple[Any, ...]) -> Place:
    """(-priority, position, created_at, id)"""
    return -row[2], row[3], row[6], row[1]
