"""Handles what has become due: SCHEDULED jobs become QUEUED, schedules fire, late jobs are skipped, paused queues
resume, reservations expire, leases of workers run out."""

from msgspec import Struct

from semantica_daemon.model import state
from semantica_daemon.model.machine import Needs
from semantica_daemon.store import needs, transition
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes import fire, queues, reservations, worker_runs

# One query per combination of needs that is met, so that jobs whose needs are not met are never read.
DUE = """
SELECT number
FROM jobs INDEXED BY idx_jobs_due
WHERE state = 'SCHEDULED' AND unmet = 0 AND wait_for_idle = :idle AND require_charging = :charging
  AND coalesce(scheduled_at, 0) <= :now
ORDER BY coalesce(scheduled_at, 0), number
LIMIT :most
"""
EXPIRED = """
SELECT number
FROM jobs INDEXED BY idx_jobs_expires
WHERE state = 'QUEUED' AND expires_at IS NOT NULL AND expires_at <= :now
LIMIT :most
"""
PAST_DEADLINE = """
SELECT number
FROM jobs INDEXED BY idx_jobs_deadline
WHERE state IN ('QUEUED', 'SCHEDULED') AND deadline IS NOT NULL AND deadline <= :now
LIMIT :most
"""
RESUMING = "SELECT queue FROM queues WHERE resume_at IS NOT NULL AND resume_at <= :now"
NEXT_DUE = """
SELECT min(at)
FROM (
  SELECT min(expires_at) AS at
  FROM jobs INDEXED BY idx_jobs_expires
  WHERE state = 'QUEUED' AND expires_at IS NOT NULL
  UNION ALL
  SELECT min(deadline)
  FROM jobs INDEXED BY idx_jobs_deadline
  WHERE state IN ('QUEUED', 'SCHEDULED') AND deadline IS NOT NULL
  UNION ALL
  SELECT min(resume_at) FROM queues WHERE resume_at IS NOT NULL
  UNION ALL
  SELECT min(next_trigger_at) FROM schedules WHERE next_trigger_at IS NOT NULL
  UNION ALL
  SELECT min(expires_at) FROM leases
)
"""


class Promote(Struct, frozen=True):
    """At most `most` items of each kind per transaction, to keep it short."""

    most: int = 6


class Due(Struct, frozen=True):
    """The next due instant (may be now), and the idle and power needs of waiting jobs."""

    at: int | None
    needs: Needs


def promote(tx: Tx, request: Promote) -> Due:
    if tx.reservations.active is not None:
        reservations.settle(tx)
    bound = {"now": tx.now, "most": request.most}
    for (number,) in tx.execute(PAST_DEADLINE, bound).fetchall():
        transition.end_waiting(tx, tx.read(number), state.SKIPPED_DEADLINE)
    for (number,) in tx.execute(EXPIRED, bound).fetchall():
        transition.end_waiting(tx, tx.read(number), state.SKIPPED_TTL)
    worker_runs.end_expired(tx, request.most)
    fire.fire_due(tx)
    for idle, charging in tx.facts.met:
        for (number,) in tx.execute(DUE, {**bound, "idle": idle, "charging": charging}).fetchall():
            transition.promote(tx, tx.read(number))
    for (queue,) in tx.execute(RESUMING, {"now": tx.now}).fetchall():
        queues.end_pause(tx, queue)
    first_due = tx.execute(needs.FIRST_DUE).fetchall()
    found = [at for idle, charging, at in first_due if tx.facts.meet(idle, charging)]
    found += tx.execute(NEXT_DUE).fetchone()
    found += [tx.reservations.active.expires_at] if tx.reservations.active is not None else []
    found += [tx.external.next_opening(tx.now)] if tx.counts.has_rates else []
    next_at = min((at for at in found if at is not None), default=None)
    return Due(next_at, needs.from_rows([*first_due, *tx.execute(needs.AT_ONCE)]))


def promote_opened(tx: Tx) -> None:
    """Makes the jobs QUEUED whose last gate was opened in this transaction, unless they still wait for a time or the
    machine."""
    numbers, tx.opened = tx.opened, []
    for number in numbers:
        job = tx.read(number)
        if (job.scheduled_at or 0) <= tx.now and tx.facts.meet(job.wait_for_idle, job.require_charging):
            transition.promote(tx, job)
        else:
            tx.wake_at(job.scheduled_at or tx.now)
