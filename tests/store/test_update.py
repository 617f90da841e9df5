"""job.update: a waiting job gets another priority, tag, time, payload or environment; all that is refused changes
nothing."""

from typing import Any

import msgspec
import pytest

from semantica_daemon.environment import REDACTED
from semantica_daemon.errors import HasRun, InvalidParams, NoHandler, NotWaiting, PayloadRefused, Refusal
from semantica_daemon.model.state import TERMINAL
from semantica_daemon.store.writes.update import update
from semantica_daemon.wire.editing import UpdateParams
from tests.builders import Store
from tests.store.steps import (
    BAD,
    COMMAND,
    LATER,
    WHEN_IDLE,
    begin,
    claimed_ids,
    emitted,
    end,
    event_types,
    make,
    put,
    states,
    tick,
)


def updated(store: Store, job_id: str, **changes: Any) -> dict[str, Any]:
    assert store.run(update, msgspec.convert({"job_id": job_id, **changes}, UpdateParams)) == job_id
    return store.job(job_id)


def facts(store: Store) -> Any:
    return msgspec.json.decode(store.events()[-1]["payload"])


def test_a_queued_job_goes_to_the_back_of_its_new_priority(store: Store) -> None:
    first, second, third = (put(store, priority=priority).job_id for priority in (0, 5, 5))
    assert updated(store, first, priority=5)["priority"] == 5
    assert facts(store) == {"priority": 5, "changed": ["priority"]}
    assert claimed_ids(store) == [second, third]
    assert event_types(store, first) == ["job.queued", "job.updated"]


def test_a_queued_job_with_a_higher_priority_starts_first(store: Store) -> None:
    put(store)
    last = put(store, queue="other").job_id
    updated(store, last, priority=1)
    assert claimed_ids(store)[0] == last


def test_the_priority_that_it_has_already_leaves_it_in_its_place(store: Store) -> None:
    first, _ = put(store, queue="one").job_id, put(store, queue="one").job_id
    before = store.job(first)
    assert updated(store, first, priority=0) == before
    assert claimed_ids(store) == [first]


def test_a_scheduled_job_has_its_priority_when_it_is_due(store: Store) -> None:
    later = put(store, schedule=LATER, queue="one").job_id
    put(store, queue="one")
    updated(store, later, priority=7)
    tick(store, 5000)
    assert claimed_ids(store) == [later]


def test_a_tag_is_set_and_removed(store: Store) -> None:
    job_id = put(store, user_tag="old").job_id
    assert updated(store, job_id, user_tag="new")["user_tag"] == "new"
    assert store.events()[-1]["user_tag"] == "new"
    assert updated(store, job_id, user_tag=None)["user_tag"] is None
    assert updated(store, job_id, priority=3)["user_tag"] is None


def test_a_queued_job_that_is_given_a_time_waits_for_it(store: Store) -> None:
    job_id = put(store, ttl_ms=50).job_id
    job = updated(store, job_id, scheduled_at=store.now + 1000)
    assert (job["state"], job["schedule_type"], job["scheduled_at"]) == ("SCHEDULED", "AT", store.now + 1000)
    assert event_types(store, job_id) == ["job.queued", "job.updated", "job.scheduled"]
    assert claimed_ids(store) == []
    assert tick(store, 999) == store.now + 1
    assert states(store, job_id) == ["SCHEDULED"]
    tick(store, 1)
    assert claimed_ids(store) == [job_id]


def test_a_queued_job_that_is_due_already_stays_in_its_place(store: Store) -> None:
    first, second = put(store, queue="one").job_id, put(store, queue="one").job_id
    before = store.job(first)
    assert updated(store, first, scheduled_at=store.now - 5) == before
    assert claimed_ids(store) == [first]
    assert states(store, second) == ["QUEUED"]


def test_a_scheduled_job_gets_another_time(store: Store) -> None:
    job_id = put(store, schedule=LATER).job_id
    assert updated(store, job_id, scheduled_at=store.now + 9000)["is_delay"] == 0
    tick(store, 5000)
    assert states(store, job_id) == ["SCHEDULED"]
    assert updated(store, job_id, scheduled_at=0)["state"] == "QUEUED"
    assert event_types(store, job_id) == ["job.scheduled", "job.updated", "job.updated", "job.queued"]


def test_a_time_does_not_open_the_other_gates(store: Store) -> None:
    event = put(store, schedule={"type": "CONDITION", "wait_for_event": "e"}).job_id
    idle = put(store, schedule=WHEN_IDLE).job_id
    for job_id in (event, idle):
        assert updated(store, job_id, scheduled_at=0)["schedule_type"] == "CONDITION"
    assert states(store, event, idle) == ["SCHEDULED", "SCHEDULED"]
    emitted(store, "e")
    store.machine(idle=True)
    tick(store)
    assert states(store, event, idle) == ["QUEUED", "QUEUED"]


