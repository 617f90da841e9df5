"""The only code that writes jobs.state. Each named change is guarded by the state it starts from (and the run it
belongs to), keeps the counts, and emits its one event; a change whose guard does not hold does nothing and says None.
"""

from typing import Any

from msgspec import Struct

from semantica_daemon.model import event, state
from semantica_daemon.model.outcome import CRASHED, ESCAPED, Outcome
from semantica_daemon.store import turns
from semantica_daemon.store.tx import Touched, Tx, encode

TOUCHED = "RETURNING id, queue, user_tag, trace_id, event_count"
IN_PROCESS = "IN_PROCESS"
LANE = "iif(supersede = 'none', '', subject_key), job_type"


START = f"""
UPDATE jobs
SET state = 'RUNNING', run_id = :run_id, started_at = :now, updated_at = :now, attempts = attempts + 1,
    run_count = run_count + 1, event_count = event_count + (execution_mode = 'IN_PROCESS'), pid = NULL,
    log_path = NULL, result_summary = NULL, progress_percent = NULL, progress_phase = NULL,
    progress_items_completed = NULL, progress_items_total = NULL, progress_message = NULL, postponed_since = NULL
WHERE id = :job_id AND state = 'QUEUED'
{TOUCHED}, job_type, payload, attempts, timeout_ms, grace_ms, deadline, execution_mode, env_vars, leftovers,
  run_count, queued_at, template_id
"""
INSERT_RUN = """
INSERT INTO job_runs (run_id, job_id, attempt, params_snapshot, template_id, started_at)
VALUES (:run_id, :job_id, :attempt, :payload, :template_id, :now)
"""
END_RUN = """
UPDATE job_runs
SET status = :status, finished_at = :now, exit_code = :exit_code, error = :error
WHERE run_id = :run_id AND status = 'RUNNING'
"""
END = f"""
UPDATE jobs
SET state = :to, finished_at = :now, updated_at = :now, event_count = event_count + 1,
    result_summary = coalesce(:result, result_summary),
    exit_code = :exit_code, error_code = :code, error_class = :class, error_message = :message,
    error_details = :details, claim_attempts = claim_attempts + :unstarted,
    attempts = attempts - :given_back
WHERE id = :job_id AND state = 'RUNNING' AND run_id = :run_id
{TOUCHED}, {LANE}, schedule_id, awaits_turn, stale, superseded_by
"""
RETRY = f"""
UPDATE jobs
SET state = 'SCHEDULED', scheduled_at = :at, is_delay = 1, updated_at = :now, event_count = event_count + 1,
    exit_code = :exit_code, error_code = :code, error_class = :class, error_message = :message,
    error_details = :details
WHERE id = :job_id AND state = 'RUNNING' AND run_id = :run_id
{TOUCHED}, deadline
"""
PUT_BACK = f"""
UPDATE jobs
SET state = 'QUEUED', queued_at = :now, position = :position, expires_at = :now + ttl_ms, updated_at = :now,
    attempts = attempts - 1, claim_attempts = claim_attempts + :unstarted, event_count = event_count + 1
WHERE id = :job_id AND state = 'RUNNING' AND run_id = :run_id
{TOUCHED}, deadline, expires_at
"""
# Its time has come once, and does not come again when the clock is set back.
WAIT_AGAIN = f"""
UPDATE jobs
SET state = 'SCHEDULED', scheduled_at = min(scheduled_at, :now), is_delay = 1, updated_at = :now,
    attempts = attempts - 1, event_count = event_count + 1
WHERE id = :job_id AND state = 'RUNNING' AND run_id = :run_id
{TOUCHED}, deadline
"""
WITHDRAW = f"""
UPDATE jobs
SET state = 'SCHEDULED', scheduled_at = min(scheduled_at, :now), is_delay = 1, expires_at = NULL,
    updated_at = :now, event_count = event_count + 1
WHERE id = :job_id AND state = 'QUEUED'
{TOUCHED}
"""
PROMOTE = f"""
UPDATE jobs
SET state = 'QUEUED', queued_at = :now, position = :position, expires_at = :now + ttl_ms, updated_at = :now,
    event_count = event_count + 1
WHERE id = :job_id AND state = 'SCHEDULED' AND unmet = 0
{TOUCHED}, expires_at
"""
END_WAITING = f"""
UPDATE jobs
SET state = :to, finished_at = :now, updated_at = :now, superseded_by = :superseded_by,
    event_count = event_count + 1
WHERE id = :job_id AND state = :origin AND state IN ('QUEUED', 'SCHEDULED')
{TOUCHED}, {LANE}, schedule_id, awaits_turn, unmet
"""
CLOSE_CONDITIONS = "UPDATE job_conditions SET waiting = 0 WHERE job_id = :job_id AND waiting = 1"
LANE_ENDED = """
UPDATE lanes
SET ended = :to
WHERE subject_key = :subject_key AND job_type = :job_type AND job_id = :job_id
"""
CALM_LANE = """
UPDATE lanes
SET interrupts = 0
WHERE subject_key = :subject_key AND job_type = :job_type AND interrupts > 0
"""
CALM_SCHEDULE = "UPDATE schedules SET interrupts = 0 WHERE schedule_id = :schedule_id AND interrupts > 0"
EVENT_OF_END = {
    state.DONE: event.DONE,
    state.FAILED: event.FAILED,
    state.CANCELLED: event.CANCELLED,
    state.SUPERSEDED: event.SUPERSEDED,
    state.SKIPPED_TTL: event.SKIPPED_TTL,
    state.SKIPPED_DEADLINE: event.SKIPPED_DEADLINE,
}
LEVEL_OF_END = {state.FAILED: "error", state.SKIPPED_TTL: "warn", state.SKIPPED_DEADLINE: "warn"}


