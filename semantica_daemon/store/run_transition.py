"""The transitions of running jobs: the start of a run, and its end. Each updates the counts and emits one event."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from semantica_daemon.model import event, state
from semantica_daemon.model.outcome import ESCAPED, Outcome
from semantica_daemon.model.retry import Verdict
from semantica_daemon.model.spec import RestOfSpec, rest_of
from semantica_daemon.store import environments, gates, gather, leases
from semantica_daemon.store.ended import ended
from semantica_daemon.store.ready import Source
from semantica_daemon.store.transition import EVENT_OF, LEVEL_OF_END, enter_queue, wait_again
from semantica_daemon.store.tx import READ_JOB, ChangedJob, Job, Tx, encode

IN_PROCESS = "IN_PROCESS"
CUT_SHORT = ("CANCELLED", "SUPERSEDED", "INTERRUPTED")  # the statuses of runs that did not come to their own end

READ_RUN = READ_JOB + " AND state = 'RUNNING' AND run_id = ?"

# What a claim reads of a job that it starts; `writes/claim` selects these.
START_COLUMNS = (
    "number, id, priority, position, deadline, expires_at, created_at, queued_at, job_type, subject_key, supersede, "
    "schedule_id, user_tag, trace_id, event_count, last_event, attempts, run_count, execution_mode, spec, env_vars, "
    "payload, environment_id, slots"
)
START = """
UPDATE jobs
SET state = 'RUNNING', run_id = ?1, started_at = ?2, updated_at = ?2, attempts = ?3, run_count = ?4, event_count = ?5,
    last_event = ?6, pid = NULL, log_path = NULL, result_summary = NULL, progress = NULL, postponed_since = NULL
WHERE number = ?7
"""
INSERT_RUN = """
INSERT INTO job_runs (job_number, number, run_id, attempt, started_at)
VALUES (?, ?, ?, ?, ?)
"""
INSERT_RUN_OF_TEMPLATE = """
INSERT INTO job_runs (job_number, number, run_id, attempt, started_at, template_id)
VALUES (?, ?, ?, ?, ?, ?)
"""
START_EXTERNAL = """
UPDATE jobs
SET state = 'RUNNING', run_id = ?1, started_at = ?2, updated_at = ?2, attempts = attempts + 1,
    run_count = run_count + 1, event_count = event_count + 1, last_event = ?3, result_summary = NULL, progress = NULL,
    postponed_since = NULL, blocked_by = NULL
WHERE number = ?4
RETURNING run_count, spec
"""
INSERT_EXTERNAL_RUN = """
INSERT INTO job_runs (job_number, number, run_id, attempt, started_at, worker_id, template_id)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
END_RUN = """
UPDATE OR FAIL job_runs
SET status = ?, finished_at = ?, exit_code = ?, error = ?
WHERE job_number = ? AND number = ? AND status = 'RUNNING'
"""
RUN_DONE = """
UPDATE OR FAIL job_runs
SET status = 'DONE', finished_at = ?
WHERE job_number = ? AND number = ? AND status = 'RUNNING'
"""
END = """
UPDATE OR FAIL jobs
SET state = ?, ended = ?, finished_at = ?, updated_at = ?, event_count = ?, last_event = ?, exit_code = ?, error = ?,
    result_summary = coalesce(?, result_summary), claim_attempts = claim_attempts + ?, attempts = ?
WHERE number = ?
"""
# Nothing has changed the job since its claim: each report emits an event, each request to stop sets a column.
UNCHANGED = (
    "number = ?3 AND run_id = ?4 AND event_count = ?2 AND state = 'RUNNING' AND stop_state IS NULL AND stale = 0"
)
DONE_UNCHANGED = f"""
UPDATE OR FAIL jobs
SET state = 'DONE', ended = 'DONE', finished_at = ?1, updated_at = ?1, event_count = ?2 + 1, last_event = ?5,
    exit_code = NULL, error = NULL
WHERE {UNCHANGED}
"""
COMMAND_DONE_UNCHANGED = f"""
UPDATE OR FAIL jobs
SET state = 'DONE', ended = 'DONE', finished_at = ?1, updated_at = ?1, event_count = ?2 + 2, last_event = ?5,
    exit_code = ?6, error = NULL, result_summary = coalesce(?7, result_summary), pid = ?8, log_path = ?9
WHERE {UNCHANGED}
"""
NAME_PROCESS_AND_END_RUN = """
UPDATE OR FAIL job_runs
SET status = 'DONE', finished_at = ?, exit_code = ?, pid = ?, pid_started_at = ?, boot_id = ?, log_path = ?
WHERE job_number = ? AND number = ? AND status = 'RUNNING'
"""
RETRY = """
UPDATE jobs
SET state = 'SCHEDULED', scheduled_at = ?, is_delay = 1, updated_at = ?, event_count = ?, last_event = ?,
    exit_code = ?, error = ?
WHERE number = ?
"""


