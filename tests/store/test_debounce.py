"""debounce_ms holds a job back until its lane has been quiet; max_wait_ms bounds how long a busy lane may do that."""

from typing import Any

import pytest

from semantica_daemon.store.writes.enqueue import forecast
from tests.builders import NOW, Store, admitted
from tests.store.steps import BAD, begin, claimed_ids, claims, emitted, end, put, states, stop, tick

S: dict[str, Any] = {"subject_key": "s", "debounce_ms": 100}


def save(store: Store, **spec: Any) -> str:
    return put(store, **{**S, **spec}).job_id


def test_fifty_saves_in_a_second_give_one_run(store: Store) -> None:
    saves = []
    for _ in range(50):
        saves.append(save(store))
        tick(store, 20)
    assert claimed_ids(store) == []
    tick(store, 79)
    assert claimed_ids(store) == []
    tick(store, 1)
    assert claimed_ids(store) == [saves[-1]]
    assert states(store, *saves) == ["SUPERSEDED"] * 49 + ["RUNNING"]


def test_it_waits_for_quiet_and_not_a_ms_longer(store: Store) -> None:
    first = save(store)
    assert tick(store, 60) == NOW + 100
    second = save(store)
    assert tick(store) == NOW + 160
    tick(store, 99)
    assert states(store, first, second) == ["SUPERSEDED", "SCHEDULED"]
    tick(store, 1)
    assert states(store, second) == ["QUEUED"]


def test_a_lane_that_never_goes_quiet_still_runs_every_max_wait(store: Store) -> None:
    began = []
    for _ in range(100):
        save(store, max_wait_ms=250)
        tick(store, 10)
        for claimed in claims(store):
            began.append(store.now - NOW)
            end(store, claimed)
    assert began == [250, 500, 750, 1000]


def test_since_when_a_lane_is_postponed_goes_from_save_to_save(store: Store) -> None:
    save(store, max_wait_ms=250)
    for _ in range(3):
        store.now += 80
        job_id = save(store, max_wait_ms=250)
        assert store.job(job_id)["postponed_since"] == NOW
    assert store.job(job_id)["scheduled_at"] == NOW + 250


def test_a_queued_one_is_replaced_by_one_that_is_queued_at_once_when_max_wait_is_over(store: Store) -> None:
    first = save(store, max_wait_ms=100, queue="none")
    tick(store, 100)
    assert states(store, first) == ["QUEUED"]
    second = put(store, **S, max_wait_ms=100, queue="none")
    assert (second.state, second.superseded) == ("QUEUED", (first,))


def test_a_queued_one_is_replaced_and_quiet_is_waited_for_again(store: Store) -> None:
    first = save(store, queue="none")
    tick(store, 100)
    second = put(store, **S, queue="none")
    assert (second.state, second.superseded, store.job(second.job_id)["postponed_since"]) == (
        "SCHEDULED",
        (first,),
        NOW,
    )


def test_a_running_one_goes_on_and_the_next_counts_anew(store: Store) -> None:
    save(store, max_wait_ms=100)
    tick(store, 100)
    (running,) = claims(store)
    store.now += 500
    second = save(store, max_wait_ms=100)
    assert store.job(second)["postponed_since"] == NOW + 600
    tick(store, 100)
    assert claimed_ids(store) == [], "one of a lane at a time"
    end(store, running)
    assert claimed_ids(store) == [second]


def test_a_run_ends_the_wait_also_of_a_job_that_is_tried_again_or_put_back(store: Store) -> None:
    save(store, max_wait_ms=100, max_attempts=2)
    tick(store, 100)
    (running,) = claims(store)
    end(store, running, BAD)
    newer = save(store, max_wait_ms=100)
    assert store.job(newer)["scheduled_at"] == store.now + 100


def test_another_type_or_subject_is_another_lane(store: Store) -> None:
    first = save(store, max_wait_ms=150)
    store.now += 60
    others = [put(store, "semantica.echo", **S).job_id, save(store, subject_key="t")]
    assert [store.job(other)["postponed_since"] for other in others] == [NOW + 60, NOW + 60]
    tick(store, 40)
    assert states(store, first, *others) == ["QUEUED", "SCHEDULED", "SCHEDULED"]


def test_one_for_the_whole_subject_inherits_only_its_own_lane_s_wait(store: Store) -> None:
    other = put(store, "semantica.echo", **S).job_id
    store.now += 30
    own = save(store)
    store.now += 30
    whole = put(store, **S, supersede="subject", max_wait_ms=100)
    assert sorted(whole.superseded) == sorted([other, own])
    job = store.job(whole.job_id)
    assert (job["postponed_since"], job["scheduled_at"]) == (NOW + 30, NOW + 130)


def test_a_job_of_the_lane_without_debounce_runs_at_once_and_ends_the_wait(store: Store) -> None:
    first = save(store, max_wait_ms=500)
    store.now += 60
    plain = put(store, subject_key="s")
    assert (plain.state, plain.superseded) == ("QUEUED", (first,))
    third = save(store, max_wait_ms=500)
    assert store.job(third)["postponed_since"] == NOW + 60, "the one before was not postponed"


def test_what_came_too_late_for_its_lane_postpones_nothing(store: Store) -> None:
    first = save(store, generation=5)
    store.now += 60
    late = put(store, **S, generation=4)
    assert late.state == "SUPERSEDED"
    tick(store, 40)
    assert states(store, first) == ["QUEUED"]


def test_a_cancelled_one_leaves_no_wait_behind(store: Store) -> None:
    stop(store, save(store, max_wait_ms=100))
    store.now += 90
    again = save(store, max_wait_ms=100)
    assert store.job(again)["scheduled_at"] == NOW + 190


def test_quiet_is_waited_for_beside_an_event(store: Store) -> None:
    job_id = save(store, schedule={"type": "CONDITION", "wait_for_event": "e"})
    tick(store, 200)
    assert states(store, job_id) == ["SCHEDULED"]
    emitted(store, "e")
    tick(store)
    assert states(store, job_id) == ["QUEUED"]


def test_a_retry_waits_for_its_backoff_and_not_for_quiet(store: Store) -> None:
    save(store, max_attempts=2, backoff_base_ms=10)
    tick(store, 100)
    (claimed,) = claims(store)
    end(store, claimed, BAD)
    assert store.job(claimed.run.job_id)["scheduled_at"] <= NOW + 111
    newer = put(store, **S)
    assert newer.superseded == (claimed.run.job_id,)


@pytest.mark.parametrize(("wait", "state"), [(99, "SCHEDULED"), (100, "QUEUED")])
def test_a_plan_says_the_same(store: Store, wait: int, state: str) -> None:
    save(store, max_wait_ms=100, queue="none")
    store.now += wait
    spec: dict[str, Any] = {**S, "max_wait_ms": 100, "queue": "none"}
    planned = store.run(forecast, admitted(**spec))
    assert planned.state == state
    assert put(store, **spec).state == state


def test_no_quiet_at_all_is_no_wait(store: Store) -> None:
    begin(store, subject_key="s", debounce_ms=0, max_wait_ms=0)
