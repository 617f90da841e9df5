"""The end of a run: one rule (`model/retry`) decides from its Outcome what becomes of the job; the decision is stored
here.

Attempts, shutdown and recovery all end their runs here.
"""

from msgspec import Struct

from semantica_daemon.model import retry
from semantica_daemon.model.outcome import Outcome
from semantica_daemon.model.spec import rest_of
from semantica_daemon.store.transition import Running, end_run, read_run
from semantica_daemon.store.tx import ChangedJob, Tx
from semantica_daemon.store.writes.begin import Begun, begin_job


class Finish(Struct, frozen=True, gc=False):
    """`begun`: the start of the process, if that is not recorded yet."""

    run: Running
    outcome: Outcome
    begun: Begun | None = None


def finish(tx: Tx, end: Finish) -> str | None:
    """Returns the job's new state; None, changing nothing, when the run is no longer current."""
    job = read_run(tx, end.run)
    if job is None:
        return None
    if end.begun is not None:
        job = begin_job(tx, job, end.begun)
    verdict = retry.without_retry(job.stop_state, end.outcome)
    if verdict is None:
        verdict = retry.decide(_situation(job), end.outcome, tx.ids.random.uniform(-1, 1))
    end_run(tx, end.run, job, verdict, end.outcome)
    return verdict.state


def _situation(job: ChangedJob) -> retry.RunSituation:
    rest = rest_of(job.spec)
    return retry.RunSituation(
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        backoff_base_ms=rest.backoff_base_ms,
        backoff_factor=job.backoff_factor,
        on_interrupt=rest.on_interrupt,
        stop_state=job.stop_state,
        stale=bool(job.stale),
        claim_attempts=job.claim_attempts,
    )
