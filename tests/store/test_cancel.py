"""job.cancel: what waits ends at once, what runs is asked and ends CANCELLED, what is over is listed as unchanged."""

import pytest

from semantica_daemon.errors import AmbiguousId, JobNotFound
from semantica_daemon.model.outcome import CRASHED, Outcome
from semantica_daemon.store.selected import MOST
from semantica_daemon.store.tx import StopRun
from semantica_daemon.store.writes.enqueue import enqueue_many
from semantica_daemon.wire.job import CancelResult
from tests.builders import Store, admitted
from tests.store.steps import BAD, GOOD, HOPELESS, LATER, begin, claims, end, event_types, make, put, runs, states, stop


@pytest.mark.parametrize("waiting", ["QUEUED", "SCHEDULED"])
def test_what_waits_ends_at_once(store: Store, waiting: str) -> None:
    job_id = make(store, waiting).job_id
    done = stop(store, job_id, reason="changed my mind")
    assert done == CancelResult([job_id], [], [])
    assert states(store, job_id) == ["CANCELLED"]
    event = store.events()[-1]
    assert (event["event_type"], event["message"]) == ("job.cancelled", "changed my mind")


@pytest.mark.parametrize("outcome", [GOOD, BAD, HOPELESS, CRASHED])
@pytest.mark.parametrize("on_interrupt", ["fail", "requeue"])
def test_what_runs_is_asked_and_ends_cancelled_whatever_it_says(
    store: Store, outcome: Outcome, on_interrupt: str
) -> None:
    claimed = begin(store, max_attempts=5, on_interrupt=on_interrupt)
    job_id = claimed.run.job_id
    assert stop(store, job_id) == CancelResult([], [job_id], [])
    assert store.committed is not None
    assert store.committed.stops == [StopRun(claimed.run.run_id, "cancel")]
    job = store.job(job_id)
    assert (job["state"], job["cancel_requested_at"]) == ("RUNNING", store.now)
    assert end(store, claimed, outcome) == "CANCELLED"
    (run,) = runs(store, job_id)
    assert run["status"] == "CANCELLED"
    assert store.job(job_id)["result_summary"] is None
    assert event_types(store, job_id) == ["job.queued", "job.started", "job.log", "job.cancelled"]


def test_asking_twice_asks_the_run_once(store: Store) -> None:
    claimed = begin(store)
    asked_at = store.now
    stop(store, claimed.run.job_id)
    store.now += 10
    again = stop(store, claimed.run.job_id)
    assert again == CancelResult([], [claimed.run.job_id], [])
    assert store.committed is not None
    assert (store.committed.stops, store.committed.events) == ([], [])
    assert store.job(claimed.run.job_id)["cancel_requested_at"] == asked_at


def test_a_cancel_of_what_is_being_interrupted_wins(store: Store) -> None:
    """Somebody said so; that a newer save had asked first decides only since when it stops."""
    claimed = begin(store, subject_key="s")
    put(store, subject_key="s", on_running="cancel")
    asked_at = store.now
    store.now += 10
    stop(store, claimed.run.job_id)
    assert store.job(claimed.run.job_id)["cancel_requested_at"] == asked_at
    assert end(store, claimed) == "CANCELLED"


def test_a_job_asked_to_stop_keeps_its_slot_until_it_is_gone(store: Store) -> None:
    claimed = begin(store, queue="one")
    put(store, queue="one")
    stop(store, claimed.run.job_id)
    assert claims(store) == []
    end(store, claimed)
    assert len(claims(store)) == 1


@pytest.mark.parametrize("over", ["DONE", "FAILED", "CANCELLED", "SUPERSEDED", "SKIPPED_TTL", "SKIPPED_DEADLINE"])
def test_cancelling_what_is_over_is_no_error_and_changes_nothing(store: Store, over: str) -> None:
    job_id = make(store, over).job_id
    before = store.job(job_id)
    assert stop(store, job_id) == CancelResult([], [], [job_id])
    assert store.job(job_id) == before
    assert store.committed is not None
    assert store.committed.events == []


def test_several_ids_at_once_each_listed_once(store: Store) -> None:
    running = begin(store).run.job_id
    waiting = put(store).job_id
    over = make(store, "SKIPPED_TTL").job_id
    assert stop(store, running, waiting, over, waiting) == CancelResult([waiting], [running], [over])


def test_a_prefix_is_enough_if_it_is_unique(store: Store) -> None:
    one, two = put(store).job_id, put(store).job_id
    assert stop(store, one[:8].upper()) == CancelResult([one], [], [])
    common = next(length for length in range(36) if one[length] != two[length])
    with pytest.raises(AmbiguousId) as refused:
        stop(store, one[:common])
    assert sorted(refused.value.details["matches"]) == sorted([one, two])


def test_an_unknown_id_cancels_none_of_the_others(store: Store) -> None:
    waiting = put(store).job_id
    with pytest.raises(JobNotFound) as refused:
        stop(store, waiting, "ffffffff-ffff-4fff-8fff-ffffffffffff")
    assert (refused.value.number, refused.value.code) == (4001, "E_JOB_NOT_FOUND")
    assert states(store, waiting) == ["QUEUED"]


@pytest.mark.parametrize(
    ("field", "mine", "other"),
    [
        ("user_tag", {"user_tag": "x"}, {"user_tag": "y"}),
        ("chain_group_id", {"chain_group_id": "x"}, {"chain_group_id": "y"}),
        ("subject_key", {"subject_key": "x", "supersede": "none"}, {"subject_key": "y"}),
        ("queue", {"queue": "x"}, {"queue": "y"}),
    ],
)
def test_a_selection_takes_the_live_jobs_and_no_others(
    store: Store, field: str, mine: dict[str, str], other: dict[str, str]
) -> None:
    over = begin(store, **mine)
    end(store, over)
    running = begin(store, **mine)
    waiting = put(store, **mine).job_id
    scheduled = put(store, **mine, schedule=LATER).job_id
    spared = put(store, **other).job_id
    done = stop(store, **{field: "x"})
    assert (set(done.cancelled), done.cancelling, done.unchanged) == ({waiting, scheduled}, [running.run.job_id], [])
    assert states(store, over.run.job_id, spared) == ["DONE", "QUEUED"]


def test_running_jobs_may_be_left_alone(store: Store) -> None:
    running = begin(store, chain_group_id="g")
    waiting = put(store, chain_group_id="g").job_id
    done = stop(store, chain_group_id="g", only_waiting=True)
    assert done == CancelResult([waiting], [], [running.run.job_id])
    assert states(store, running.run.job_id) == ["RUNNING"]
    assert stop(store, running.run.job_id, only_waiting=True).unchanged == [running.run.job_id]


def test_a_selection_of_nothing_is_nothing(store: Store) -> None:
    assert stop(store, user_tag="nobody") == CancelResult([], [], [])


def test_a_large_selection_is_taken_in_portions(store: Store) -> None:
    """So that one call never holds the writer; the caller goes on until nothing is left."""
    store.run(enqueue_many, [admitted(user_tag="x") for _ in range(MOST + 5)])
    counts = [len(stop(store, user_tag="x").cancelled) for _ in range(3)]
    assert counts == [MOST, 5, 0]


def test_the_lane_goes_on_after_a_cancel(store: Store) -> None:
    claimed = begin(store, subject_key="s")
    newer = put(store, subject_key="s")
    stop(store, claimed.run.job_id)
    end(store, claimed)
    assert [one.run.job_id for one in claims(store)] == [newer.job_id]
