"""keep: while a job of the lane waits, that is the job; a debounce begins anew with each that is kept."""

from typing import Any

import pytest

from semantica_daemon.errors import InvalidParams, QueueFull
from semantica_daemon.store.writes.enqueue import enqueue_many, forecast
from semantica_daemon.store.writes.retry import retry
from semantica_daemon.wire.job import Ack, Acks, Forecast, RetryParams
from tests.builders import Store, admitted
from tests.store.steps import (
    BAD,
    HOPELESS,
    LATER,
    begin,
    claimed_ids,
    claims,
    end,
    event_types,
    put,
    states,
    stop,
    tick,
)


def keep(store: Store, **spec: Any) -> Ack:
    return put(store, **{"subject_key": "s", "supersede": "keep", **spec})


@pytest.mark.parametrize("mode", ["keep", "lane", "subject", "append"])
@pytest.mark.parametrize("schedule", [{"type": "IMMEDIATE"}, LATER])
def test_a_job_that_waits_is_the_job(store: Store, mode: str, schedule: dict[str, Any]) -> None:
    waiting = put(store, subject_key="s", supersede=mode, schedule=schedule)
    kept = keep(store, priority=9, queue="other")
    assert kept == Ack(waiting.job_id, "default", waiting.state, 1, existing=True)
    assert store.committed is not None
    assert store.committed.events == []
    assert [job["priority"] for job in store.rows("SELECT * FROM jobs")] == [0]


def test_of_several_that_wait_it_is_the_oldest(store: Store) -> None:
    first, _ = (put(store, subject_key="s", supersede="append") for _ in range(2))
    assert keep(store).job_id == first.job_id


def test_another_lane_is_another_job(store: Store) -> None:
    keep(store)
    others = [keep(store, subject_key="t"), keep(store, job_type="semantica.echo"), put(store, supersede="none")]
    assert [ack.existing for ack in others] == [False] * 3


def test_behind_a_running_job_a_new_one_waits_and_the_next_is_kept_as_that(store: Store) -> None:
    running = begin(store, subject_key="s", supersede="keep")
    behind = keep(store)
    assert (behind.existing, behind.state, behind.superseded) == (False, "QUEUED", ())
    assert keep(store).job_id == behind.job_id
    assert claims(store) == []
    end(store, running)
    assert claimed_ids(store) == [behind.job_id]


def test_the_running_job_is_stale_then_and_is_not_retried(store: Store) -> None:
    """The one behind it does the work again anyway."""
    running = begin(store, subject_key="s", supersede="keep", max_attempts=3)
    behind = keep(store)
    assert end(store, running, BAD) == "SUPERSEDED"
    assert store.job(running.run.job_id)["superseded_by"] == behind.job_id


def test_the_running_job_is_interrupted_if_the_new_one_asks_for_it(store: Store) -> None:
    running = begin(store, subject_key="s", supersede="keep")
    keep(store, on_running="cancel")
    assert store.job(running.run.job_id)["stop_state"] == "SUPERSEDED"


def test_a_running_append_job_is_left_alone(store: Store) -> None:
    running = begin(store, subject_key="s", supersede="append", max_attempts=2, backoff_base_ms=1000)
    behind = keep(store, on_running="cancel")
    row = store.job(running.run.job_id)
    assert (row["stale"], row["stop_state"], behind.existing) == (0, None, False)


def test_a_job_that_waits_for_its_next_attempt_is_kept(store: Store) -> None:
    claimed = begin(store, subject_key="s", supersede="keep", max_attempts=2)
    end(store, claimed, BAD)
    assert keep(store) == Ack(claimed.run.job_id, "default", "SCHEDULED", 1, existing=True)


def test_a_retry_of_an_older_generation_is_not_kept(store: Store) -> None:
    """It would run for what is known to be out of date."""
    old = begin(store, subject_key="s")
    end(store, old, HOPELESS)
    newer = begin(store, subject_key="s")
    stale: Ack = store.run(retry, RetryParams(job_id=old.run.job_id, force=True))
    fresh = keep(store)
    assert (fresh.existing, fresh.generation, states(store, stale.job_id)) == (False, 3, ["QUEUED"])
    end(store, newer)


