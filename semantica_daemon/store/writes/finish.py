"""The end of a run: one rule (`model/retry`) decides from its Outcome what becomes of the job; the decision is stored
here.

Attempts, shutdown and recovery all end their runs here.
"""

from msgspec import Struct

from semantica_daemon.model import retry, state
from semantica_daemon.model.outcome import Outcome
from semantica_daemon.model.spec import rest_of
from semantica_daemon.store.run_transition import (
    Begun,
    Running,
    command_done_unchanged,
    done_unchanged,
    end_run,
    read_run,
)
from semantica_daemon.store.tx import ChangedJob, Job, Tx
from semantica_daemon.store.writes.begin import begin_job

SITUATION = "SELECT max_attempts, backoff_factor, claim_attempts, spec FROM jobs WHERE number = ?"


class Finish(Struct, frozen=True, gc=False):
    """`begun`: the start of the process, if that is not recorded yet. `claimed`: the job as its claim left it."""

    run: Running
    outcome: Outcome
    begun: Begun | None = None
    claimed: Job | None = None


def finish(tx: Tx, end: Finish) -> str | None:
    """Returns the job's new state; None, changing nothing, when the run is no longer current."""
    if _succeeded_unchanged(tx, end):
        return state.DONE
    job = read_run(tx, end.run)
    if job is None:
        return None
    if end.begun is not None:
        job = begin_job(tx, job, end.begun)
    outcome = end.outcome
    verdict = retry.without_retry(job.stop_state, outcome)
    if verdict is None:
        situation = _situation(tx, job)
        outcome = retry.classified(situation, outcome)
        verdict = retry.decide(situation, outcome, tx.ids.random.uniform(-1, 1))
    end_run(tx, end.run, job, verdict, outcome)
    return verdict.state


def _succeeded_unchanged(tx: Tx, end: Finish) -> bool:
    """The usual end: a success of a job that nothing has changed since its claim."""
    run, outcome, job = end.run, end.outcome, end.claimed
    if job is None or retry.without_retry(None, outcome) is not retry.SUCCEEDED:
        return False
    if end.begun is not None:
        return command_done_unchanged(tx, end.begun, job, outcome)
    return outcome.exit_code is None and outcome.result is None and done_unchanged(tx, run, job, outcome)


def _situation(tx: Tx, job: ChangedJob) -> retry.RunSituation:
    max_attempts, backoff_factor, claim_attempts, spec = tx.execute(SITUATION, (job.number,)).fetchone()
    rest = rest_of(spec)
    return retry.RunSituation(
        attempts=job.attempts,
        max_attempts=max_attempts,
        backoff_base_ms=rest.backoff_base_ms,
        backoff_factor=backoff_factor,
        on_interrupt=rest.on_interrupt,
        stop_state=job.stop_state,
        stale=bool(job.stale),
        claim_attempts=claim_attempts,
        backoff=rest.backoff,
        backoff_max_ms=rest.backoff_max_ms,
        retried_exits=None if rest.retry_on is None else rest.retry_on.exit_codes,
    )
