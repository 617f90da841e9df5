"""job.enqueue outside any lane: what is stored, in which state, and what the caller is told."""

from typing import Any

import msgspec
import pytest

from semantica_daemon.errors import QueueFull
from semantica_daemon.store.writes.enqueue import enqueue_many
from semantica_daemon.wire.job import Ack, Acks
from tests.builders import NOW, Store, admitted
from tests.store.steps import BAD, LATER, begin, claims, end, event_types, put, states, stop, tick


def test_a_job_with_nothing_to_wait_for_is_queued(store: Store) -> None:
    ack = put(store, payload={"a": [1, "ä"]}, priority=7)
    assert ack == Ack(ack.job_id, "default", "QUEUED", None)
    job = store.job(ack.job_id)
    assert (job["payload"], job["priority"], job["position"]) == ('{"a":[1,"ä"]}', 7, 100)
    assert (job["created_at"], job["queued_at"], job["updated_at"], job["expires_at"]) == (NOW, NOW, NOW, None)
    assert (job["subject_key"], job["generation"], job["schedule_type"]) == ("", 0, "IMMEDIATE")
    assert event_types(store, ack.job_id) == ["job.queued"]


def test_every_field_of_a_spec_reaches_its_column(store: Store) -> None:
    fields: dict[str, Any] = {
        "queue": "q", "subject_key": "c::r::p", "generation": 9, "supersede": "subject", "on_running": "cancel",
        "max_interrupts": 1, "priority": -3, "execution_mode": "IN_PROCESS", "max_attempts": 4, "backoff_factor": 3.5,
        "backoff_base_ms": 50, "timeout_ms": 60, "deadline": NOW + 1000, "ttl_ms": 70, "grace_ms": 80,
        "on_interrupt": "requeue", "chain_group_id": "g", "user_tag": "u", "trace_id": "t", "idempotency_key": "k",
    }  # fmt: skip
    fields |= {"debounce_ms": 5, "max_wait_ms": 90, "stop_when_lost": True}
    schedule: dict[str, Any] = {"wait_for_idle": True, "require_charging": True, "wait_for_event": "e"}
    times: dict[str, Any] = {"type": "AFTER", "delay_ms": 20, "scheduled_at": NOW + 10, "conditions": {"a": "1"}}
    job = store.job(put(store, **fields, schedule={**schedule, **times}).job_id)
    assert {name: job[name] for name in fields | schedule} == fields | schedule
    assert (job["schedule_type"], job["schedule_delay_ms"], job["scheduled_at"]) == ("AFTER", 20, NOW + 20)
    assert (job["unmet"], job["is_delay"], job["postponed_since"], job["event_met_at"]) == (2, 1, NOW, None)
    gate = {"job_id": job["id"], "met_at": None, "waiting": 1}
    assert store.rows("SELECT * FROM job_conditions ORDER BY key") == [
        {**gate, "key": "a", "value": "1"}, {**gate, "key": "semantica:event:e", "value": ""},
    ]  # fmt: skip
    assert (job["expires_at"], job["job_type"]) == (None, "semantica.noop")
    assert job["spec_hash"]


@pytest.mark.parametrize(
    ("schedule", "due"),
    [
        ({"type": "CONDITION", "wait_for_idle": True}, NOW),
        ({"type": "AFTER", "delay_ms": 5, "require_charging": True}, NOW + 5),
        ({"type": "CONDITION", "wait_for_event": "e"}, None),
        ({"type": "AFTER", "delay_ms": 5, "conditions": {"a": "1"}}, None),
    ],
)
def test_the_timer_is_woken_for_a_job_that_waits_when_there_is_something_to_look_at(
    store: Store, schedule: dict[str, Any], due: int | None
) -> None:
    assert put(store, schedule=schedule).state == "SCHEDULED"
    assert store.committed is not None
    assert store.committed.due == due


