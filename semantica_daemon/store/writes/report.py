"""What a run says while it is under way: progress, log lines, and that it does not answer."""

from typing import Any

from msgspec import Struct

from semantica_daemon.errors import RunOver
from semantica_daemon.model import event
from semantica_daemon.store.transition import TOUCHED, Running
from semantica_daemon.store.tx import Touched, Tx
from semantica_daemon.wire.run import Progress, RunAck

PROGRESS = f"""
UPDATE jobs
SET progress_percent = coalesce(:percent, progress_percent), progress_phase = coalesce(:phase, progress_phase),
    progress_items_completed = coalesce(:items_completed, progress_items_completed),
    progress_items_total = coalesce(:items_total, progress_items_total),
    progress_message = coalesce(:message, progress_message),
    updated_at = :now, event_count = event_count + 1
WHERE id = :job_id AND state = 'RUNNING' AND run_id = :run_id
{TOUCHED}
"""
SAY = f"""
UPDATE jobs
SET updated_at = :now, event_count = event_count + 1
WHERE id = :job_id AND state = 'RUNNING' AND run_id = :run_id
{TOUCHED}
"""
RESULT = """
UPDATE jobs
SET result_summary = :text, updated_at = :now
WHERE id = :job_id AND state = 'RUNNING' AND run_id = :run_id
"""


class Line(Struct, frozen=True):
    message: str
    level: str = "info"
    payload: Any = None


class Result(Struct, frozen=True):
    """`text` is JSON."""

    run: Running
    text: str


class Report(Struct, frozen=True):
    run: Running
    lines: tuple[Line, ...] = ()
    progress: Progress | None = None


def told(tx: Tx, said: Report) -> RunAck:
    """As `report`, for a caller who has to know whether it counts."""
    if not report(tx, said):
        raise _over(said.run)
    return RunAck(said.run.job_id, said.run.attempt)


def report(tx: Tx, said: Report) -> bool:
    """Whether the run is still the job's: a late word changes nothing."""
    where = {"job_id": said.run.job_id, "run_id": said.run.run_id, "now": tx.now}
    heard = [_say(tx, where, event.LOG, line) for line in said.lines]
    now = said.progress
    if now is not None:
        values = {"percent": now.percent, "phase": now.phase, "items_completed": now.items_completed}
        values |= {"items_total": now.items_total, "message": now.message}
        rows = tx.execute(PROGRESS, {**where, **values}).fetchall()
        heard.append(bool(rows))
        for row in rows:
            tx.emit(Touched(*row), event.PROGRESS, now.message or "", now)
    return all(heard)


def keep_result(tx: Tx, result: Result) -> RunAck:
    values = {"job_id": result.run.job_id, "run_id": result.run.run_id, "now": tx.now, "text": result.text}
    if not tx.execute(RESULT, values).rowcount:
        raise _over(result.run)
    return RunAck(result.run.job_id, result.run.attempt)


def unresponsive(tx: Tx, run: Running) -> None:
    """Asked to stop, given its grace, still there: the job stays RUNNING and keeps its slot."""
    where = {"job_id": run.job_id, "run_id": run.run_id, "now": tx.now}
    line = Line("asked to stop, and does not; it keeps its slot until it returns", "warn", {"run_id": run.run_id})
    _say(tx, where, event.UNRESPONSIVE, line)


def _say(tx: Tx, where: dict[str, Any], event_type: str, line: Line) -> bool:
    rows = tx.execute(SAY, where).fetchall()
    for row in rows:
        tx.emit(Touched(*row), event_type, line.message, line.payload, line.level)
    return bool(rows)


def _over(run: Running) -> RunOver:
    return RunOver(
        f"attempt {run.attempt} of job {run.job_id} is over", "its end is what counts now", job_id=run.job_id
    )
