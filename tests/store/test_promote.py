"""The due timer's verb: due jobs join their queue, late ones are skipped, paused queues resume, and what comes next."""

from typing import Any

import pytest

from semantica_daemon.model.state import QUEUED
from semantica_daemon.store.writes.enqueue import enqueue_many
from semantica_daemon.store.writes.promote import Promote, promote
from semantica_daemon.store.writes.queues import pause
from semantica_daemon.wire.queue import PauseParams
from tests.builders import NOW, Store, admitted
from tests.store.steps import LATER, begin, claimed_ids, claims, end, event_types, make, put, states, tick


def test_a_due_job_joins_its_queue_and_not_a_ms_earlier(store: Store) -> None:
    ack = put(store, schedule={"type": "AFTER", "delay_ms": 10}, ttl_ms=5)
    assert tick(store, 9) == NOW + 10
    assert states(store, ack.job_id) == ["SCHEDULED"]
    assert tick(store, 1) == NOW + 15, "its TTL counts from the moment it is queued"
    job = store.job(ack.job_id)
    assert (job["state"], job["queued_at"], job["expires_at"], job["position"]) == (QUEUED, NOW + 10, NOW + 15, 100)
    assert event_types(store, ack.job_id) == ["job.scheduled", "job.queued"]


def test_what_became_due_while_away_is_due_now_in_the_order_it_became_due(store: Store) -> None:
    later = put(store, schedule={"type": "AFTER", "delay_ms": 200})
    sooner = put(store, schedule={"type": "AFTER", "delay_ms": 100})
    tick(store, 8 * 3_600_000)
    assert claimed_ids(store) == [sooner.job_id, later.job_id]


def test_a_ttl_is_noticed_when_it_passes(store: Store) -> None:
    ack = put(store, ttl_ms=10)
    assert tick(store, 9) == NOW + 10
    assert states(store, ack.job_id) == [QUEUED]
    assert tick(store, 1) is None
    assert states(store, ack.job_id) == ["SKIPPED_TTL"]
    event = store.events()[-1]
    assert (event["event_type"], event["level"]) == ("job.skipped_ttl", "warn")


def test_a_ttl_does_not_count_while_a_job_is_scheduled(store: Store) -> None:
    ack = put(store, schedule=LATER, ttl_ms=1)
    tick(store, 4999)
    assert states(store, ack.job_id) == ["SCHEDULED"]


def test_a_ttl_of_zero_never_waits(store: Store) -> None:
    ack = put(store, ttl_ms=0)
    tick(store)
    assert states(store, ack.job_id) == ["SKIPPED_TTL"]


@pytest.mark.parametrize("schedule", [{}, {"schedule": LATER}])
def test_a_deadline_is_noticed_when_it_passes_queued_or_scheduled(store: Store, schedule: dict[str, Any]) -> None:
    ack = put(store, deadline=NOW + 10, **schedule)
    assert tick(store, 9) == NOW + 10
    assert ack.state == states(store, ack.job_id)[0]
    tick(store, 1)
    assert states(store, ack.job_id) == ["SKIPPED_DEADLINE"]
    event = store.events()[-1]
    assert (event["event_type"], event["level"]) == ("job.skipped_deadline", "warn")


def test_a_job_due_at_its_deadline_is_skipped_without_being_queued(store: Store) -> None:
    ack = put(store, schedule={"type": "AT", "scheduled_at": NOW + 10}, deadline=NOW + 10)
    tick(store, 10)
    assert event_types(store, ack.job_id) == ["job.scheduled", "job.skipped_deadline"]


def test_a_deadline_while_running_is_not_the_timer_s(store: Store) -> None:
    claimed = begin(store, deadline=NOW + 10)
    assert tick(store, 10) is None
    assert states(store, claimed.run.job_id) == ["RUNNING"]


def test_a_finished_job_never_expires(store: Store) -> None:
    end(store, begin(store, ttl_ms=10, deadline=NOW + 10))
    assert tick(store, 10) is None


@pytest.mark.parametrize("queue", ["default", None])
def test_a_paused_queue_resumes_by_itself(store: Store, queue: str | None) -> None:
    ack = put(store)
    store.run(pause, PauseParams(queue, 100))
    assert store.committed is not None
    assert store.committed.due == NOW + 100
    assert tick(store, 99) == NOW + 100
    assert claims(store) == []
    assert tick(store, 1) is None
    assert store.events()[-1]["event_type"] == "queue.resumed"
    assert claimed_ids(store) == [ack.job_id]


def test_what_is_due_starts_in_the_same_commit(store: Store) -> None:
    ack = put(store, schedule=LATER)
    store.now += 5000
    claimed = _promote_and_claim(store)
    assert claimed == [ack.job_id]


def _promote_and_claim(store: Store) -> list[str]:
    store.run(promote, Promote(), claiming=True)
    assert store.committed is not None
    return [claimed.run.job_id for claimed in store.committed.claims]


def test_a_crowd_is_handled_in_portions_until_none_is_due(store: Store) -> None:
    specs: list[dict[str, Any]] = [{"schedule": LATER}, {"ttl_ms": 5000}, {"deadline": NOW + 5000}]
    store.run(enqueue_many, [admitted(queue="none", **spec) for spec in specs for _ in range(5)])
    store.now += 5000
    passes = 0
    while (due := tick(store, most=2)) is not None and due <= store.now:
        passes += 1
    assert passes == 2
    counted = store.rows("SELECT state, count(*) AS n FROM jobs GROUP BY state ORDER BY state")
    assert counted == [
        {"state": "QUEUED", "n": 5}, {"state": "SKIPPED_DEADLINE", "n": 5}, {"state": "SKIPPED_TTL", "n": 5},
    ]  # fmt: skip


def test_the_next_instant_is_the_first_of_all_kinds(store: Store) -> None:
    assert tick(store) is None
    store.run(pause, PauseParams("default", 400))
    assert tick(store) == NOW + 400
    put(store, deadline=NOW + 300)
    assert tick(store) == NOW + 300
    put(store, ttl_ms=200)
    assert tick(store) == NOW + 200
    put(store, schedule={"type": "AFTER", "delay_ms": 100})
    assert tick(store) == NOW + 100


@pytest.mark.parametrize("over", ["DONE", "CANCELLED", "SUPERSEDED"])
def test_nothing_that_is_over_is_promoted(store: Store, over: str) -> None:
    job_id = make(store, over).job_id
    tick(store, 10**9)
    assert states(store, job_id) == [over]


def test_a_job_for_external_workers_stays_theirs_when_it_becomes_due(store: Store) -> None:
    job_id = put(store, execution_mode="EXTERNAL", schedule=LATER).job_id
    tick(store, 5000)
    assert (store.job(job_id)["state"], store.job(job_id)["claim_class"]) == ("QUEUED", 5)
    assert claims(store) == []