def test_the_trace_of_a_job_is_on_its_events(store: Store) -> None:
    put(store, traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01", user_tag="mine")
    (event,) = store.events()
    assert (event["correlation_id"], event["user_tag"], event["queue"]) == ("a" * 32, "mine", "default")
    assert msgspec.json.decode(event["payload"]) == {"queue": "default", "job_type": "semantica.noop"}


@pytest.mark.parametrize(
    ("schedule", "at"),
    [({"type": "AT", "scheduled_at": NOW + 5}, NOW + 5), ({"type": "AFTER", "delay_ms": 7}, NOW + 7)],
)
def test_a_job_for_later_is_scheduled_and_wakes_the_timer(store: Store, schedule: dict[str, Any], at: int) -> None:
    ack = put(store, schedule=schedule, ttl_ms=3)
    job = store.job(ack.job_id)
    assert (ack.state, job["scheduled_at"], job["queued_at"], job["expires_at"]) == ("SCHEDULED", at, None, None)
    assert event_types(store, ack.job_id) == ["job.scheduled"]
    assert store.committed is not None
    assert store.committed.due == at


@pytest.mark.parametrize("schedule", [{"type": "AT", "scheduled_at": NOW}, {"type": "AFTER", "delay_ms": 0}])
def test_a_job_due_already_is_queued_at_once(store: Store, schedule: dict[str, Any]) -> None:
    assert put(store, schedule=schedule).state == "QUEUED"


def test_the_caller_is_warned_of_a_time_that_has_passed(store: Store) -> None:
    late = put(store, schedule={"type": "AT", "scheduled_at": NOW - 1}, deadline=NOW)
    assert len(late.warnings) == 2
    assert "scheduled time" in late.warnings[0]
    assert "deadline" in late.warnings[1]
    tick(store)
    assert states(store, late.job_id) == ["SKIPPED_DEADLINE"]


def test_the_timer_is_woken_for_the_first_of_ttl_and_deadline(store: Store) -> None:
    put(store, ttl_ms=50, deadline=NOW + 40)
    assert store.committed is not None
    assert store.committed.due == NOW + 40


def test_a_ttl_counts_from_the_queue_on(store: Store) -> None:
    assert store.job(put(store, ttl_ms=70).job_id)["expires_at"] == NOW + 70


def test_positions_count_up_by_a_hundred(store: Store) -> None:
    positions = [store.job(put(store).job_id)["position"] for _ in range(3)]
    assert positions == [100, 200, 300]


def test_many_are_taken_together_in_order(store: Store) -> None:
    acks = store.run(enqueue_many, [admitted(user_tag=str(number)) for number in range(5)])
    assert isinstance(acks, Acks)
    tags = [store.job(ack.job_id)["user_tag"] for ack in acks.jobs]
    assert tags == ["0", "1", "2", "3", "4"]
    assert [event["job_id"] for event in store.events()] == [ack.job_id for ack in acks.jobs]


def test_many_are_taken_all_or_nothing(store: Store) -> None:
    before = put(store, subject_key="s")
    jobs = [admitted(subject_key="s"), admitted(queue="small"), admitted(queue="small"), admitted(queue="small")]
    with pytest.raises(QueueFull):
        store.run(enqueue_many, jobs)
    assert [job["id"] for job in store.rows("SELECT id FROM jobs")] == [before.job_id]
    assert states(store, before.job_id) == ["QUEUED"]
    assert len(store.events()) == 1


def test_a_later_one_of_many_supersedes_an_earlier_one(store: Store) -> None:
    acks = store.run(enqueue_many, [admitted(subject_key="s"), admitted(subject_key="s")])
    first, second = acks.jobs
    assert second.superseded == (first.job_id,)
    assert states(store, first.job_id, second.job_id) == ["SUPERSEDED", "QUEUED"]


def test_a_full_queue_refuses_and_names_itself(store: Store) -> None:
    put(store, queue="small")
    put(store, queue="small", schedule=LATER)
    with pytest.raises(QueueFull) as refused:
        put(store, queue="small")
    found = refused.value
    assert (found.number, found.code, found.retryable) == (4003, "E_QUEUE_FULL", True)
    assert found.details == {"queue": "small"}
    assert put(store).state == "QUEUED", "another queue is not full"


def test_a_full_queue_takes_what_does_not_make_it_fuller(store: Store) -> None:
    first = put(store, queue="small", subject_key="s", generation=5)
    put(store, queue="small", idempotency_key="k")
    newer = put(store, queue="small", subject_key="s", generation=6)
    assert newer.superseded == (first.job_id,)
    assert put(store, queue="small", subject_key="s", generation=6).existing
    assert put(store, queue="small", subject_key="s", generation=4).state == "SUPERSEDED"
    assert put(store, queue="small", idempotency_key="k").existing


def test_superseding_in_another_queue_makes_no_room_in_this_one(store: Store) -> None:
    """A lane may span queues; only what leaves the full queue makes room in it."""
    put(store, queue="small")
    put(store, queue="small")
    put(store, queue="default", subject_key="s")
    with pytest.raises(QueueFull):
        put(store, queue="small", subject_key="s")


def test_room_comes_back_when_jobs_start_or_end(store: Store) -> None:
    begin(store, queue="small")
    waiting = put(store, queue="small")
    put(store, queue="small")
    stop(store, waiting.job_id)
    assert put(store, queue="small").state == "QUEUED"


def test_a_retry_is_never_refused_by_a_full_queue(store: Store) -> None:
    """max_queued is asked on arrival; what was taken once is not lost for lack of room."""
    claimed = begin(store, queue="small", max_attempts=2, backoff_base_ms=1000)
    put(store, queue="small", schedule=LATER)
    put(store, queue="small", schedule=LATER)
    assert end(store, claimed, BAD) == "SCHEDULED"


def test_an_enqueue_starts_nothing_by_itself(store: Store) -> None:
    ack = put(store)
    assert states(store, ack.job_id) == ["QUEUED"]
    assert [claimed.run.job_id for claimed in claims(store)] == [ack.job_id]