class Running(Struct, frozen=True, gc=False):
    """The run a change belongs to, and when it began."""

    job_id: str
    run_id: str
    attempt: int
    started_at: int


class Claim(Struct, frozen=True, gc=False):
    """A run that was just begun, with what it takes to carry it out."""

    run: Running
    job_type: str
    payload: str
    timeout_ms: int | None
    grace_ms: int | None
    deadline: int | None
    mode: str
    env_vars: str | None
    leftovers: str
    run_count: int
    trace_id: str | None


def start(tx: Tx, job_id: str) -> Claim | None:
    """QUEUED → RUNNING, with its run; and with its job.started, when that is the same moment (`writes/begin`)."""
    run_id = tx.ids.run(tx.now)
    row = tx.execute(START, {"job_id": job_id, "run_id": run_id, "now": tx.now}).fetchall()
    if not row:
        return None
    (job_type, payload, attempt, timeout_ms, grace_ms, deadline,
     mode, env_vars, leftovers, run_count, queued_at, template_id) = row[0][5:]  # fmt: skip
    values = {"run_id": run_id, "job_id": job_id, "attempt": attempt, "payload": payload, "now": tx.now}
    tx.execute(INSERT_RUN, {**values, "template_id": template_id})
    touched = Touched(*row[0][:5])
    tx.moved(touched.queue, state.QUEUED, state.RUNNING)
    tx.add(touched.queue, "runs", 1)
    tx.add(touched.queue, "wait_ms", max(0, tx.now - queued_at))
    if mode == IN_PROCESS:
        tx.emit(touched, event.STARTED, "", {"run_id": run_id, "attempt": attempt})
    run = Running(job_id, run_id, attempt, tx.now)
    return Claim(
        run, job_type, payload, timeout_ms, grace_ms, deadline, mode, env_vars, leftovers, run_count, touched.trace_id
    )


