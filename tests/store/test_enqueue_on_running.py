"""A newer generation while the older runs: let it finish, or interrupt it, but not for ever."""

from typing import Any

import pytest

from semantica_daemon.store.run_transition import Claim
from semantica_daemon.store.tx import StopRun
from semantica_daemon.store.writes.queues import configure
from semantica_daemon.wire.queue import ConfigureParams
from tests.builders import Store
from tests.store.steps import BAD, GOOD, HOPELESS, begin, claimed_ids, claims, end, event_types, put, runs, states, stop


def stops(store: Store) -> list[StopRun]:
    assert store.committed is not None
    return store.committed.stops


def test_by_default_the_older_may_finish_and_is_marked_stale(store: Store) -> None:
    older = begin(store, subject_key="s")
    newer = put(store, subject_key="s")
    assert newer.superseded == ()
    assert stops(store) == []
    row = store.job(older.run.job_id)
    assert (row["state"], row["stale"], row["superseded_by"]) == ("RUNNING", 1, newer.job_id)
    assert end(store, older) == "DONE"
    assert '"stale":true' in store.events()[-1]["payload"]


def test_the_retry_of_a_stale_job_is_superseded_and_its_run_keeps_its_error(store: Store) -> None:
    older = begin(store, subject_key="s", max_attempts=5)
    newer = put(store, subject_key="s")
    assert end(store, older, BAD) == "SUPERSEDED"
    assert store.job(older.run.job_id)["superseded_by"] == newer.job_id
    (run,) = runs(store, older.run.job_id)
    assert run["status"] == "FAILED"
    assert "it broke" in (run["error"] or "")


def test_a_stale_job_without_another_attempt_fails(store: Store) -> None:
    older = begin(store, subject_key="s", max_attempts=5)
    put(store, subject_key="s")
    assert end(store, older, HOPELESS) == "FAILED"


def test_on_running_cancel_asks_the_older_to_stop_and_it_ends_superseded(store: Store) -> None:
    older = begin(store, subject_key="s", max_attempts=5)
    newer = put(store, subject_key="s", on_running="cancel")
    assert newer.superseded == (), "it still runs"
    assert stops(store) == [StopRun(older.run.run_id, "supersede")]
    row = store.job(older.run.job_id)
    assert (row["state"], row["cancel_requested_at"], row["superseded_by"]) == ("RUNNING", store.now, newer.job_id)
    assert claims(store) == [], "the newer waits until the older is really gone"
    assert end(store, older, GOOD) == "SUPERSEDED", "whatever it says of itself"
    (run,) = runs(store, older.run.job_id)
    assert run["status"] == "SUPERSEDED"
    assert event_types(store, older.run.job_id)[-1] == "job.superseded"
    assert claimed_ids(store) == [newer.job_id]


def test_what_is_stopping_already_is_not_asked_again(store: Store) -> None:
    older = begin(store, subject_key="s")
    put(store, subject_key="s", on_running="cancel")
    newest = put(store, subject_key="s", on_running="cancel")
    assert stops(store) == []
    assert len(newest.superseded) == 1
    assert end(store, older) == "SUPERSEDED"


def test_a_cancelled_job_ends_cancelled_though_a_newer_one_arrives(store: Store) -> None:
    older = begin(store, subject_key="s")
    stop(store, older.run.job_id)
    put(store, subject_key="s", on_running="cancel")
    assert stops(store) == []
    assert end(store, older) == "CANCELLED"


def test_on_running_comes_from_the_queue_when_the_job_does_not_say(store: Store) -> None:
    store.run(configure, ConfigureParams("default", on_running="cancel"))
    older = begin(store, subject_key="s")
    put(store, subject_key="s")
    assert [stop.run_id for stop in stops(store)] == [older.run.run_id]
    assert end(store, older) == "SUPERSEDED"
    (running,) = claims(store)
    put(store, subject_key="s", on_running="finish")
    assert stops(store) == []
    assert store.job(running.run.job_id)["stale"] == 1


def interrupted(store: Store, running: Claim, **spec: Any) -> tuple[bool, Claim]:
    """One more save while a run is under way: was it interrupted, and the run that follows."""
    put(store, subject_key="s", on_running="cancel", **spec)
    asked = bool(stops(store))
    end(store, running)
    (following,) = claims(store)
    return asked, following


@pytest.mark.parametrize("most", [0, 1, 3])
def test_after_so_many_interruptions_in_a_row_the_running_one_may_finish(store: Store, most: int) -> None:
    running = begin(store, subject_key="s")
    asked = []
    for _ in range(most + 1):
        was, running = interrupted(store, running, max_interrupts=most)
        asked.append(was)
    assert asked == [True] * most + [False]


@pytest.mark.parametrize("outcome", [GOOD, BAD])
def test_a_run_that_came_to_its_own_end_starts_the_count_anew(store: Store, outcome: object) -> None:
    running = begin(store, subject_key="s")
    for _ in range(3):
        _, running = interrupted(store, running)
    assert store.rows("SELECT interrupts FROM lanes") == [{"interrupts": 3}]
    end(store, running, BAD if outcome is BAD else GOOD)
    assert store.rows("SELECT interrupts FROM lanes") == [{"interrupts": 0}]
    asked, _ = interrupted(store, begin(store, subject_key="s"))
    assert asked


def test_a_newer_save_that_lets_the_older_finish_is_no_interruption(store: Store) -> None:
    begin(store, subject_key="s")
    for _ in range(5):
        put(store, subject_key="s", on_running="finish")
    put(store, subject_key="s", on_running="cancel", max_interrupts=1)
    assert len(stops(store)) == 1


def test_the_cap_counts_each_lane_by_itself(store: Store) -> None:
    running = begin(store, subject_key="s")
    for _ in range(3):
        _, running = interrupted(store, running)
    end(store, running)
    begin(store, subject_key="t")
    put(store, subject_key="t", on_running="cancel")
    assert len(stops(store)) == 1


def test_a_late_end_of_an_interrupted_run_changes_nothing(store: Store) -> None:
    older = begin(store, subject_key="s")
    put(store, subject_key="s", on_running="cancel")
    end(store, older)
    before = len(store.events())
    assert end(store, older) is None
    assert len(store.events()) == before
    assert states(store, older.run.job_id) == ["SUPERSEDED"]
