"""job.hold and job.release: a held job is SCHEDULED behind one more gate, and comes to the back when it is released."""

from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.model.outcome import CRASHED
from semantica_daemon.model.selection import Lists
from semantica_daemon.model.state import TERMINAL
from semantica_daemon.store.writes.hold import hold, release
from tests.builders import Store
from tests.store import invariants
from tests.store.steps import (
    BAD,
    LATER,
    WHEN_IDLE,
    begin,
    claimed_ids,
    emitted,
    end,
    event_types,
    make,
    portion,
    put,
    states,
    stop,
    tick,
)
from tests.store.workers import registered, taken_ids


def held(store: Store, *job_ids: str, **fields: Any) -> Lists:
    found: Lists = store.run(hold, portion(store, *job_ids, **fields))
    return found


def released(store: Store, *job_ids: str, **fields: Any) -> Lists:
    found: Lists = store.run(release, portion(store, *job_ids, **fields))
    return found


def test_a_queued_job_is_held_and_released(store: Store) -> None:
    job_id = put(store).job_id
    assert held(store, job_id) == {"changed": [job_id]}
    job = store.job(job_id)
    assert (job["state"], job["held_at"], job["unmet"]) == ("SCHEDULED", store.now, 1)
    assert claimed_ids(store) == []
    assert tick(store, 60_000) is None
    assert released(store, job_id) == {"changed": [job_id]}
    assert (store.job(job_id)["held_at"], store.job(job_id)["state"]) == (None, "QUEUED")
    assert claimed_ids(store) == [job_id]
    assert event_types(store, job_id)[:4] == ["job.queued", "job.held", "job.released", "job.queued"]


def test_a_job_can_be_held_again(store: Store) -> None:
    job_id = put(store).job_id
    for _ in range(2):
        held(store, job_id)
        released(store, job_id)
    held(store, job_id)
    assert states(store, job_id) == ["SCHEDULED"]


def test_holding_twice_and_releasing_what_is_not_held_change_nothing(store: Store) -> None:
    job_id = put(store).job_id
    assert released(store, job_id) == {"unchanged": [job_id]}
    held(store, job_id)
    before = store.job(job_id)
    store.now += 5
    assert held(store, job_id) == {"unchanged": [job_id]}
    assert store.job(job_id) == before


@pytest.mark.parametrize("state", ["RUNNING", *TERMINAL])
def test_what_runs_or_has_ended_is_left_alone(store: Store, state: str) -> None:
    job_id = make(store, state).job_id
    before = store.job(job_id)
    assert held(store, job_id) == {"unchanged": [job_id]}
    assert released(store, job_id) == {"unchanged": [job_id]}
    assert store.job(job_id) == before


def test_a_released_job_goes_to_the_back_of_its_priority(store: Store) -> None:
    first, second = put(store, queue="one").job_id, put(store, queue="one").job_id
    held(store, first)
    released(store, first)
    assert claimed_ids(store) == [second]


def test_a_released_job_goes_on_waiting_for_its_time(store: Store) -> None:
    job_id = put(store, schedule=LATER).job_id
    held(store, job_id)
    tick(store, 1000)
    released(store, job_id)
    assert states(store, job_id) == ["SCHEDULED"]
    tick(store, 4000)
    assert states(store, job_id) == ["QUEUED"]


def test_a_time_that_came_while_it_was_held_is_not_waited_for_again(store: Store) -> None:
    job_id = put(store, schedule=LATER).job_id
    held(store, job_id)
    tick(store, 9000)
    assert states(store, job_id) == ["SCHEDULED"]
    released(store, job_id)
    assert states(store, job_id) == ["QUEUED"]


def test_events_count_while_it_is_held(store: Store) -> None:
    job_id = put(store, schedule={"type": "CONDITION", "wait_for_event": "e", "conditions": {"c": "1"}}).job_id
    held(store, job_id)
    assert emitted(store, "e") == [job_id]
    released(store, job_id)
    assert states(store, job_id) == ["SCHEDULED"]
    emitted(store, "c", "1")
    assert states(store, job_id) == ["QUEUED"]


def test_a_held_job_needs_no_machine_and_waits_for_it_again_when_released(store: Store) -> None:
    job_id = put(store, schedule=WHEN_IDLE).job_id
    held(store, job_id)
    store.machine(idle=True)
    tick(store)
    assert states(store, job_id) == ["SCHEDULED"]
    released(store, job_id)
    assert states(store, job_id) == ["QUEUED"]


def test_the_deadline_of_a_held_job_passes_and_its_ttl_does_not(store: Store) -> None:
    late = put(store, deadline=store.now + 100).job_id
    patient = put(store, ttl_ms=100).job_id
    held(store, late, patient)
    tick(store, 1000)
    assert states(store, late, patient) == ["SKIPPED_DEADLINE", "SCHEDULED"]
    released(store, patient)
    assert store.job(patient)["expires_at"] == store.now + 100
    tick(store, 100)
    assert states(store, patient) == ["SKIPPED_TTL"]