def end(tx: Tx, run: Running, to: str, status: str, outcome: Outcome) -> Touched | None:
    """RUNNING → DONE, FAILED, CANCELLED or SUPERSEDED, with the end of its run."""
    if to not in state.TRANSITIONS[state.RUNNING] or to not in state.TERMINAL:
        return None
    values = _error_values(outcome)
    values |= {"job_id": run.job_id, "run_id": run.run_id, "now": tx.now, "to": to, "result": outcome.result}
    values |= {"unstarted": int(outcome.failed_claim), "given_back": int(status == "INTERRUPTED")}
    row = tx.execute(END, values).fetchall()
    if not row:
        return None
    touched = _run_over(tx, run, status, outcome, row[0], to)
    _lane_ended(tx, touched.job_id, row[0], to)
    turns.pass_on(tx, *row[0][7:9])
    if status in ("DONE", "FAILED"):
        _calm(tx, row[0])
    facts: dict[str, Any] = {"run_id": run.run_id, "attempt": run.attempt}
    facts["duration_ms"] = _took(tx, run, outcome)
    if row[0][9]:
        facts |= {"stale": True, "superseded_by": row[0][10]}
    if outcome.error is not None and to == state.FAILED:
        facts |= {"code": outcome.error.code, "class": outcome.error.class_}
    message = outcome.error.message if outcome.error and to == state.FAILED else ""
    tx.emit(touched, EVENT_OF_END[to], message, facts, LEVEL_OF_END.get(to, "info"))
    return touched


def retry(tx: Tx, run: Running, at: int, outcome: Outcome) -> Touched | None:
    """RUNNING → SCHEDULED: an attempt is left, and its backoff has to pass first."""
    values = _error_values(outcome) | {"job_id": run.job_id, "run_id": run.run_id, "now": tx.now, "at": at}
    row = tx.execute(RETRY, values).fetchall()
    if not row:
        return None
    touched = _run_over(tx, run, "FAILED", outcome, row[0], state.SCHEDULED)
    tx.wake_at(at)
    tx.wake_at(row[0][5])
    code, message = (outcome.error.code, outcome.error.message) if outcome.error else ("", "")
    facts = {"run_id": run.run_id, "attempt": run.attempt, "scheduled_at": at, "code": code}
    tx.emit(touched, event.RETRYING, message, facts, "warn")
    return touched


def put_back(tx: Tx, run: Running, outcome: Outcome) -> Touched | None:
    """RUNNING → QUEUED: interrupted through no fault of its own; the attempt is given back."""
    values = {"job_id": run.job_id, "run_id": run.run_id, "now": tx.now, "position": tx.next_position()}
    row = tx.execute(PUT_BACK, {**values, "unstarted": int(outcome.failed_claim)}).fetchall()
    if not row:
        return None
    touched = _run_over(tx, run, "INTERRUPTED", outcome, row[0], state.QUEUED)
    tx.wake_at(row[0][5])
    tx.wake_at(row[0][6])
    code = outcome.error.code if outcome.error else ""
    tx.emit(touched, event.REQUEUED, "", {"run_id": run.run_id, "code": code}, "warn")
    return touched


def wait_again(tx: Tx, run: Running, outcome: Outcome) -> Touched | None:
    """RUNNING → SCHEDULED: what it needs of the machine was lost; the attempt is given back."""
    row = tx.execute(WAIT_AGAIN, {"job_id": run.job_id, "run_id": run.run_id, "now": tx.now}).fetchall()
    if not row:
        return None
    touched = _run_over(tx, run, "INTERRUPTED", outcome, row[0], state.SCHEDULED)
    tx.wake_at(tx.now)
    tx.wake_at(row[0][5])
    message = outcome.error.message if outcome.error else ""
    tx.emit(touched, event.SCHEDULED, message, {"run_id": run.run_id, "given_back": True}, "warn")
    return touched