class Running(Struct, frozen=True, gc=False):
    """A run that is under way, and when it began. `run_number` counts the runs of the job."""

    job_id: str
    run_id: str
    attempt: int
    started_at: int
    job_number: int
    run_number: int


class Begun(Struct, frozen=True, gc=False):
    """The process of a run. `pid_started_at`: ms since the boot that `boot_id` names."""

    run: Running
    pid: int
    pid_started_at: int
    boot_id: str
    log_path: str


class Claim(Struct, frozen=True, gc=False):
    """A run that was just claimed, with all that the engine needs to start it. `job`: as it is after its start.
    `environment`: the variables that its caller handed over, without the secrets, as JSON."""

    run: Running
    job: Job
    spec: RestOfSpec
    mode: str
    env_vars: str | None
    payload: str
    environment: str | None


def read_run(tx: Tx, run: Running) -> ChangedJob | None:
    """The job of a run; None when the run is no longer the job's current run, so that a late report changes nothing."""
    row = tx.execute(READ_RUN, (run.job_number, run.run_id)).fetchone()
    return None if row is None else ChangedJob(*row)


def start(tx: Tx, source: Source, row: tuple[Any, ...], starts: list[tuple[Any, ...]]) -> Claim:
    """QUEUED → RUNNING, with a new run. Emits job.started for an IN_PROCESS job; for a command, `begin` does when its
    process exists. `starts`: gets the values for START, which the caller executes for all jobs at once."""
    queue, _, concurrency_key, chain_group_id = source
    (number, job_id, priority, position, deadline, _, _, queued_at, job_type, subject_key, supersede,
     schedule_id, user_tag, trace_id, event_count, last_event, attempts, run_count, mode, spec, env_vars,
     payload, environment_id, slots) = row  # fmt: skip
    now, run_id = tx.now, tx.ids.run(tx.now)
    attempts += 1
    run_count += 1
    if mode == IN_PROCESS:
        event_count += 1
        about = (number, job_id, event_count, last_event, trace_id, queue, user_tag)
        last_event = tx.emit_as(about, event.STARTED, "", {"run_id": run_id, "attempt": attempts}, "info")
    starts.append((run_id, now, attempts, run_count, event_count, last_event, number))
    rest = rest_of(spec)
    run = Running(job_id, run_id, attempts, now, number, run_count)
    tx.defer(*run_insert(run, rest.template_id))
    tx.counts.move(queue, state.QUEUED, state.RUNNING, slots)
    if concurrency_key is not None or chain_group_id is not None or tx.counts.has_rates or tx.flows.lines:
        tx.started(source, priority, position)
    job = Job(
        number, job_id, state.RUNNING, queue, job_type, subject_key, supersede, schedule_id, user_tag, trace_id,
        event_count, last_event, queued_at, deadline, 0, None, slots, concurrency_key, chain_group_id,
    )  # fmt: skip
    environment = None if environment_id is None else environments.variables(tx, environment_id)
    return Claim(run, job, rest, mode, env_vars, payload, environment)