def test_the_next_attempt_comes_earlier(store: Store) -> None:
    claimed = begin(store, max_attempts=2, backoff_base_ms=60_000)
    end(store, claimed, BAD)
    updated(store, claimed.run.job_id, scheduled_at=store.now)
    assert claimed_ids(store) == [claimed.run.job_id]


def test_a_job_makes_room_in_its_lane_while_it_waits_for_its_time(store: Store) -> None:
    running = begin(store, subject_key="s")
    newer = put(store, subject_key="s").job_id
    updated(store, newer, scheduled_at=store.now + 100)
    end(store, running)
    tick(store, 100)
    assert claimed_ids(store) == [newer]


def test_a_new_payload_is_what_is_run(store: Store) -> None:
    job_id = put(store, "cmd", **COMMAND).job_id
    payload = {"argv": ["false"], "cwd": "/"}
    assert msgspec.json.decode(updated(store, job_id, payload=payload)["payload"]) == payload
    assert facts(store) == {"changed": ["payload"]}
    (claimed,) = store.claim()
    assert msgspec.json.decode(claimed.payload) == payload


@pytest.mark.parametrize("payload", [{"argv": []}, {"argv": ["x"], "cwd": "relative"}, {"argv": ["\0"]}, {}])
def test_a_payload_is_checked_as_at_enqueue(store: Store, payload: dict[str, Any]) -> None:
    job_id = put(store, "cmd", **COMMAND).job_id
    before = store.job(job_id)
    with pytest.raises(Refusal) as refused:
        updated(store, job_id, payload=payload)
    assert "payload" in refused.value.details["path"]
    assert store.job(job_id) == before


def test_the_payload_of_a_handler_is_checked_by_its_type(store: Store) -> None:
    job_id = put(store, "semantica.sleep", payload={"ms": 1}).job_id
    with pytest.raises(PayloadRefused):
        updated(store, job_id, payload={"ms": "long"})
    updated(store, job_id, payload={"ms": 2})


def test_variables_are_replaced_and_secrets_go_to_memory_only(store: Store) -> None:
    job_id = put(store, "cmd", **COMMAND, env_vars={"A": "1", "OLD_TOKEN": "x", "KEPT_TOKEN": "y"}).job_id
    job = updated(store, job_id, env_vars={"B": "2", "NEW_TOKEN": "z", "KEPT_TOKEN": REDACTED})
    assert msgspec.json.decode(job["env_vars"]) == {"B": "2", "NEW_TOKEN": REDACTED, "KEPT_TOKEN": REDACTED}
    assert store.committed is not None
    assert store.committed.secrets == [(job_id, {"NEW_TOKEN": "z"}, ("OLD_TOKEN",))]
    assert facts(store) == {"changed": ["env_vars"]}
    assert updated(store, job_id, env_vars={})["env_vars"] is None


def test_a_secret_that_came_along_with_the_environment_stays(store: Store) -> None:
    job_id = put(store, "cmd", **COMMAND, environment={"A_TOKEN": "1"}, env_vars={"A_TOKEN": "2"}).job_id
    updated(store, job_id, env_vars={})
    assert store.committed is not None
    assert store.committed.secrets == [(job_id, {}, ())]


def test_a_handler_takes_no_variables(store: Store) -> None:
    job_id = put(store).job_id
    with pytest.raises(PayloadRefused) as refused:
        updated(store, job_id, env_vars={"A": "1"})
    assert refused.value.details["path"] == "$.env_vars"


@pytest.mark.parametrize("change", [{"payload": {"argv": ["false"]}}, {"env_vars": {"A": "1"}}])
def test_a_job_that_has_run_keeps_its_payload_and_variables(store: Store, change: dict[str, Any]) -> None:
    claimed = begin(store, job_type="cmd", max_attempts=2, **COMMAND)
    end(store, claimed, BAD)
    job_id = claimed.run.job_id
    before = store.job(job_id)
    with pytest.raises(HasRun) as refused:
        updated(store, job_id, **change, priority=5)
    assert refused.value.number == 4002
    assert store.job(job_id) == before
    assert updated(store, job_id, priority=5)["priority"] == 5


@pytest.mark.parametrize("state", ["RUNNING", *TERMINAL])
def test_only_waiting_jobs_are_changed(store: Store, state: str) -> None:
    job_id = make(store, state).job_id
    before = store.job(job_id)
    with pytest.raises(NotWaiting) as refused:
        updated(store, job_id, priority=3)
    assert (refused.value.number, bool(refused.value.hint)) == (4002, True)
    assert store.job(job_id) == before


def test_nothing_to_change_is_refused(store: Store) -> None:
    job_id = put(store).job_id
    with pytest.raises(InvalidParams):
        updated(store, job_id)


def test_a_handler_that_is_gone_is_reported(store: Store) -> None:
    job_id = put(store).job_id
    store.connection.execute("UPDATE jobs SET job_type = 'gone' WHERE id = ?", (job_id,))
    with pytest.raises(NoHandler):
        updated(store, job_id, payload={"a": 1})