def withdraw(tx: Tx, job_id: str) -> bool:
    """QUEUED → SCHEDULED: what it needs of the machine was lost before it could start."""
    row = tx.execute(WITHDRAW, {"job_id": job_id, "now": tx.now}).fetchall()
    if not row:
        return False
    touched = Touched(*row[0])
    tx.moved(touched.queue, state.QUEUED, state.SCHEDULED)
    tx.wake_at(tx.now)
    tx.emit(touched, event.SCHEDULED, "the machine is no longer as it needs it")
    return True


def promote(tx: Tx, job_id: str) -> bool:
    """SCHEDULED → QUEUED: due, and nothing else left to wait for."""
    row = tx.execute(PROMOTE, {"job_id": job_id, "now": tx.now, "position": tx.next_position()}).fetchall()
    if not row:
        return False
    touched = Touched(*row[0][:5])
    tx.moved(touched.queue, state.SCHEDULED, state.QUEUED)
    tx.wake_at(row[0][5])
    tx.emit(touched, event.QUEUED)
    return True


def end_waiting(tx: Tx, job_id: str, origin: str, to: str, by: str | None = None, message: str = "") -> bool:
    """QUEUED or SCHEDULED → SUPERSEDED (named by `by`), CANCELLED or SKIPPED_*: it never ran, or never again."""
    if to not in state.TRANSITIONS[origin]:
        return False
    values = {"job_id": job_id, "origin": origin, "to": to, "now": tx.now, "superseded_by": by}
    row = tx.execute(END_WAITING, values).fetchall()
    if not row:
        return False
    touched = Touched(*row[0][:5])
    tx.moved(touched.queue, origin, to)
    _lane_ended(tx, job_id, row[0], to)
    turns.pass_on(tx, *row[0][7:9])
    if row[0][9]:
        tx.execute(CLOSE_CONDITIONS, {"job_id": job_id})
    tx.emit(touched, EVENT_OF_END[to], message, {"superseded_by": by} if by else None, LEVEL_OF_END.get(to, "info"))
    return True


def _error_values(outcome: Outcome) -> dict[str, Any]:
    error = outcome.error
    return {
        "exit_code": outcome.exit_code,
        "code": error and error.code,
        "class": error and error.class_,
        "message": error and error.message,
        "details": encode(error.details).decode() if error and error.details is not None else None,
    }


def _run_over(tx: Tx, run: Running, status: str, outcome: Outcome, row: tuple[Any, ...], to: str) -> Touched:
    error = encode(outcome.error).decode() if outcome.error else None
    values = {"run_id": run.run_id, "status": status, "now": tx.now, "exit_code": outcome.exit_code, "error": error}
    tx.execute(END_RUN, values)
    touched = Touched(*row[:5])
    tx.moved(touched.queue, state.RUNNING, to)
    if outcome.error not in (CRASHED.error, ESCAPED.error):  # those ended nobody knows when
        took = _took(tx, run, outcome)
        tx.add(touched.queue, "recent_run_ms", tx.counts.towards(touched.queue, took))
        tx.add(touched.queue, "ended_runs", 1)
        tx.add(touched.queue, "run_ms", took)
    return touched


def _took(tx: Tx, run: Running, outcome: Outcome) -> int:
    return max(0, tx.now - run.started_at) if outcome.took_ms is None else outcome.took_ms


def _calm(tx: Tx, row: tuple[Any, ...]) -> None:
    """One was left to finish: the interruptions in a row are over."""
    subject_key, job_type, schedule_id = row[5:8]
    if subject_key:
        tx.execute(CALM_LANE, {"subject_key": subject_key, "job_type": job_type})
    if schedule_id is not None:
        tx.execute(CALM_SCHEDULE, {"schedule_id": schedule_id})


def _lane_ended(tx: Tx, job_id: str, row: tuple[Any, ...], to: str) -> None:
    if row[5]:
        tx.execute(LANE_ENDED, {"subject_key": row[5], "job_type": row[6], "job_id": job_id, "to": to})
