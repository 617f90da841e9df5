"""append: the jobs of a lane run one after the other, in the order in which they were queued, and none is dropped."""

from typing import Any

import pytest

from semantica_daemon.errors import GenerationOwner, InvalidParams, NotEnded
from semantica_daemon.model.outcome import CRASHED, LOST, Outcome
from semantica_daemon.store.writes.enqueue import forecast
from semantica_daemon.store.writes.hold import hold, release
from semantica_daemon.store.writes.retry import retry
from semantica_daemon.wire.job import Ack, Forecast, RetryParams
from tests.builders import Store, admitted
from tests.store.steps import (
    BAD,
    HOPELESS,
    LATER,
    WHEN_IDLE,
    begin,
    claimed_ids,
    claims,
    end,
    portion,
    put,
    states,
    stop,
    tick,
)
from tests.store.workers import begin_external, end_external, put_external, registered, take, taken_ids


def append(store: Store, **spec: Any) -> Ack:
    return put(store, **{"subject_key": "s", "supersede": "append", **spec})


def run_all(store: Store) -> list[str]:
    """Runs what may start until nothing is left; the ids in the order of their runs, never two at a time."""
    order = []
    while running := claims(store):
        assert len(running) == 1
        order.append(running[0].run.job_id)
        end(store, running[0])
    return order


def test_all_of_them_run_in_the_order_in_which_they_came(store: Store) -> None:
    acks = [append(store) for _ in range(5)]
    assert [(ack.state, ack.generation, ack.superseded, ack.existing) for ack in acks] == [
        ("QUEUED", number, (), False) for number in range(1, 6)
    ]
    assert run_all(store) == [ack.job_id for ack in acks]


def test_a_lane_of_append_jobs_holds_up_nobody_else(store: Store) -> None:
    first = append(store)
    append(store)
    other = put(store, subject_key="t")
    assert claimed_ids(store) == [first.job_id, other.job_id]


def test_the_order_is_that_of_the_queue_so_a_higher_priority_goes_first(store: Store) -> None:
    first, low, high = append(store), append(store, priority=-5), append(store, priority=5)
    assert run_all(store) == [first.job_id, high.job_id, low.job_id]


def test_a_job_for_later_holds_nobody_back_until_it_is_due(store: Store) -> None:
    later = append(store, schedule=LATER)
    now = append(store)
    assert claimed_ids(store) == [now.job_id]
    tick(store, 5000)
    assert claims(store) == []
    assert states(store, later.job_id) == ["QUEUED"]


def test_nobody_overtakes_a_job_between_two_attempts(store: Store) -> None:
    """Not even one that the lane would otherwise let through: the next starts when it has ended."""
    first = begin(store, subject_key="s", supersede="append", max_attempts=2, backoff_base_ms=1000)
    second = append(store)
    end(store, first, BAD)
    third = append(store)
    newest = put(store, subject_key="s")
    assert claims(store) == []
    tick(store, 1100)
    (again,) = claims(store)
    assert again.run.job_id == first.run.job_id
    end(store, again, BAD)
    assert states(store, first.run.job_id) == ["FAILED"]
    assert run_all(store) == [second.job_id, third.job_id, newest.job_id]


def test_a_hold_between_two_attempts_holds_up_the_next_too(store: Store) -> None:
    first = begin(store, subject_key="s", supersede="append", max_attempts=2, backoff_base_ms=0)
    second = append(store)
    end(store, first, BAD)
    store.run(hold, portion(store, first.run.job_id))
    tick(store)
    assert claims(store) == []
    store.run(release, portion(store, first.run.job_id))
    assert run_all(store) == [first.run.job_id, second.job_id]


def test_a_cancel_between_two_attempts_lets_the_next_one_start(store: Store) -> None:
    first = begin(store, subject_key="s", supersede="append", max_attempts=2)
    second = append(store)
    end(store, first, BAD)
    stop(store, first.run.job_id)
    assert run_all(store) == [second.job_id]


def test_workers_get_them_one_after_the_other_too(store: Store) -> None:
    worker = registered(store)
    lane: dict[str, Any] = {"subject_key": "s", "supersede": "append", "max_attempts": 2, "backoff_base_ms": 0}
    first = begin_external(store, worker, **lane)
    second, third = (put_external(store, **lane) for _ in range(2))
    assert taken_ids(store, worker) == []
    end_external(store, worker, first.run.run_id, Outcome(error=BAD.error, retry_after_ms=50))
    assert taken_ids(store, worker) == []
    tick(store, 50)
    (again,) = take(store, worker, 9)
    assert again.run.job_id == first.run.job_id
    end_external(store, worker, again.run.run_id)
    assert [taken_ids(store, worker), states(store, third)] == [[second], ["QUEUED"]]


