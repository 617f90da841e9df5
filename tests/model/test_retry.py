"""The retry rules: what the end of a run means for its job, by a table; the backoff by a property."""

from fractions import Fraction
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from semantica_daemon.model import state
from semantica_daemon.model.outcome import CRASHED, LOST, PAST_DEADLINE, SHUT_DOWN, Outcome, timed_out
from semantica_daemon.model.retry import MAX_BACKOFF_MS, RunSituation, Verdict, backoff_ms, decide
from semantica_daemon.wire.run import Error
from tests.cases import each_case

GOOD = Outcome(result="{}")
TRANSIENT = Outcome(error=Error("E_HANDLER", "transient", "no"))
PERMANENT = Outcome(error=Error("E_HANDLER", "permanent", "never"))
UNSTARTED = Outcome(error=Error("E_SPAWN", "infra", "no process to be had"), unstarted=True)
INFRA = Outcome(error=Error("E_HANDLER", "infra", "the disk"))


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
}  # fmt: skip


@each_case("case", TABLE)
def test_the_verdict(case: str) -> None:
    given, outcome, expected = TABLE[case]
    assert decide(given, outcome, 0) == expected


@each_case("outcome", [GOOD, TRANSIENT, PERMANENT, CRASHED, SHUT_DOWN, PAST_DEADLINE, UNSTARTED, LOST])
@each_case("stop", [state.CANCELLED, state.SUPERSEDED])
@each_case("on_interrupt", ["fail", "requeue"])
def test_an_accepted_stop_wins_over_whatever_the_run_says(outcome: Outcome, stop: str, on_interrupt: str) -> None:
    given = standing(stop_state=stop, on_interrupt=on_interrupt)
    assert decide(given, outcome, 0) == msgspec.convert({"state": stop, "run_status": stop}, Verdict)


def exact(given: RunSituation) -> Fraction:
    return given.backoff_base_ms * Fraction(given.backoff_factor) ** (given.attempts - 1)


standings = st.builds(
    standing,
    attempts=st.integers(1, 2000),
    backoff_base_ms=st.integers(0, 10**15),
    backoff_factor=st.floats(1, 100),
)


@given(standings, st.floats(-1, 1))
@example(standing(attempts=2000, backoff_base_ms=0, backoff_factor=100.0), 1.0)
@example(standing(attempts=2000, backoff_base_ms=1, backoff_factor=100.0), -1.0)
def test_the_backoff_is_within_a_tenth_and_at_most_an_hour(given: RunSituation, noise: float) -> None:
    """One ms and one part in a million for what floats and whole milliseconds round."""
    wait = backoff_ms(given, noise)
    cap = Fraction(MAX_BACKOFF_MS)
    assert wait <= cap
    slack = Fraction(1, 10**6)
    assert min(exact(given) * (Fraction(9, 10) - slack), cap) - 1 <= wait
    assert wait <= exact(given) * (Fraction(11, 10) + slack) + 1


@each_case(("attempts", "expected"), [(1, 1000), (2, 2000), (3, 4000), (12, 2_048_000), (13, 3_600_000)])
def test_the_backoff_doubles_up_to_an_hour(attempts: int, expected: int) -> None:
    assert backoff_ms(standing(attempts=attempts), 0) == expected
    assert backoff_ms(standing(attempts=attempts), -1) == pytest.approx(min(expected, 4_096_000) * 0.9, rel=0.15)


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
