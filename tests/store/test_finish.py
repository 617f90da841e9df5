"""The end of a run: DONE, FAILED, another attempt, or back into the queue; a late answer changes nothing."""

from typing import Any

import msgspec
import pytest

from semantica_daemon.model.outcome import CRASHED, LOST, PAST_DEADLINE, SHUT_DOWN, Outcome, timed_out
from semantica_daemon.store.run_transition import Claim, Running
from semantica_daemon.store.writes.finish import Finish, finish
from tests.builders import NOW, Store
from tests.store.steps import (
    BAD,
    GOOD,
    HOPELESS,
    begin,
    claimed_ids,
    claims,
    end,
    event_types,
    put,
    runs,
    states,
    stop,
    tick,
)


def everything(store: Store) -> list[Any]:
    tables = ("jobs", "job_runs", "job_events", "lanes", "queue_counts")
    return [store.rows(f"SELECT * FROM {table}") for table in tables]


def test_success_keeps_the_result(store: Store) -> None:
    claimed = begin(store, subject_key="s")
    store.now += 25
    assert end(store, claimed, Outcome(result='{"n":1}', exit_code=0)) == "DONE"
    job, (run,) = store.job(claimed.run.job_id), runs(store, claimed.run.job_id)
    assert (job["state"], job["result_summary"], job["exit_code"]) == ("DONE", '{"n":1}', 0)
    assert (job["finished_at"], job["error_code"]) == (NOW + 25, None)
    assert (run["status"], run["finished_at"], run["exit_code"], run["error"]) == ("DONE", NOW + 25, 0, None)
    event = store.events()[-1]
    assert (event["event_type"], event["level"]) == ("job.done", "info")
    assert msgspec.json.decode(event["payload"]) == {"run_id": claimed.run.run_id, "attempt": 1, "duration_ms": 25}


def test_failure_keeps_the_error_on_job_and_run(store: Store) -> None:
    claimed = begin(store)
    assert end(store, claimed, BAD) == "FAILED"
    job, (run,) = store.job(claimed.run.job_id), runs(store, claimed.run.job_id)
    assert (job["error_code"], job["error_class"]) == ("E_HANDLER", "transient")
    assert (job["error_message"], job["error_details"]) == ("it broke", {"line": 3})
    kept = {"code": "E_HANDLER", "class": "transient", "message": "it broke", "details": {"line": 3}}
    assert (run["status"], msgspec.json.decode(run["error"])) == ("FAILED", kept)
    event = store.events()[-1]
    assert (event["event_type"], event["level"], event["message"]) == ("job.failed", "error", "it broke")


@pytest.mark.parametrize(("most", "expected"), [(0, 1), (1, 1), (2, 2), (3, 3)])
def test_max_attempts_counts_runs(store: Store, most: int, expected: int) -> None:
    claimed = begin(store, max_attempts=most)
    count = 1
    while end(store, claimed, BAD) == "SCHEDULED":
        tick(store, 3_600_000)
        (claimed,) = claims(store)
        count += 1
    assert count == expected
    job = store.job(claimed.run.job_id)
    assert (job["state"], job["attempts"], job["run_count"]) == ("FAILED", expected, expected)
    assert [run["attempt"] for run in runs(store, job["id"])] == list(range(1, expected + 1))


def test_a_retry_is_the_same_job_and_really_waits(store: Store) -> None:
    claimed = begin(store, max_attempts=2, backoff_base_ms=1000)
    assert end(store, claimed, BAD) == "SCHEDULED"
    job = store.job(claimed.run.job_id)
    wait = job["scheduled_at"] - NOW
    assert 900 <= wait <= 1100
    assert store.committed is not None
    assert store.committed.due == job["scheduled_at"]
    assert (job["error_code"], job["finished_at"]) == ("E_HANDLER", None)
    tick(store, wait - 1)
    assert (states(store, job["id"]), claims(store)) == (["SCHEDULED"], [])
    tick(store, 1)
    (again,) = claims(store)
    assert (again.run.job_id, again.run.attempt) == (job["id"], 2)
    end(store, again)
    assert event_types(store, job["id"]) == [
        "job.queued", "job.started", "job.retrying", "job.queued", "job.started", "job.done",
    ]  # fmt: skip
    assert store.job(job["id"])["error_code"] is None, "a job that came right has no error"


