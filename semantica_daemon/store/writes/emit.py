"""event.emit: what waits for the event is latched, once and for good; what then waits for nothing else may start."""

from typing import Any

from msgspec import Struct

from semantica_daemon.model import event
from semantica_daemon.store.transition import TOUCHED
from semantica_daemon.store.tx import Touched, Tx

MOST = 100
NEWEST = "SELECT max(rowid) FROM jobs"
BY_KEY = f"""
UPDATE jobs
SET event_met_at = :now, unmet = unmet - 1, updated_at = :now, event_count = event_count + 1
WHERE rowid IN (
  SELECT rowid
  FROM jobs INDEXED BY idx_jobs_event
  WHERE wait_for_event IS NOT NULL AND event_met_at IS NULL AND state = 'SCHEDULED'
    AND wait_for_event = :key AND rowid <= :newest
  LIMIT :most
)
{TOUCHED}, unmet, scheduled_at
"""
WAITING = """
SELECT job_id
FROM job_conditions INDEXED BY idx_job_conditions_waiting
JOIN jobs ON jobs.id = job_id
WHERE waiting = 1 AND key = :key AND value = :value AND jobs.rowid <= :newest
LIMIT :most
"""
MEET = "UPDATE job_conditions SET met_at = :now, waiting = 0 WHERE job_id = :job_id AND key = :key"
MET = f"""
UPDATE jobs
SET unmet = unmet - 1, updated_at = :now, event_count = event_count + 1
WHERE id = :job_id AND state = 'SCHEDULED'
{TOUCHED}, unmet, scheduled_at
"""


class Emit(Struct, frozen=True):
    """`newest`: of a part that goes on, the youngest job there was when the event came; it never counts backwards."""

    key: str
    value: str | None = None
    newest: int | None = None


class Latched(Struct, frozen=True):
    """`more`: there may be others; go on with `newest`."""

    matched: list[str]
    newest: int
    more: bool


def emit(tx: Tx, said: Emit) -> Latched:
    newest = said.newest
    if newest is None:
        newest = tx.execute(NEWEST).fetchone()[0] or 0
        about = said.key if said.value is None else f"{said.key}={said.value}"
        tx.announce("event.emitted", f"event {about}", {"key": said.key, "value": said.value})
    values = {"key": said.key, "value": said.value, "newest": newest, "most": MOST, "now": tx.now}
    rows = sorted(tx.execute(BY_KEY, values).fetchall())
    met = [] if said.value is None else tx.execute(WAITING, values).fetchall()
    for (job_id,) in met:
        tx.execute(MEET, {"job_id": job_id, "key": said.key, "now": tx.now})
        rows += tx.execute(MET, {"job_id": job_id, "now": tx.now}).fetchall()
    for row in rows:
        _latched(tx, said, row)
    matched = list(dict.fromkeys(row[0] for row in rows))
    return Latched(matched, newest, len(rows) >= MOST)


def _latched(tx: Tx, said: Emit, row: tuple[Any, ...]) -> None:
    unmet, scheduled_at = row[5:]
    facts = {"key": said.key, "value": said.value, "still_waits_for": unmet}
    tx.emit(Touched(*row[:5]), event.LOG, f"event {said.key} has come", facts)
    if not unmet:
        tx.wake_at(scheduled_at or tx.now)
