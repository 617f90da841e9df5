"""The retry rules: what the end of a run means for its job, by a table; the backoff by a property."""

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from semantica_daemon.model import state
from semantica_daemon.model.outcome import CRASHED, LOST, PAST_DEADLINE, SHUT_DOWN, Outcome, timed_out
from semantica_daemon.model.retry import MAX_BACKOFF_MS, RunSituation, Verdict, backoff_ms, classified, decide
from semantica_daemon.wire.run import Error
from tests.cases import each_case

GOOD = Outcome(result="{}")
TRANSIENT = Outcome(error=Error("E_HANDLER", "transient", "no"))
PERMANENT = Outcome(error=Error("E_HANDLER", "permanent", "never"))
UNSTARTED = Outcome(error=Error("E_SPAWN", "infra", "no process to be had"), unstarted=True)
INFRA = Outcome(error=Error("E_HANDLER", "infra", "the disk"))
DAY_MS = 86_400_000
ONLY_75 = {"retried_exits": (75,)}


def exited(code: int | None, failure_class: str = "transient", retry_after_ms: int | None = None) -> Outcome:
    error = msgspec.convert({"code": "E_EXIT", "class": failure_class, "message": "no"}, Error)
    return Outcome(error=error, exit_code=code, retry_after_ms=retry_after_ms)


def standing(**changed: Any) -> RunSituation:
    given = {"attempts": 1, "max_attempts": 3, "backoff_base_ms": 1000, "backoff_factor": 2.0}
    rest = {"on_interrupt": "fail", "stop_state": None, "stale": False}
    return msgspec.convert({**given, **rest, **changed}, RunSituation)


LAST = standing(attempts=3)
ONCE = standing(max_attempts=0)
AGAIN = Verdict(state.SCHEDULED, "FAILED", 1000)
OVER = Verdict(state.FAILED, "FAILED")

TABLE: dict[str, tuple[RunSituation, Outcome, Verdict]] = {
    "success": (standing(), GOOD, Verdict(state.DONE, "DONE")),
    "success of a stale job": (standing(stale=True), GOOD, Verdict(state.DONE, "DONE")),
    "transient with an attempt left": (standing(), TRANSIENT, AGAIN),
    "infra with an attempt left": (standing(), INFRA, AGAIN),
    "permanent with an attempt left": (standing(), PERMANENT, OVER),
    "timeout with an attempt left": (standing(), timed_out(5), AGAIN),
    "past the deadline": (standing(), PAST_DEADLINE, OVER),
    "no attempt left": (LAST, TRANSIENT, OVER),
    "max_attempts 0 is one run": (ONCE, TRANSIENT, OVER),
    "max_attempts 1 is one run": (standing(max_attempts=1), TRANSIENT, OVER),
    "a retry that is no longer the newest": (standing(stale=True), TRANSIENT, Verdict(state.SUPERSEDED, "FAILED")),
    "the last attempt of a stale job": (standing(attempts=3, stale=True), TRANSIENT, OVER),
    "a permanent failure of a stale job": (standing(stale=True), PERMANENT, OVER),
    "crash": (ONCE, CRASHED, OVER),
    "crash with an attempt left": (standing(), CRASHED, AGAIN),
    "crash, put back": (standing(on_interrupt="requeue"), CRASHED, Verdict(state.QUEUED, "INTERRUPTED")),
    "crash, put back though it was the last attempt": (
        standing(attempts=3, on_interrupt="requeue"), CRASHED, Verdict(state.QUEUED, "INTERRUPTED")
    ),
    "shutdown, put back": (standing(on_interrupt="requeue"), SHUT_DOWN, Verdict(state.QUEUED, "INTERRUPTED")),
    "shutdown of a stale job": (
        standing(on_interrupt="requeue", stale=True), SHUT_DOWN, Verdict(state.SUPERSEDED, "INTERRUPTED")
    ),
    "a claim that never started": (ONCE, UNSTARTED, Verdict(state.QUEUED, "INTERRUPTED")),
    "a second claim that never started": (
        standing(claim_attempts=1), UNSTARTED, Verdict(state.QUEUED, "INTERRUPTED")
    ),
    "a third claim that never started": (standing(claim_attempts=2), UNSTARTED, OVER),
    "a claim that never started of a stale job": (
        standing(stale=True), UNSTARTED, Verdict(state.SUPERSEDED, "INTERRUPTED")
    ),
    "what it needs was lost": (ONCE, LOST, Verdict(state.SCHEDULED, "INTERRUPTED")),
    "what it needs was lost in the last attempt": (LAST, LOST, Verdict(state.SCHEDULED, "INTERRUPTED")),
    "what it needs was lost, whatever on_interrupt says": (
        standing(on_interrupt="requeue"), LOST, Verdict(state.SCHEDULED, "INTERRUPTED")
    ),
    "what a stale job needs was lost": (standing(stale=True), LOST, Verdict(state.SUPERSEDED, "INTERRUPTED")),
    "its own failure is not put back": (standing(on_interrupt="requeue"), TRANSIENT, AGAIN),
    "an exit code that is retried": (standing(**ONLY_75), exited(75), AGAIN),
    "an exit code that is not retried": (standing(**ONLY_75), exited(1), OVER),
    "one that is not, whatever the run asks for": (standing(**ONLY_75), exited(1, "transient", 5), OVER),
    "one that is, in a run that calls it permanent": (standing(**ONLY_75), exited(75, "permanent"), OVER),
    "one that is, in the last attempt": (standing(attempts=3, **ONLY_75), exited(75), OVER),
    "a signal, though only some exit codes are retried": (standing(**ONLY_75), exited(None), AGAIN),
    "a timeout, though only some exit codes are retried": (standing(**ONLY_75), timed_out(5), AGAIN),
    "a crash, though only some exit codes are retried": (standing(**ONLY_75), CRASHED, AGAIN),
    "a run that says when": (standing(), exited(1, "infra", 70_000), Verdict(state.SCHEDULED, "FAILED", 70_000)),
    "a run that says now": (standing(), exited(1, "transient", 0), Verdict(state.SCHEDULED, "FAILED", 0)),
    "a run that says when, beyond the longest backoff": (
        standing(backoff_max_ms=5), exited(1, "transient", 10), Verdict(state.SCHEDULED, "FAILED", 10)
    ),
    "a run that says in a year": (
        standing(), exited(1, "transient", 365 * DAY_MS), Verdict(state.SCHEDULED, "FAILED", DAY_MS)
    ),
    "a run that says when, in the last attempt": (LAST, exited(1, "transient", 5), OVER),
    "a permanent failure that says when": (standing(), exited(1, "permanent", 5), OVER),
    "a stale run that says when": (
        standing(stale=True), exited(1, "transient", 5), Verdict(state.SUPERSEDED, "FAILED")
    ),
}  # fmt: skip


