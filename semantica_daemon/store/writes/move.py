"""job.move: gives a QUEUED job another place in its queue. `model/order` has the rule for positions."""

from typing import Any

from semantica_daemon.errors import InvalidParams, NotQueued, OtherQueue
from semantica_daemon.model import event, order, state
from semantica_daemon.store import find
from semantica_daemon.store.order import QueuedJob, first, following, last, previous
from semantica_daemon.store.tx import Tx
from semantica_daemon.wire.editing import MoveParams, MoveResult

READ = f"""
SELECT {", ".join(QueuedJob.__struct_fields__).replace("job_id", "id")}
FROM jobs
WHERE number = ?
"""
MOVE = "UPDATE jobs SET priority = ?, position = ?, updated_at = ?, event_count = ?, last_event = ? WHERE number = ?"
RENUMBER = """
UPDATE jobs
SET position = ?
WHERE number = ? AND position = ? AND state = 'QUEUED'
RETURNING queue, priority, concurrency_key, position
"""

Gap = tuple[QueuedJob | None, QueuedJob | None]  # the two jobs that a job is put between
HINTS = {
    state.SCHEDULED: "it has no place yet; job.update changes its priority",
    state.RUNNING: "it has started; only QUEUED jobs can be moved",
}


def move(tx: Tx, params: MoveParams) -> MoveResult | QueuedJob:
    """Returns the job behind the gap if too many jobs would have to be renumbered in one transaction; `engine/moves`
    then makes room."""
    _check(params)
    job = _queued(tx, params.job_id)
    before, after = gap = _gap(tx, params, job)
    if _is_there(job, gap, is_end=params.to is not None):
        return MoveResult(job.position, job.priority)
    position = _position(tx, before, after, job)
    if position is None:
        assert after is not None
        return after
    priority = (after or before or job).priority
    _store(tx, job, priority, position)
    return MoveResult(position, priority)


def renumber(tx: Tx, changes: list[tuple[int, int, int]]) -> None:
    """Raises the positions of these jobs: (new position, number, old position). Jobs that were moved or started
    meanwhile are left out."""
    for change in changes:
        for changed in tx.execute(RENUMBER, change).fetchall():
            tx.flows.renumbered(*changed)
    tx.position = max(tx.position, *(position for position, _, _ in changes))


def _check(params: MoveParams) -> None:
    given = [name for name in ("to", "before", "after") if getattr(params, name) is not None]
    if len(given) != 1:
        problem = f"exactly one of to, before, after is needed, {len(given)} are given"
        raise InvalidParams(problem, "name one", path="$")


def _queued(tx: Tx, prefix: str, **path: str) -> QueuedJob:
    """`path`: of the field that names it, for the refusal."""
    number, job_id, current = find.job(tx, prefix)
    if current != state.QUEUED:
        hint = HINTS.get(current, "it has ended; only QUEUED jobs can be moved")
        raise NotQueued(f"job {job_id} is {current}", hint, job_id=job_id, **path)
    return QueuedJob(*tx.execute(READ, (number,)).fetchone())


def _gap(tx: Tx, params: MoveParams, job: QueuedJob) -> Gap:
    if params.to is not None:
        return (None, first(tx, job)) if params.to == "front" else (last(tx, job), None)
    name = "before" if params.before is not None else "after"
    other = _queued(tx, params.before or params.after or "", path=f"$.{name}")
    if other.number == job.number:
        raise InvalidParams("a job cannot be put beside itself", "name another job", path=f"$.{name}")
    if other.queue != job.queue:
        problem = f"job {other.job_id} is in queue {other.queue}, the other in {job.queue}"
        raise OtherQueue(problem, "a job stays in its queue", job_id=other.job_id, path=f"$.{name}")
    if name == "before":
        return previous(tx, other, job), other
    return other, next(iter(following(tx, other, 1, job)), None)


def _is_there(job: QueuedJob, gap: Gap, is_end: bool) -> bool:
    """Whether the job is between these two already. `is_end`: whatever its priority is."""
    before, after = gap
    in_order = (before is None or before.place < job.place) and (after is None or job.place < after.place)
    return in_order and (is_end or (after or before or job).priority == job.priority)


def _position(tx: Tx, before: QueuedJob | None, after: QueuedJob | None, job: QueuedJob) -> int | None:
    if after is None:
        return tx.next_position()
    if before is None:
        return after.position - order.STEP
    middle = order.between(before.position, after.position)
    return _make_room(tx, before, job) if middle is None else middle


def _make_room(tx: Tx, before: QueuedJob, job: QueuedJob) -> int | None:
    """Renumbers the jobs behind the gap, as few as possible; None when that would be too many."""
    first, *larger = order.WINDOWS
    for windows in ([first], larger):
        behind = following(tx, before, windows[-1] + 1, job)
        for window in windows:
            room = order.make_room(before.position, [one.position for one in behind], window)
            if room is not None:
                _renumber(tx, list(zip(behind, room.behind, strict=False)))
                return room.position
    return None


def _renumber(tx: Tx, placed: list[tuple[QueuedJob, int]]) -> None:
    changed = [(one, position) for one, position in placed if one.position != position]
    renumber(tx, [(position, one.number, one.position) for one, position in changed])
    for one, position in changed:
        if position < one.position:
            tx.moved(tx.read(one.number), one.priority, position)


def _store(tx: Tx, job: QueuedJob, priority: int, position: int) -> None:
    facts: dict[str, Any] = {"position": position, "priority": priority}
    stored = tx.read(job.number)
    last_event = tx.emit(stored, event.MOVED, "", facts)
    tx.execute(MOVE, (priority, position, tx.now, stored.event_count + 1, last_event, job.number))
    tx.moved(stored, priority, position)