def test_a_newer_generation_supersedes_a_held_job_and_is_not_held(store: Store) -> None:
    older = put(store, subject_key="s").job_id
    held(store, older)
    newer = put(store, subject_key="s")
    assert newer.superseded == (older,)
    assert claimed_ids(store) == [newer.job_id]


def test_a_held_job_makes_room_in_its_lane_and_takes_it_in_turn(store: Store) -> None:
    running = begin(store, subject_key="s")
    newer = put(store, subject_key="s").job_id
    assert store.job(newer)["blocked_by"] is not None
    held(store, newer)
    end(store, running)
    assert claimed_ids(store) == []
    released(store, newer)
    assert claimed_ids(store) == [newer]


def test_a_debounced_job_that_is_held_still_waits_until_its_lane_is_quiet(store: Store) -> None:
    job_id = put(store, subject_key="s", debounce_ms=1000).job_id
    held(store, job_id)
    tick(store, 500)
    released(store, job_id)
    assert states(store, job_id) == ["SCHEDULED"]
    tick(store, 500)
    assert states(store, job_id) == ["QUEUED"]


def test_a_job_that_waits_for_its_next_attempt_can_be_held(store: Store) -> None:
    claimed = begin(store, max_attempts=2, backoff_base_ms=100)
    end(store, claimed, BAD)
    job_id = claimed.run.job_id
    held(store, job_id)
    tick(store, 1000)
    assert claimed_ids(store) == []
    released(store, job_id)
    assert claimed_ids(store) == [job_id]


def test_a_child_of_a_held_parent_waits(store: Store) -> None:
    parent = put(store, hold=True).job_id
    child = put(store, parents=[parent]).job_id
    tick(store, 1000)
    assert states(store, parent, child) == ["SCHEDULED", "SCHEDULED"]
    released(store, parent)
    (claimed,) = store.claim()
    end(store, claimed)
    assert states(store, child) == ["QUEUED"]


def test_a_held_child_waits_for_its_parent_and_for_its_release(store: Store) -> None:
    parent = begin(store)
    child = put(store, parents=[parent.run.job_id], hold=True).job_id
    end(store, parent)
    assert states(store, child) == ["SCHEDULED"]
    released(store, child)
    assert states(store, child) == ["QUEUED"]


def test_a_held_job_can_be_cancelled(store: Store) -> None:
    job_id = put(store, hold=True).job_id
    stop(store, job_id)
    assert states(store, job_id) == ["CANCELLED"]
    assert released(store, job_id) == {"unchanged": [job_id]}


def test_a_job_is_created_held(store: Store) -> None:
    ack = put(store, hold=True)
    job = store.job(ack.job_id)
    assert (ack.state, job["held_at"], job["unmet"]) == ("SCHEDULED", store.now, 1)
    assert event_types(store, ack.job_id) == ["job.scheduled"]
    tick(store, 1000)
    assert claimed_ids(store) == []
    released(store, ack.job_id)
    assert claimed_ids(store) == [ack.job_id]


def test_a_job_that_comes_too_late_is_superseded_not_held(store: Store) -> None:
    put(store, subject_key="s", generation=5)
    late = put(store, subject_key="s", generation=3, hold=True)
    assert late.state == "SUPERSEDED"
    assert store.job(late.job_id)["held_at"] is None


def test_a_whole_queue_is_held_and_released(store: Store) -> None:
    mine = [put(store, queue="x").job_id, put(store, queue="x", schedule=LATER).job_id]
    other = put(store, queue="y").job_id
    assert held(store, queue="x") == {"changed": mine}
    assert claimed_ids(store) == [other]
    assert released(store, queue="x") == {"changed": mine}


def test_a_held_job_stays_held_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path / "meta.db")
    job_id = put(store, priority=5).job_id
    held(store, job_id)
    store.close()
    again = Store(tmp_path / "meta.db")
    tick(again, 60_000)
    assert claimed_ids(again) == []
    released(again, job_id)
    assert claimed_ids(again) == [job_id]
    invariants.check(again)
    again.close()


def test_the_job_of_an_external_worker_is_held_and_released(store: Store) -> None:
    worker = registered(store)
    job_id = put(store, "t", execution_mode="EXTERNAL").job_id
    held(store, job_id)
    assert taken_ids(store, worker) == []
    released(store, job_id)
    assert taken_ids(store, worker) == [job_id]


def test_an_append_job_that_has_started_keeps_its_turn_while_it_is_held(store: Store) -> None:
    first = begin(store, subject_key="s", supersede="append", on_interrupt="requeue")
    second = put(store, subject_key="s", supersede="append").job_id
    end(store, first, CRASHED)
    assert states(store, first.run.job_id) == ["QUEUED"]
    held(store, first.run.job_id)
    assert claimed_ids(store) == []
    released(store, first.run.job_id)
    (again,) = store.claim()
    assert again.run.job_id == first.run.job_id
    end(store, again)
    assert claimed_ids(store) == [second]
