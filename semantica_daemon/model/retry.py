"""The retry rules: what the end of a run means for its job, as pure functions."""

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from semantica_daemon.model import state
from semantica_daemon.model.outcome import Outcome

MAX_BACKOFF_MS = 3_600_000
LONGEST_RETRY_AFTER_MS = 86_400_000
JITTER = 0.1
MOST_CLAIMS = 3


class RunSituation(Struct, frozen=True):
    """The fields of the job that the decision needs, at the end of its run. `retried_exits`: the exit codes after which
    it is retried; None: all of them."""

    attempts: int
    max_attempts: int
    backoff_base_ms: int
    backoff_factor: float
    on_interrupt: str
    stop_state: str | None
    stale: bool
    claim_attempts: int = 0
    backoff: Literal["exponential", "linear"] = "exponential"
    backoff_max_ms: int = MAX_BACKOFF_MS
    retried_exits: tuple[int, ...] | None = None


class Verdict(Struct, frozen=True):
    """The job's next state, the run's final status, and the delay of a retry."""

    state: str
    run_status: Literal["DONE", "FAILED", "CANCELLED", "SUPERSEDED", "INTERRUPTED"]
    delay_ms: int = 0

    @property
    def is_stop(self) -> bool:
        """An accepted cancel or interruption: the outcome of the run does not count."""
        return self.run_status == "CANCELLED" or self.run_status == "SUPERSEDED"

    @property
    def gives_attempt_back(self) -> bool:
        return self.run_status == "INTERRUPTED"


def backoff_ms(situation: RunSituation, noise: float) -> int:
    """base × factor^(attempts−1), or base × attempts, ±10 % by `noise` in [-1, 1], at most `backoff_max_ms`."""
    if situation.backoff_base_ms == 0:
        return 0
    attempts = max(1, situation.attempts)
    try:
        growth = attempts if situation.backoff == "linear" else situation.backoff_factor ** (attempts - 1)
    except OverflowError:
        return situation.backoff_max_ms
    return int(min(situation.backoff_base_ms * growth * (1 + JITTER * noise), situation.backoff_max_ms))


SUCCEEDED = Verdict(state.DONE, "DONE")
CANCELLED = Verdict(state.CANCELLED, "CANCELLED")
SUPERSEDED = Verdict(state.SUPERSEDED, "SUPERSEDED")


def without_retry(stop_state: str | None, outcome: Outcome) -> Verdict | None:
    """The verdict that does not depend on the attempts: an accepted cancel or interruption, which wins over the outcome
    of the run, or a success. None: the run has failed."""
    if stop_state is not None:
        return CANCELLED if stop_state == state.CANCELLED else SUPERSEDED
    return SUCCEEDED if outcome.error is None else None


def classified(situation: RunSituation, outcome: Outcome) -> Outcome:
    """The outcome, as a permanent failure if the job is not retried after this exit code. A run that ended without an
    exit code (a signal, a timeout, a crash) keeps its class."""
    exits, error = situation.retried_exits, outcome.error
    if exits is None or error is None or outcome.exit_code is None or outcome.exit_code in exits:
        return outcome
    return replace(outcome, error=replace(error, class_="permanent"))


def decide(situation: RunSituation, outcome: Outcome, noise: float) -> Verdict:
    """The one rule for the end of a run: attempts, shutdown and recovery all use it. `outcome` is a classified one."""
    verdict = without_retry(situation.stop_state, outcome)
    if verdict is not None or outcome.error is None:
        return verdict or SUCCEEDED
    if outcome.lost:
        return Verdict(state.SUPERSEDED if situation.stale else state.SCHEDULED, "INTERRUPTED")
    if _is_put_back(situation, outcome):
        return Verdict(state.SUPERSEDED if situation.stale else state.QUEUED, "INTERRUPTED")
    if outcome.unstarted or outcome.error.class_ == "permanent" or situation.attempts >= situation.max_attempts:
        return Verdict(state.FAILED, "FAILED")
    if situation.stale:
        return Verdict(state.SUPERSEDED, "FAILED")
    if outcome.retry_after_ms is not None:
        return Verdict(state.SCHEDULED, "FAILED", min(outcome.retry_after_ms, LONGEST_RETRY_AFTER_MS))
    return Verdict(state.SCHEDULED, "FAILED", backoff_ms(situation, noise))


def _is_put_back(situation: RunSituation, outcome: Outcome) -> bool:
    """A claim that could not be started is queued again, up to three claims in all."""
    if outcome.failed_claim:
        return situation.claim_attempts + 1 < MOST_CLAIMS
    return outcome.interrupted and (outcome.unstarted or situation.on_interrupt == "requeue")
