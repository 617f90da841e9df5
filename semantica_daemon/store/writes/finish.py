"""The end of a run: its Outcome becomes DONE, FAILED, a retry, or what an accepted stop had decided before."""

import msgspec
from msgspec import Struct

from semantica_daemon.model import retry, state
from semantica_daemon.model.outcome import Outcome
from semantica_daemon.store import transition
from semantica_daemon.store.transition import Running
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes.begin import Begun, begin

STANDING = """
SELECT attempts, max_attempts, backoff_base_ms, backoff_factor, on_interrupt, stop_state, stale, claim_attempts
FROM jobs
WHERE id = :job_id AND state = 'RUNNING' AND run_id = :run_id
"""


class Finish(Struct, frozen=True, gc=False):
    """`begun`: the start of the process, if that is not recorded yet."""

    run: Running
    outcome: Outcome
    begun: Begun | None = None


def finish(tx: Tx, end: Finish) -> str | None:
    """The job's new state; None when the run is no longer the job's (a late answer changes nothing)."""
    if end.begun is not None:
        begin(tx, end.begun)
    where = {"job_id": end.run.job_id, "run_id": end.run.run_id}
    row = tx.execute(STANDING, where).fetchone()
    if row is None:
        return None
    verdict = retry.decide(retry.Standing(*row), end.outcome, tx.ids.random.uniform(-1, 1))
    if verdict.state == state.SCHEDULED and verdict.run_status == "INTERRUPTED":
        transition.wait_again(tx, end.run, end.outcome)
    elif verdict.state == state.SCHEDULED:
        transition.retry(tx, end.run, tx.now + verdict.delay_ms, end.outcome)
    elif verdict.state == state.QUEUED:
        transition.put_back(tx, end.run, end.outcome)
    else:
        stopped = verdict.run_status in ("CANCELLED", "SUPERSEDED")
        kept = msgspec.structs.replace(end.outcome, error=None, result=None) if stopped else end.outcome
        transition.end(tx, end.run, verdict.state, verdict.run_status, kept)
    return verdict.state