@each_case("case", TABLE)
def test_the_verdict(case: str) -> None:
    given, outcome, expected = TABLE[case]
    assert decide(given, classified(given, outcome), 0) == expected


def test_an_exit_code_that_is_not_retried_is_a_permanent_failure() -> None:
    found = classified(standing(**ONLY_75), exited(1))
    assert found.error is not None
    assert (found.error.class_, found.error.code, found.exit_code) == ("permanent", "E_EXIT", 1)


@each_case("outcome", [GOOD, TRANSIENT, PERMANENT, CRASHED, SHUT_DOWN, PAST_DEADLINE, UNSTARTED, LOST])
@each_case("stop", [state.CANCELLED, state.SUPERSEDED])
@each_case("on_interrupt", ["fail", "requeue"])
def test_an_accepted_stop_wins_over_whatever_the_run_says(outcome: Outcome, stop: str, on_interrupt: str) -> None:
    given = standing(stop_state=stop, on_interrupt=on_interrupt)
    assert decide(given, outcome, 0) == msgspec.convert({"state": stop, "run_status": stop}, Verdict)


def exact(given: RunSituation) -> Fraction:
    if given.backoff == "linear":
        return Fraction(given.backoff_base_ms * given.attempts)
    return given.backoff_base_ms * Fraction(given.backoff_factor) ** (given.attempts - 1)


standings = st.builds(
    standing,
    attempts=st.integers(1, 2000),
    backoff_base_ms=st.integers(0, 10**15),
    backoff_factor=st.floats(1, 100),
    backoff=st.sampled_from(["exponential", "linear"]),
    backoff_max_ms=st.sampled_from([0, 5, MAX_BACKOFF_MS, 10**15]),
)


@given(standings, st.floats(-1, 1))
@example(standing(attempts=2000, backoff_base_ms=0, backoff_factor=100.0), 1.0)
@example(standing(attempts=2000, backoff_base_ms=1, backoff_factor=100.0), -1.0)
def test_the_backoff_is_within_a_tenth_and_at_most_its_limit(given: RunSituation, noise: float) -> None:
    """One ms and one part in a million for what floats and whole milliseconds round."""
    wait = backoff_ms(given, noise)
    cap = Fraction(given.backoff_max_ms)
    assert wait <= cap
    slack = Fraction(1, 10**6)
    assert min(exact(given) * (Fraction(9, 10) - slack), cap) - 1 <= wait
    assert wait <= exact(given) * (Fraction(11, 10) + slack) + 1


@each_case(("attempts", "expected"), [(1, 1000), (2, 2000), (3, 4000), (12, 2_048_000), (13, 3_600_000)])
def test_the_backoff_doubles_up_to_an_hour(attempts: int, expected: int) -> None:
    assert backoff_ms(standing(attempts=attempts), 0) == expected
    assert backoff_ms(standing(attempts=attempts), -1) == pytest.approx(min(expected, 4_096_000) * 0.9, rel=0.15)


@each_case(("attempts", "expected"), [(1, 1000), (2, 2000), (3, 3000), (400, 400_000), (4000, 3_600_000)])
def test_a_linear_backoff_grows_by_its_first_wait(attempts: int, expected: int) -> None:
    assert backoff_ms(standing(attempts=attempts, backoff="linear", backoff_factor=9.0), 0) == expected


@given(standings, st.sampled_from([GOOD, TRANSIENT, PERMANENT, INFRA, CRASHED]), st.booleans(), st.booleans())
def test_a_job_is_tried_again_only_while_attempts_are_left(
    given: RunSituation, outcome: Outcome, stale: bool, requeue: bool
) -> None:
    on_interrupt = "requeue" if requeue else "fail"
    found = decide(msgspec.structs.replace(given, stale=stale, on_interrupt=on_interrupt), outcome, 0)
    assert found.state in state.TRANSITIONS[state.RUNNING]
    if found.state == state.SCHEDULED:
        assert given.attempts < given.max_attempts
        assert not stale
    if found.state == state.QUEUED:
        assert outcome.interrupted
        assert requeue
        assert not stale
    assert (found.delay_ms > 0) <= (found.state == state.SCHEDULED)
