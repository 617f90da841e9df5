"""Free slots take the next jobs. The writer runs this last in every transaction, so that whatever a batch has
queued, freed or opened starts in the very commit that made it so; a job is never RUNNING without a slot."""

from typing import Any

from semantica_daemon.model import state
from semantica_daemon.store import transition
from semantica_daemon.store.transition import Claim
from semantica_daemon.store.tx import Tx

# Stepped lazily and stopped as soon as the free slots are taken: jobs that a running one of their lane holds back
# are passed over, and there are never more of those than running jobs.
POP = """
SELECT priority, position, created_at, id, subject_key, job_type, supersede, deadline, expires_at,
  wait_for_idle, require_charging
FROM jobs
WHERE state = 'QUEUED' AND execution_mode IS NOT NULL AND queue = :queue
ORDER BY priority DESC, position ASC, created_at ASC, id
"""
LANE_RUNS = """
SELECT 1
FROM jobs INDEXED BY idx_jobs_lane_live
WHERE finished_at IS NULL AND subject_key <> '' AND subject_key = :subject_key AND job_type = :job_type
  AND supersede <> 'none' AND state = 'RUNNING'
"""

MOST_UNFIT = 25  # at a time; the timer and `machine.lost` take the rest

Candidate = tuple[int, int, int, str]


def claim(tx: Tx) -> list[Claim]:
    free = tx.counts.free()
    if not free:
        return []
    found: list[Candidate] = []
    for queue, slots in free.items():
        found += _next_of(tx, queue, slots)
    if len(free) > 1:
        found.sort()
    room = tx.counts.limits.max_slots - tx.counts.running
    claims = (transition.start(tx, candidate[3]) for candidate in found[:room])
    return [claimed for claimed in claims if claimed is not None]


def _next_of(tx: Tx, queue: str, slots: int) -> list[Candidate]:
    found: list[Candidate] = []
    unfit: list[tuple[str, str]] = []
    cursor = tx.execute(POP, {"queue": queue})
    for row in cursor:
        other = _not_now(tx, row)
        if other:
            unfit.append((row[3], other))
            if len(unfit) == MOST_UNFIT:
                break
        elif not (row[4] and row[6] != "none" and _lane_runs(tx, row[4], row[5])):
            found.append((-row[0], *row[1:4]))
            if len(found) == slots:
                break
    cursor.close()
    for job_id, to in unfit:
        if to == state.SCHEDULED:
            transition.withdraw(tx, job_id)
        else:
            transition.end_waiting(tx, job_id, state.QUEUED, to)
    return found


def _not_now(tx: Tx, row: tuple[Any, ...]) -> str | None:
    """What it becomes instead. Timers and `engine/machine` notice these too; a claim must not be faster."""
    if row[7] is not None and row[7] <= tx.now:
        return state.SKIPPED_DEADLINE
    if row[8] is not None and row[8] <= tx.now:
        return state.SKIPPED_TTL
    return None if tx.facts.meet(row[9], row[10]) else state.SCHEDULED


def _lane_runs(tx: Tx, subject_key: str, job_type: str) -> bool:
    row = tx.execute(LANE_RUNS, {"subject_key": subject_key, "job_type": job_type}).fetchone()
    return row is not None
