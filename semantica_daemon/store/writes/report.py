"""Reports of a run that is under way: progress, log lines, a result, and a run that does not stop."""

from typing import Any

import msgspec
from msgspec import Struct

from semantica_daemon.errors import RunOver
from semantica_daemon.model import event
from semantica_daemon.store.run_transition import Running, read_run
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes.worker_runs import RunToken, run_of_token
from semantica_daemon.wire.run import Progress, RunAck

SET_PROGRESS = """
UPDATE jobs
SET progress = json_patch(coalesce(progress, '{}'), ?), updated_at = ?, event_count = ?, last_event = ?
WHERE number = ?
"""
COUNT_EVENT = "UPDATE jobs SET updated_at = ?, event_count = ?, last_event = ? WHERE number = ?"
RESULT = """
UPDATE jobs
SET result_summary = ?, updated_at = ?
WHERE number = ? AND state = 'RUNNING' AND run_id = ?
"""


class Line(Struct, frozen=True):
    message: str
    level: str = "info"
    payload: Any = None


class RunResult(Struct, frozen=True):
    """`text` is JSON."""

    run: Running | RunToken
    text: str


class Report(Struct, frozen=True):
    run: Running | RunToken
    lines: tuple[Line, ...] = ()
    progress: Progress | None = None


def report(tx: Tx, request: Report) -> RunAck:
    """Stores the report; raises RunOver, changing nothing, when the run is no longer current."""
    run = _run(tx, request.run)
    job = read_run(tx, run)
    if job is None:
        raise _over(run)
    for line in request.lines:
        _emit(tx, run, event.LOG, line)
    if request.progress is not None:
        _set_progress(tx, run, request.progress)
    return RunAck(run.job_id, run.attempt, job.stop_state is not None)


def keep_result(tx: Tx, result: RunResult) -> RunAck:
    run = _run(tx, result.run)
    if not tx.execute(RESULT, (result.text, tx.now, run.job_number, run.run_id)).rowcount:
        raise _over(run)
    return RunAck(run.job_id, run.attempt)


def unresponsive(tx: Tx, run: Running) -> None:
    """Emits job.unresponsive: the run outlasts its grace period. The job stays RUNNING and keeps its slot."""
    if read_run(tx, run) is not None:
        message = "did not stop within its grace period; it keeps its slot until it ends"
        line = Line(message, "warn", {"run_id": run.run_id})
        _emit(tx, run, event.UNRESPONSIVE, line)


def _run(tx: Tx, run: Running | RunToken) -> Running:
    """The tokens of workers are in the database, so that they outlive a restart; all others are in memory."""
    if isinstance(run, Running):
        return run
    found = run_of_token(tx, run)
    if found is None:
        hint = "it is $SEMANTICA_RUN_TOKEN of the job's own process, or run_token of a worker's claim"
        raise RunOver("no run that is under way has this token", hint)
    return found


def _emit(tx: Tx, run: Running, event_type: str, line: Line) -> None:
    job = tx.read(run.job_number)
    last = tx.emit(job, event_type, line.message, line.payload, line.level)
    tx.execute(COUNT_EVENT, (tx.now, job.event_count + 1, last, job.number))


def _set_progress(tx: Tx, run: Running, progress: Progress) -> None:
    """Fields that are None keep their stored value."""
    job = tx.read(run.job_number)
    given = {name: value for name, value in msgspec.structs.asdict(progress).items() if value is not None}
    last = tx.emit(job, event.PROGRESS, progress.message or "", progress)
    tx.execute(SET_PROGRESS, (msgspec.json.encode(given).decode(), tx.now, job.event_count + 1, last, job.number))


def _over(run: Running) -> RunOver:
    message = f"attempt {run.attempt} of job {run.job_id} is over"
    return RunOver(message, "the daemon ignores reports after the end of a run", job_id=run.job_id)