def start_external(tx: Tx, job: ChangedJob, position: int, worker_id: str) -> tuple[Running, RestOfSpec]:
    """QUEUED → RUNNING for a worker, with a new run. The worker exists, so job.started is emitted at once."""
    run_id, attempt = tx.ids.run(tx.now), job.attempts + 1
    last = tx.emit(job, event.STARTED, "", {"run_id": run_id, "attempt": attempt, "worker_id": worker_id})
    ((number, spec),) = tx.execute(START_EXTERNAL, (run_id, tx.now, last, job.number)).fetchall()
    rest = rest_of(spec)
    run = Running(job.job_id, run_id, attempt, tx.now, job.number, number)
    tx.execute(INSERT_EXTERNAL_RUN, (job.number, number, run_id, attempt, tx.now, worker_id, rest.template_id))
    tx.changed(job, state.RUNNING)
    tx.started(job.external_source, job.priority, position)
    return run, rest


def run_insert(run: Running, template_id: str | None) -> tuple[str, tuple[Any, ...]]:
    """The statement that writes a new run, and its values."""
    values = (run.job_number, run.run_number, run.run_id, run.attempt, run.started_at)
    return (INSERT_RUN, values) if template_id is None else (INSERT_RUN_OF_TEMPLATE, (*values, template_id))


def done_unchanged(tx: Tx, run: Running, job: Job, outcome: Outcome) -> bool:
    """RUNNING → DONE without reading the job, which is as its claim left it. Returns False, changing nothing, if
    anything has changed it since."""
    now, last = tx.now, tx.next_sequence
    values = (now, job.event_count, job.number, run.run_id, last)
    if not tx.execute(DONE_UNCHANGED, values).rowcount:
        return False
    tx.defer(RUN_DONE, (now, run.job_number, run.run_number))
    _done(tx, run, job, outcome)
    return True


def command_done_unchanged(tx: Tx, begun: Begun, job: Job, outcome: Outcome) -> bool:
    """The same for a command whose start is recorded together with its end."""
    now, run, count, started = tx.now, begun.run, job.event_count, tx.next_sequence
    process = (outcome.exit_code, outcome.result, begun.pid, begun.log_path)
    values = (now, count, job.number, run.run_id, started + 1, *process)
    if not tx.execute(COMMAND_DONE_UNCHANGED, values).rowcount:
        return False
    identity = (begun.pid, begun.pid_started_at, begun.boot_id, begun.log_path)
    tx.defer(NAME_PROCESS_AND_END_RUN, (now, outcome.exit_code, *identity, run.job_number, run.run_number))
    tx.emit(job, event.STARTED, "", {"run_id": run.run_id, "attempt": run.attempt, "pid": begun.pid})
    _done(tx, run, replace(job, event_count=count + 1, last_event=started), outcome)
    return True


def _done(tx: Tx, run: Running, job: Job, outcome: Outcome) -> None:
    took = _took(tx, run, outcome)
    facts = {"run_id": run.run_id, "attempt": run.attempt, "duration_ms": took}
    if outcome.log_bytes:
        facts["log_bytes"] = outcome.log_bytes
    tx.emit(job, event.DONE, "", facts)
    _count_run(tx, run, job, took)
    ended(tx, job, state.DONE, "DONE")


def end_run(tx: Tx, run: Running, job: ChangedJob, verdict: Verdict, outcome: Outcome) -> None:
    """RUNNING → the state of the verdict; stores the end of the run."""
    if verdict.is_stop:
        outcome = Outcome(exit_code=outcome.exit_code, took_ms=outcome.took_ms)
    error = encode(outcome.error).decode() if outcome.error else None
    tx.defer(END_RUN, (verdict.run_status, tx.now, outcome.exit_code, error, run.job_number, run.run_number))
    _count_run(tx, run, job, None if _is_cut_short(verdict, outcome) else _took(tx, run, outcome))
    if job.is_external:
        leases.end(tx, run.run_id, verdict.run_status)
    if verdict.state == state.QUEUED:
        _put_back(tx, run, job, outcome)
    elif verdict.state == state.SCHEDULED:
        _retry(tx, run, job, verdict, outcome)
    else:
        _finish(tx, run, job, verdict, outcome)


