"""What the end of a run means for its job: the retry rules, as pure functions."""

from typing import Literal

from msgspec import Struct

from semantica_daemon.model import state
from semantica_daemon.model.outcome import Outcome

MAX_BACKOFF_MS = 3_600_000
JITTER = 0.1
MOST_CLAIMS = 3


class RunSituation(Struct, frozen=True):
    """What the decision needs to know of the job, as its run ends."""

    attempts: int
    max_attempts: int
    backoff_base_ms: int
    backoff_factor: float
    on_interrupt: str
    stop_state: str | None
    stale: bool
    claim_attempts: int = 0


class Verdict(Struct, frozen=True):
    """The job's next state, the run's final status, and how long to wait when it is tried again."""

    state: str
    run_status: Literal["DONE", "FAILED", "CANCELLED", "SUPERSEDED", "INTERRUPTED"]
    delay_ms: int = 0

    @property
    def is_stop(self) -> bool:
        """An accepted cancel or interruption: what the run says of itself does not count."""
        return self.run_status == "CANCELLED" or self.run_status == "SUPERSEDED"

    @property
    def gives_attempt_back(self) -> bool:
        return self.run_status == "INTERRUPTED"


def backoff_ms(standing: RunSituation, noise: float) -> int:
    """base × factor^(attempts−1), ±10 % by `noise` in [-1, 1], at most one hour."""
    if standing.backoff_base_ms == 0:
        return 0
    try:
        growth = standing.backoff_factor ** max(0, standing.attempts - 1)
    except OverflowError:
        return MAX_BACKOFF_MS
    return int(min(standing.backoff_base_ms * growth * (1 + JITTER * noise), MAX_BACKOFF_MS))


SUCCEEDED = Verdict(state.DONE, "DONE")
CANCELLED = Verdict(state.CANCELLED, "CANCELLED")
SUPERSEDED = Verdict(state.SUPERSEDED, "SUPERSEDED")


def without_retry(stop_state: str | None, outcome: Outcome) -> Verdict | None:
    """The verdict that needs no look at the attempts: an accepted cancel or interruption, which wins over whatever the
    run says of itself, or a success. None: the run has failed."""
    if stop_state is not None:
        return CANCELLED if stop_state == state.CANCELLED else SUPERSEDED
    return SUCCEEDED if outcome.error is None else None


def decide(standing: RunSituation, outcome: Outcome, noise: float) -> Verdict:
    """The one rule for the end of a run: an attempt, a shutdown and a recovery all go by it."""
    verdict = without_retry(standing.stop_state, outcome)
    if verdict is not None or outcome.error is None:
        return verdict or SUCCEEDED
    if outcome.lost:
        return Verdict(state.SUPERSEDED if standing.stale else state.SCHEDULED, "INTERRUPTED")
    if _is_put_back(standing, outcome):
        return Verdict(state.SUPERSEDED if standing.stale else state.QUEUED, "INTERRUPTED")
    if outcome.unstarted or outcome.error.class_ == "permanent" or standing.attempts >= standing.max_attempts:
        return Verdict(state.FAILED, "FAILED")
    if standing.stale:
        return Verdict(state.SUPERSEDED, "FAILED")
    return Verdict(state.SCHEDULED, "FAILED", backoff_ms(standing, noise))


def _is_put_back(standing: RunSituation, outcome: Outcome) -> bool:
    """A claim that could not be started is claimed again, three times in all."""
    if outcome.failed_claim:
        return standing.claim_attempts + 1 < MOST_CLAIMS
    return outcome.interrupted and (outcome.unstarted or standing.on_interrupt == "requeue")
