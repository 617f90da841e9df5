"""Payloads that a job with `gather` takes over from the jobs it stands for; `model/gather` joins them.

They come from the waiting jobs that it supersedes, from new jobs that are kept as it, from a running job that ends
SUPERSEDED while it waits, and from an older generation that arrives late. A job that has run gathers nothing more.
"""

from collections.abc import Iterable
from typing import Any

from semantica_daemon.model import event, state
from semantica_daemon.model.admission import AdmittedJob
from semantica_daemon.model.gather import Gathering, joined, split
from semantica_daemon.model.planner import Live
from semantica_daemon.model.spec import rest_of
from semantica_daemon.model.start import quiet_at
from semantica_daemon.store.tx import ChangedJob, Tx

PAYLOAD = "SELECT payload, spec FROM jobs WHERE number = ?"
SET_PAYLOAD = "UPDATE jobs SET payload = ? WHERE number = ?"
POSTPONE = "UPDATE jobs SET scheduled_at = ?, is_delay = 1 WHERE number = ?"
COUNT_EVENT = "UPDATE jobs SET updated_at = ?, event_count = ?, last_event = ? WHERE number = ?"
# The waiting job at the end of the line: each job of it was superseded by the next.
HEIR = """
WITH RECURSIVE line (id, state, superseded_by) AS (
  SELECT id, state, superseded_by
  FROM jobs
  WHERE id = ?
  UNION
  SELECT jobs.id, jobs.state, jobs.superseded_by
  FROM line
  JOIN jobs ON jobs.id = line.superseded_by
  WHERE line.state = 'SUPERSEDED'
)
SELECT number, payload, spec
FROM line
JOIN jobs ON jobs.id = line.id
WHERE line.state IN ('QUEUED', 'SCHEDULED') AND run_count = 0
"""


def with_superseded(tx: Tx, payload: str, superseded: Iterable[Live]) -> str:
    """The payload of a new job, with those of the waiting jobs that it supersedes."""
    numbers = sorted(job.number for job in superseded)
    return joined(split(payload), after=[_stored(tx, number) for number in numbers]) if numbers else payload


def hand_on(tx: Tx, job: ChangedJob) -> None:
    """Gives the payload of a running job that ends SUPERSEDED to the job that stands for it now, if that gathers."""
    if heir := _heir(tx, job.superseded_by):
        number, gathering = heir
        tx.execute(SET_PAYLOAD, (joined(gathering, before=[_stored(tx, job.number)]), number))


def add_late(tx: Tx, payload: str, winner: str | None) -> None:
    """Gives the payload of a new job, whose generation is older than that of the winner, to the winner."""
    if heir := _heir(tx, winner):
        number, gathering = heir
        tx.execute(SET_PAYLOAD, (joined(gathering, after=[split(payload)]), number))


def keep(tx: Tx, new: AdmittedJob, kept: Live) -> None:
    """A new job is not stored, because `kept` waits. That takes its payload over, if it gathers, and its lane was not
    quiet: a debounce begins anew."""
    job, facts, changed = tx.read(kept.number), dict[str, Any](), list[str]()
    payload, spec = tx.execute(PAYLOAD, (kept.number,)).fetchone()
    rest = rest_of(spec)
    if new.spec.gather:
        tx.execute(SET_PAYLOAD, (joined(split(payload), after=[split(new.payload)]), kept.number))
        changed.append("payload")
    since, at = kept.postponed_since, job.scheduled_at if job.state == state.SCHEDULED else None
    if rest.debounce_ms is not None and since is not None and at is not None:
        quiet = quiet_at(tx.now, since, rest.debounce_ms, rest.max_wait_ms)
        if quiet > at:
            tx.execute(POSTPONE, (quiet, kept.number))
            facts["scheduled_at"] = quiet
            changed.append("scheduled_at")
    if changed:
        last = tx.emit(job, event.UPDATED, "it stands for one more request", {**facts, "changed": changed})
        tx.execute(COUNT_EVENT, (tx.now, job.event_count + 1, last, job.number))


def _stored(tx: Tx, number: int) -> Gathering:
    payload, spec = tx.execute(PAYLOAD, (number,)).fetchone()
    return split(payload, rest_of(spec).gather)


def _heir(tx: Tx, job_id: str | None) -> tuple[int, Gathering] | None:
    row = tx.execute(HEIR, (job_id,)).fetchone()
    if row is None or not rest_of(row[2]).gather:
        return None
    return row[0], split(row[1])