def test_the_backoff_grows_by_its_factor(store: Store) -> None:
    claimed = begin(store, max_attempts=4, backoff_base_ms=100, backoff_factor=10)
    waits = []
    while end(store, claimed, BAD) == "SCHEDULED":
        waits.append(store.job(claimed.run.job_id)["scheduled_at"] - store.now)
        tick(store, waits[-1])
        (claimed,) = claims(store)
    assert waits == pytest.approx([100, 1000, 10_000], rel=0.11)


def test_a_retry_whose_deadline_comes_first_wakes_the_timer_for_it(store: Store) -> None:
    claimed = begin(store, max_attempts=2, backoff_base_ms=1000, deadline=NOW + 500)
    end(store, claimed, BAD)
    assert store.committed is not None
    assert store.committed.due == NOW + 500
    tick(store, 500)
    assert states(store, claimed.run.job_id) == ["SKIPPED_DEADLINE"]


def test_a_permanent_failure_is_not_tried_again(store: Store) -> None:
    assert end(store, begin(store, max_attempts=5), HOPELESS) == "FAILED"


@pytest.mark.parametrize(
    ("outcome", "became", "code"),
    [(timed_out(5), "SCHEDULED", "E_TIMEOUT"), (PAST_DEADLINE, "FAILED", "E_DEADLINE")],
)
def test_a_timeout_may_be_tried_again_a_deadline_not(store: Store, outcome: Outcome, became: str, code: str) -> None:
    claimed = begin(store, max_attempts=5)
    assert end(store, claimed, outcome) == became
    assert store.job(claimed.run.job_id)["error_code"] == code


@pytest.mark.parametrize("outcome", [CRASHED, SHUT_DOWN])
def test_put_back_gives_the_attempt_back_and_starts_the_ttl_anew(store: Store, outcome: Outcome) -> None:
    claimed = begin(store, on_interrupt="requeue", ttl_ms=50, deadline=NOW + 500)
    store.now += 40
    assert end(store, claimed, outcome) == "QUEUED"
    job, (run,) = store.job(claimed.run.job_id), runs(store, claimed.run.job_id)
    assert (job["attempts"], job["run_count"], job["queued_at"], job["expires_at"]) == (0, 1, NOW + 40, NOW + 90)
    assert (run["status"], run["finished_at"]) == ("INTERRUPTED", NOW + 40)
    assert store.committed is not None
    assert store.committed.due == NOW + 90
    assert event_types(store, job["id"])[-1] == "job.requeued"
    (again,) = claims(store)
    assert (again.run.job_id, again.run.attempt) == (job["id"], 1)
    end(store, again)
    assert [run["status"] for run in runs(store, job["id"])] == ["INTERRUPTED", "DONE"]


def test_put_back_wakes_the_timer_for_its_deadline(store: Store) -> None:
    claimed = begin(store, on_interrupt="requeue", deadline=NOW + 500)
    end(store, claimed, CRASHED)
    assert store.committed is not None
    assert store.committed.due == NOW + 500


def test_a_stale_run_that_is_interrupted_gives_its_attempt_back_and_is_superseded(store: Store) -> None:
    claimed = begin(store, on_interrupt="requeue", subject_key="s")
    newer = put(store, subject_key="s")
    assert end(store, claimed, SHUT_DOWN) == "SUPERSEDED"
    job = store.job(claimed.run.job_id)
    assert (job["attempts"], job["run_count"], job["superseded_by"]) == (0, 1, newer.job_id)
    assert [run["status"] for run in runs(store, job["id"])] == ["INTERRUPTED"]


def test_put_back_any_number_of_times_never_uses_up_the_attempts(store: Store) -> None:
    job_id = put(store, on_interrupt="requeue", max_attempts=1).job_id
    for _ in range(4):
        (claimed,) = claims(store)
        assert end(store, claimed, CRASHED) == "QUEUED"
    (claimed,) = claims(store)
    assert end(store, claimed, BAD) == "FAILED"
    job = store.job(job_id)
    assert (job["attempts"], job["run_count"]) == (1, 5)