def _finish(tx: Tx, run: Running, job: ChangedJob, verdict: Verdict, outcome: Outcome) -> None:
    """RUNNING → DONE, FAILED, CANCELLED or SUPERSEDED."""
    to, error, message = verdict.state, outcome.error, ""
    facts: dict[str, Any] = {"run_id": run.run_id, "attempt": run.attempt, "duration_ms": _took(tx, run, outcome)}
    if outcome.log_bytes:
        facts["log_bytes"] = outcome.log_bytes
    if job.stale:
        facts |= {"stale": True, "superseded_by": job.superseded_by}
    if error is not None and to == state.FAILED:
        facts |= {"code": error.code, "class": error.class_}
        message = error.message
    last = tx.emit(job, EVENT_OF[to], message, facts, LEVEL_OF_END.get(to, "info"))
    stored = encode(error).decode() if error else None
    values = (to, to, tx.now, tx.now, job.event_count + 1, last, outcome.exit_code, stored, outcome.result)
    attempts = job.attempts - verdict.gives_attempt_back
    tx.execute(END, (*values, outcome.failed_claim, attempts, job.number))
    if to == state.SUPERSEDED:
        gather.hand_on(tx, job)
    ended(tx, job, to, verdict.run_status)


def _retry(tx: Tx, run: Running, job: ChangedJob, verdict: Verdict, outcome: Outcome) -> None:
    """RUNNING → SCHEDULED: with backoff after a failure; without counting the attempt after idle or mains power
    ended."""
    error, at = outcome.error, tx.now + verdict.delay_ms
    code, message = (error.code, error.message) if error else ("", "")
    if verdict.gives_attempt_back:
        wait_again(tx, job, job.attempts - 1, message, {"run_id": run.run_id, "given_back": True}, "warn")
        return
    facts = {"run_id": run.run_id, "attempt": run.attempt, "scheduled_at": at, "code": code}
    last = tx.emit(job, event.RETRYING, message, facts, "warn")
    stored = encode(error).decode() if error else None
    tx.execute(RETRY, (at, tx.now, job.event_count + 1, last, outcome.exit_code, stored, job.number))
    tx.changed(job, state.SCHEDULED, job.attempts)
    gates.leave_room(tx, job)
    tx.wake_at(at)
    tx.wake_at(job.deadline)


def _put_back(tx: Tx, run: Running, job: ChangedJob, outcome: Outcome) -> None:
    """RUNNING → QUEUED: the run ended through no fault of the job, so the attempt does not count. The job keeps the
    room of its lane."""
    code = outcome.error.code if outcome.error else ""
    last = tx.emit(job, event.REQUEUED, "", {"run_id": run.run_id, "code": code}, "warn")
    enter_queue(tx, job, last, None, job.attempts - 1, outcome.failed_claim)
    tx.wake_at(job.deadline)


def _is_cut_short(verdict: Verdict, outcome: Outcome) -> bool:
    """True when a cancel, a newer job, a shutdown, a crash or the loss of idle or mains power ended the run: how long
    it took does not show how long such jobs take."""
    if verdict.run_status in CUT_SHORT:
        return True
    return outcome.error is not None and (outcome.interrupted or outcome.error == ESCAPED.error)


def _count_run(tx: Tx, run: Running, job: Job, took_ms: int | None) -> None:
    """Adds the run to the totals of its queue; `took_ms` None: the duration is left out."""
    tx.counts.add_run(job.queue, max(0, run.started_at - (job.queued_at or 0)), took_ms)


def _took(tx: Tx, run: Running, outcome: Outcome) -> int:
    return max(0, tx.now - run.started_at) if outcome.took_ms is None else outcome.took_ms
