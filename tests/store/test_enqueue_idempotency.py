"""An idempotency key: the same call is the same job; another call under it is a conflict; keys expire."""

from typing import Any

import pytest

from semantica_daemon.errors import IdempotencyConflict, QueueFull
from semantica_daemon.store.writes.enqueue import enqueue_many
from tests.builders import NOW, Store, admitted
from tests.store.steps import begin, end, put

DAY = 86_400_000


def keys(store: Store) -> list[str]:
    return [row["idempotency_key"] for row in store.rows("SELECT * FROM idempotency ORDER BY 1")]


def test_the_same_call_again_is_the_same_job(store: Store) -> None:
    first = begin(store, idempotency_key="k", payload={"a": 1, "b": 2})
    end(store, first)
    again = put(store, idempotency_key="k", payload={"b": 2, "a": 1}, durable=True, trace_id="other")
    assert (again.job_id, again.existing, again.state) == (first.run.job_id, True, "DONE")
    assert len(store.rows("SELECT id FROM jobs")) == 1


def test_the_key_is_asked_before_the_planner(store: Store) -> None:
    first = put(store, idempotency_key="k", subject_key="s")
    second = put(store, subject_key="s")
    again = put(store, idempotency_key="k", subject_key="s")
    assert (again.job_id, again.state, again.superseded) == (first.job_id, "SUPERSEDED", ())
    assert store.job(second.job_id)["state"] == "QUEUED"


def test_another_call_under_the_key_is_a_conflict(store: Store) -> None:
    first = put(store, idempotency_key="k")
    with pytest.raises(IdempotencyConflict) as refused:
        put(store, idempotency_key="k", priority=1)
    assert (refused.value.number, refused.value.details) == (4002, {"job_id": first.job_id})
    assert len(store.rows("SELECT id FROM jobs")) == 1


def test_a_call_may_ask_for_the_job_of_the_key_whatever_its_spec_is(store: Store) -> None:
    by_key: dict[str, Any] = {"idempotency_key": "k", "idempotency_match": "key"}
    first = put(store, **by_key)
    again = put(store, **by_key, priority=1)
    assert (again.job_id, again.existing) == (first.job_id, True)
    with pytest.raises(IdempotencyConflict):
        put(store, idempotency_key="k")


@pytest.mark.parametrize(("ttl", "fields"), [(DAY, {}), (500, {"idempotency_ttl_ms": 500})])
def test_a_key_expires(store: Store, ttl: int, fields: dict[str, Any]) -> None:
    first = put(store, idempotency_key="k", **fields)
    store.now = NOW + ttl - 1
    assert put(store, idempotency_key="k", **fields).job_id == first.job_id
    store.now = NOW + ttl
    second = put(store, idempotency_key="k", **fields)
    assert (second.existing, second.job_id == first.job_id) == (False, False)
    assert put(store, idempotency_key="k", **fields).job_id == second.job_id


def test_a_key_outlives_its_pruned_job(forged: Store) -> None:
    """Else a call repeated within its day would run the work twice."""
    first = begin(forged, idempotency_key="k")
    end(forged, first)
    forged.connection.execute("DELETE FROM jobs")
    again = put(forged, idempotency_key="k")
    assert (again.job_id, again.existing) == (first.run.job_id, True)
    assert forged.rows("SELECT id FROM jobs") == []


def test_a_refused_call_leaves_no_key(store: Store) -> None:
    put(store, queue="small")
    put(store, queue="small")
    with pytest.raises(QueueFull):
        put(store, queue="small", idempotency_key="k")
    assert keys(store) == []
    assert not put(store, idempotency_key="k").existing


def test_one_key_twice_in_many_is_one_job(store: Store) -> None:
    acks = store.run(enqueue_many, [admitted(idempotency_key="k"), admitted(idempotency_key="k")]).jobs
    assert [ack.existing for ack in acks] == [False, True]
    assert acks[0].job_id == acks[1].job_id


def test_a_stale_arrival_keeps_its_key_too(store: Store) -> None:
    put(store, subject_key="s", generation=5)
    stale = put(store, subject_key="s", generation=4, idempotency_key="k")
    again = put(store, subject_key="s", generation=4, idempotency_key="k")
    assert (again.job_id, again.existing) == (stale.job_id, True)


def test_expired_keys_are_forgotten_as_new_ones_come(store: Store) -> None:
    for number in range(6):
        put(store, idempotency_key=f"old{number}", idempotency_ttl_ms=10)
    store.now += 10
    for number in range(3):
        put(store, idempotency_key=f"new{number}")
    assert keys(store) == ["new0", "new1", "new2"]