def test_interrupted_by_default_is_a_failure_that_may_retry(store: Store) -> None:
    assert end(store, begin(store), CRASHED) == "FAILED"
    assert end(store, begin(store, max_attempts=2), SHUT_DOWN) == "SCHEDULED"


def later(claimed: Claim, **changed: Any) -> Running:
    return msgspec.structs.replace(claimed.run, **changed)


@pytest.mark.parametrize("outcome", [GOOD, BAD, HOPELESS, CRASHED])
def test_a_late_answer_from_an_old_run_changes_nothing(store: Store, outcome: Outcome) -> None:
    first = begin(store, max_attempts=3, backoff_base_ms=10)
    end(store, first, BAD)
    for what_is_now in ("waits", "runs again", "is done"):
        before = everything(store)
        assert end(store, first, outcome) is None, what_is_now
        assert everything(store) == before, what_is_now
        if what_is_now == "waits":
            tick(store, 100)
            (second,) = claims(store)
        elif what_is_now == "runs again":
            end(store, second)


def test_an_answer_for_a_run_or_job_nobody_knows_changes_nothing(store: Store) -> None:
    claimed = begin(store)
    before = everything(store)
    for known in (None, claimed.job):
        assert store.run(finish, Finish(later(claimed, run_id="other"), GOOD, claimed=known)) is None
    assert store.run(finish, Finish(later(claimed, job_number=99), GOOD)) is None
    assert everything(store) == before


def test_the_same_answer_twice_counts_once(store: Store) -> None:
    claimed = begin(store)
    end(store, claimed)
    before = everything(store)
    assert end(store, claimed) is None
    assert everything(store) == before


def test_a_clock_set_back_makes_no_negative_durations(store: Store) -> None:
    claimed = begin(store)
    store.now -= 10
    end(store, claimed)
    assert msgspec.json.decode(store.events()[-1]["payload"])["duration_ms"] == 0
    assert store.rows("SELECT run_ms FROM queue_counts") == [{"run_ms": 0}]


def test_a_cancelled_retry_does_not_come_back(store: Store) -> None:
    claimed = begin(store, max_attempts=3)
    end(store, claimed, BAD)
    stop(store, claimed.run.job_id)
    tick(store, 3_600_000)
    assert claimed_ids(store) == []
    assert states(store, claimed.run.job_id) == ["CANCELLED"]


def test_how_long_runs_take_of_late_follows_the_last_ones(store: Store) -> None:
    expected = []
    for took in (1000, 1000, 2000, 0, 500):
        claimed = begin(store)
        store.now += took
        end(store, claimed)
        expected.append(store.rows("SELECT recent_run_ms FROM queue_counts")[0]["recent_run_ms"])
    assert expected == [1000, 1000, 1200, 960, 868]


@pytest.mark.parametrize(
    ("outcome", "is_cancelled", "on_interrupt"),
    [(GOOD, True, "fail"), (SHUT_DOWN, False, "fail"), (SHUT_DOWN, False, "requeue"), (LOST, False, "fail")],
)
def test_a_run_that_the_daemon_ended_does_not_count_in_how_long_runs_take(
    store: Store, outcome: Outcome, is_cancelled: bool, on_interrupt: str
) -> None:
    claimed = begin(store, on_interrupt=on_interrupt)
    if is_cancelled:
        stop(store, claimed.run.job_id)
    store.now += 1000
    end(store, claimed, outcome)
    counts = store.rows("SELECT runs, timed_runs, run_ms, recent_run_ms FROM queue_counts")
    assert counts == [{"runs": 1, "timed_runs": 0, "run_ms": 0, "recent_run_ms": 0}]


def test_a_run_took_as_long_as_its_own_clock_says_whatever_the_wall_clock_did_meanwhile(forged: Store) -> None:
    claimed = begin(forged)
    forged.now += 82_800_000
    end(forged, claimed, Outcome(took_ms=12_000))
    assert msgspec.json.decode(forged.events()[-1]["payload"])["duration_ms"] == 12_000
    (counts,) = forged.rows("SELECT run_ms, recent_run_ms, timed_runs FROM queue_counts")
    assert counts == {"run_ms": 12_000, "recent_run_ms": 12_000, "timed_runs": 1}