def test_a_newer_job_that_supersedes_replaces_the_kept_one(store: Store) -> None:
    kept = keep(store)
    assert put(store, subject_key="s").superseded == (kept.job_id,)


def test_when_the_kept_job_has_ended_the_next_is_new(store: Store) -> None:
    stop(store, keep(store).job_id)
    assert keep(store).existing is False


def test_a_full_queue_still_keeps_what_waits(store: Store) -> None:
    waiting = keep(store, queue="small")
    put(store, queue="small")
    assert keep(store, queue="small").job_id == waiting.job_id
    with pytest.raises(QueueFull):
        keep(store, queue="small", subject_key="t")


def test_an_idempotency_key_stands_for_the_kept_job(store: Store) -> None:
    waiting = keep(store)
    kept = keep(store, idempotency_key="k")
    stop(store, waiting.job_id)
    again = keep(store, idempotency_key="k")
    assert (kept.job_id, again.job_id, again.state) == (waiting.job_id, waiting.job_id, "CANCELLED")


def test_of_one_call_the_second_is_kept_as_the_first(store: Store) -> None:
    acks: Acks = store.run(enqueue_many, [admitted(subject_key="s", supersede="keep") for _ in range(3)])
    assert [ack.existing for ack in acks.jobs] == [False, True, True]
    assert len({ack.job_id for ack in acks.jobs}) == 1


def test_each_that_is_kept_begins_the_debounce_anew(store: Store) -> None:
    waiting = keep(store, debounce_ms=100)
    store.now += 60
    assert keep(store, debounce_ms=5).existing
    assert store.job(waiting.job_id)["scheduled_at"] == store.now + 100, "by the kept job's own time"
    assert event_types(store, waiting.job_id) == ["job.scheduled", "job.updated"]
    assert tick(store, 99) == store.now + 1
    tick(store, 1)
    assert claimed_ids(store) == [waiting.job_id]


def test_a_busy_lane_postpones_the_kept_job_no_longer_than_it_allows(store: Store) -> None:
    waiting = keep(store, debounce_ms=100, max_wait_ms=150)
    since = store.now
    for _ in range(3):
        store.now += 60
        if store.now < since + 150:
            keep(store, debounce_ms=100, max_wait_ms=150)
            assert store.job(waiting.job_id)["scheduled_at"] == min(store.now + 100, since + 150)
    tick(store)
    assert states(store, waiting.job_id) == ["QUEUED"]
    assert keep(store, debounce_ms=100).state == "QUEUED"


def test_a_later_time_of_its_own_is_not_made_earlier(store: Store) -> None:
    waiting = keep(store, debounce_ms=100, schedule={"type": "AT", "scheduled_at": store.now + 5000})
    at = store.now + 5000
    store.now += 60
    keep(store)
    row = store.job(waiting.job_id)
    assert (row["scheduled_at"], row["is_delay"]) == (at, 0)


def test_a_plan_names_the_job_that_would_be_kept(store: Store) -> None:
    waiting = keep(store)
    found: Forecast = store.run(forecast, admitted(subject_key="s", supersede="keep"))
    assert (found.existing, found.state) == (waiting.job_id, "QUEUED")
    assert found.starts_when == "a job of its subject waits already, and is kept; nothing new would start"


@pytest.mark.parametrize("given", [{"subject_key": None}, {"generation": 5}])
def test_what_makes_no_sense_with_keep_is_refused(store: Store, given: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams) as refused:
        keep(store, **given)
    assert refused.value.details["path"] == "$.supersede"
    assert store.rows("SELECT id FROM jobs") == []


def test_a_lane_that_its_client_numbers_can_still_keep_what_waits(store: Store) -> None:
    waiting = put(store, subject_key="s", generation=7)
    assert keep(store) == Ack(waiting.job_id, "default", "QUEUED", 7, existing=True)