def test_a_run_that_is_put_back_keeps_its_place(store: Store) -> None:
    first = begin(store, subject_key="s", supersede="append", on_interrupt="requeue")
    second = append(store, priority=9)
    end(store, first, CRASHED)
    assert run_all(store) == [first.run.job_id, second.job_id]


def test_a_run_that_lost_the_idle_machine_keeps_its_place(store: Store) -> None:
    store.machine(idle=True)
    needy = append(store, schedule=WHEN_IDLE)
    tick(store)
    (first,) = claims(store)
    second = append(store)
    store.machine(idle=False)
    end(store, first, LOST)
    assert claims(store) == []
    store.machine(idle=True)
    tick(store)
    assert run_all(store) == [needy.job_id, second.job_id]


def test_a_newer_job_that_supersedes_leaves_append_jobs_alone_and_comes_after_them(store: Store) -> None:
    running = begin(store, subject_key="s", supersede="append", max_attempts=2)
    waiting = append(store)
    older = put(store, subject_key="s")
    newest = put(store, subject_key="s", on_running="cancel")
    assert newest.superseded == (older.job_id,)
    row = store.job(running.run.job_id)
    assert (row["stale"], row["stop_state"]) == (0, None)
    end(store, running)
    assert run_all(store) == [waiting.job_id, newest.job_id]


def test_superseding_the_whole_subject_leaves_append_jobs_alone_too(store: Store) -> None:
    other = append(store, job_type="semantica.echo")
    newest = put(store, subject_key="s", supersede="subject")
    assert newest.superseded == ()
    assert claimed_ids(store) == [other.job_id, newest.job_id]


def test_an_append_job_leaves_the_others_of_its_lane_alone_and_comes_after_them(store: Store) -> None:
    running = begin(store, subject_key="s", max_attempts=2, backoff_base_ms=1000)
    waiting = put(store, subject_key="s")
    appended = append(store)
    assert (store.job(running.run.job_id)["superseded_by"], appended.superseded) == (waiting.job_id, ())
    end(store, running)
    assert run_all(store) == [waiting.job_id, appended.job_id]


def test_when_the_job_before_it_is_superseded_the_append_job_may_start(store: Store) -> None:
    older = put(store, subject_key="s")
    appended = append(store)
    newest = put(store, subject_key="s")
    assert newest.superseded == (older.job_id,)
    assert run_all(store) == [appended.job_id, newest.job_id]


def test_a_retry_of_an_append_job_is_never_stale(store: Store) -> None:
    first = begin(store, subject_key="s", supersede="append")
    end(store, first, HOPELESS)
    second = append(store)
    again: Ack = store.run(retry, RetryParams(job_id=first.run.job_id))
    assert (again.generation, store.job(again.job_id)["stale"]) == (1, 0)
    with pytest.raises(NotEnded):
        store.run(retry, RetryParams(job_id=first.run.job_id))
    assert run_all(store) == [second.job_id, again.job_id]


def test_a_plan_says_that_it_waits_for_the_jobs_before_it(store: Store) -> None:
    append(store)
    found: Forecast = store.run(forecast, admitted(subject_key="s", supersede="append"))
    assert (found.state, found.existing, found.would_supersede) == ("QUEUED", None, ())
    assert [reason.kind for reason in found.reasons] == ["lane"]


REFUSED: list[dict[str, Any]] = [
    {"subject_key": None},
    {"generation": 5},
    {"on_running": "cancel"},
    {"debounce_ms": 10},
    {"gather": True},
]


@pytest.mark.parametrize("given", REFUSED)
def test_what_makes_no_sense_with_append_is_refused(store: Store, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams) as refused:
        append(store, **given)
    assert refused.value.details["path"] in ("$.supersede", "$.gather")
    assert store.rows("SELECT id FROM jobs") == []


def test_a_lane_that_its_client_numbers_takes_append_jobs_only_when_it_is_empty(store: Store) -> None:
    numbered = put(store, subject_key="s", generation=7)
    with pytest.raises(GenerationOwner):
        append(store)
    stop(store, numbered.job_id)
    assert append(store, schedule=LATER).generation == 8
    with pytest.raises(GenerationOwner):
        put(store, subject_key="s", generation=9)
    put(store, "semantica.echo", subject_key="s", schedule=LATER)
    with pytest.raises(GenerationOwner):
        put(store, subject_key="s", generation=9, supersede="subject")
