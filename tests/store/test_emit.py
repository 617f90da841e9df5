"""event.emit: what waits for the event is latched, once and for good, and counts from the job's creation on."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from semantica_daemon.errors import InvalidParams
from semantica_daemon.store.writes import emit as verb
from semantica_daemon.store.writes.emit import Emit, EmitPart, emit
from semantica_daemon.store.writes.enqueue import enqueue_many
from tests.builders import NOW, Store, admitted
from tests.store import invariants
from tests.store.steps import BAD, claimed_ids, claims, emitted, end, event_types, put, states, stop, tick


def waits(store: Store, wait_for_event: str | None = None, **conditions: str) -> str:
    schedule: dict[str, Any] = {"type": "CONDITION"}
    if wait_for_event is not None:
        schedule["wait_for_event"] = wait_for_event
    if conditions:
        schedule["conditions"] = conditions
    return put(store, schedule=schedule).job_id


def conditions(store: Store, job_id: str) -> dict[str, tuple[int | None, int]]:
    """key → (met_at, waiting)"""
    rows = store.rows("SELECT * FROM job_conditions WHERE job_id = ? AND key NOT LIKE 'semantica:%'", job_id)
    return {row["key"]: (row["met_at"], row["waiting"]) for row in rows}


@pytest.mark.parametrize("value", [None, "", "abc"])
def test_an_event_is_matched_by_its_key_whatever_its_value(store: Store, value: str | None) -> None:
    waiting, other = waits(store, "git:commit"), waits(store, "git:checkout")
    store.now += 5
    assert emitted(store, "git:commit", value) == [waiting]
    assert store.job(waiting)["event_met_at"] == NOW + 5
    tick(store)
    assert states(store, waiting, other) == ["QUEUED", "SCHEDULED"]


@pytest.mark.parametrize(
    ("key", "value", "matches"),
    [("a", "1", True), ("a", "2", False), ("b", "1", False), ("a", None, False), ("a", "", False), ("A", "1", False)],
)
def test_a_condition_is_matched_by_key_and_value(store: Store, key: str, value: str | None, matches: bool) -> None:
    waiting = waits(store, a="1")
    store.now += 5
    assert emitted(store, key, value) == ([waiting] if matches else [])
    assert conditions(store, waiting) == {"a": (NOW + 5, 0) if matches else (None, 1)}
    tick(store)
    assert states(store, waiting) == ["QUEUED" if matches else "SCHEDULED"]


def test_a_condition_on_the_empty_value_is_met_by_that_and_not_by_none(store: Store) -> None:
    waiting = waits(store, a="")
    assert emitted(store, "a") == []
    assert emitted(store, "a", "") == [waiting]


def test_one_event_may_meet_both_of_a_job_which_is_named_once(store: Store) -> None:
    both = waits(store, "e", e="1")
    assert emitted(store, "e", "1") == [both]
    assert store.job(both)["unmet"] == 0
    assert event_types(store, both) == ["job.scheduled", "job.log", "job.log", "job.queued"]
    assert states(store, both) == ["QUEUED"]


def test_all_of_them_have_to_come_in_any_order(store: Store) -> None:
    job_id = waits(store, "e", a="1", b="2")
    for key, value in (("b", "2"), ("e", None), ("a", "1")):
        tick(store, 1)
        assert states(store, job_id) == ["SCHEDULED"]
        assert emitted(store, key, value) == [job_id]
    assert conditions(store, job_id) == {"a": (NOW + 3, 0), "b": (NOW + 1, 0)}
    assert states(store, job_id) == ["QUEUED"]


def test_it_never_counts_backwards(store: Store) -> None:
    assert emitted(store, "e", "1") == []
    event, condition = waits(store, "e"), waits(store, e="1")
    tick(store, 1000)
    assert states(store, event, condition) == ["SCHEDULED", "SCHEDULED"]


def test_a_match_is_latched_once(store: Store) -> None:
    event, condition = waits(store, "e"), waits(store, a="1", b="2")
    assert emitted(store, "e") == [event]
    assert emitted(store, "a", "1") == [condition]
    store.now += 5
    assert (emitted(store, "e"), emitted(store, "a", "1")) == ([], [])
    assert store.job(event)["event_met_at"] == NOW
    assert (conditions(store, condition), store.job(condition)["unmet"]) == ({"a": (NOW, 0), "b": (None, 1)}, 1)


def test_a_match_outlives_a_restart(forged: Store) -> None:
    job_id = waits(forged, "e", a="1")
    emitted(forged, "e")
    forged.close()
    again = Store(forged.path)
    assert emitted(again, "a", "1") == [job_id]
    tick(again)
    assert states(again, job_id) == ["QUEUED"]
    invariants.check(again)
    again.close()


def test_what_has_come_holds_for_every_attempt(store: Store) -> None:
    job_id = put(store, max_attempts=2, schedule={"type": "CONDITION", "wait_for_event": "e"}).job_id
    emitted(store, "e")
    tick(store)
    (claimed,) = claims(store)
    assert end(store, claimed, BAD) == "SCHEDULED"
    assert emitted(store, "e") == []
    tick(store, 2000)
    assert claimed_ids(store) == [job_id]


def test_a_time_has_to_come_as_well(store: Store) -> None:
    job_id = put(store, schedule={"type": "AFTER", "delay_ms": 50, "wait_for_event": "e"}).job_id
    assert store.committed is not None
    assert store.committed.due is None, "nothing to look at before the event"
    assert emitted(store, "e") == [job_id]
    assert store.committed.due == NOW + 50
    tick(store, 49)
    assert states(store, job_id) == ["SCHEDULED"]
    tick(store, 1)
    assert states(store, job_id) == ["QUEUED"]


def test_the_commit_that_opens_the_last_gate_makes_the_job_queued(store: Store) -> None:
    job_id = waits(store, "e", a="1")
    emitted(store, "e")
    assert states(store, job_id) == ["SCHEDULED"]
    emitted(store, "a", "1")
    assert states(store, job_id) == ["QUEUED"]


def test_a_job_whose_gates_are_open_still_waits_for_the_machine(store: Store) -> None:
    job_id = put(store, schedule={"type": "CONDITION", "wait_for_event": "e", "wait_for_idle": True}).job_id
    emitted(store, "e")
    assert states(store, job_id) == ["SCHEDULED"]
    store.machine(idle=True)
    tick(store)
    assert states(store, job_id) == ["QUEUED"]


@pytest.mark.parametrize("key", ["semantica:turn:x", "job:1f3a"])
def test_the_daemon_s_own_keys_cannot_be_emitted(store: Store, key: str) -> None:
    with pytest.raises(InvalidParams, match="only the daemon"):
        emitted(store, key)


@pytest.mark.parametrize("how", ["cancelled", "superseded", "deadline"])
def test_what_has_ended_waits_no_longer(store: Store, how: str) -> None:
    schedule = {"type": "CONDITION", "wait_for_event": "e", "conditions": {"a": "1", "b": "2"}}
    job_id = put(store, subject_key="s", deadline=NOW + 10, schedule=schedule).job_id
    emitted(store, "a", "1")
    if how == "cancelled":
        stop(store, job_id)
    elif how == "superseded":
        put(store, subject_key="s")
    else:
        tick(store, 10)
    ended = store.job(job_id)
    assert ended["finished_at"] is not None
    assert conditions(store, job_id) == {"a": (NOW, 0), "b": (None, 0)}
    assert (emitted(store, "e"), emitted(store, "b", "2")) == ([], [])
    assert store.job(job_id) == ended


def test_a_job_that_came_too_late_for_its_lane_never_waits(store: Store) -> None:
    put(store, subject_key="s", generation=5)
    late = put(store, subject_key="s", generation=4, schedule={"type": "CONDITION", "conditions": {"a": "1"}})
    assert late.state == "SUPERSEDED"
    assert conditions(store, late.job_id) == {"a": (None, 0)}
    assert emitted(store, "a", "1") == []


def test_an_event_is_told_before_what_it_has_met(store: Store) -> None:
    job_id = waits(store, "e", a="1")
    emitted(store, "e", "x")
    said, met = store.events()[-2:]
    assert (said["event_type"], said["job_id"], said["message"]) == ("event.emitted", None, "event e=x")
    assert msgspec.json.decode(said["payload"]) == {"key": "e", "value": "x"}
    assert (met["event_type"], met["job_id"]) == ("job.log", job_id)
    assert msgspec.json.decode(met["payload"]) == {"key": "e", "value": "x", "still_waits_for": 1}


def test_an_event_nobody_waits_for_is_told_too(store: Store) -> None:
    assert emitted(store, "e") == []
    assert [event["message"] for event in store.events()] == ["event e"]


def test_a_crowd_is_matched_in_parts_and_nobody_twice(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "MOST", 3)
    by_key = [waits(store, "e") for _ in range(7)]
    by_value = [waits(store, e="1") for _ in range(5)]
    matched = emitted(store, "e", "1")
    assert sorted(matched) == sorted(by_key + by_value)
    assert [event["event_type"] for event in store.events()].count("event.emitted") == 1
    tick(store)
    assert set(states(store, *by_key, *by_value)) == {"QUEUED"}


def test_the_oldest_are_matched_first(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "MOST", 2)
    jobs = [waits(store, "e") for _ in range(4)]
    part: EmitPart = store.run(emit, Emit("e"))
    assert (sorted(part.matched), part.more) == (sorted(jobs[:2]), True)


def test_a_part_that_goes_on_passes_over_what_came_after_the_event(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verb, "MOST", 2)
    before = [waits(store, "e"), waits(store, "e"), waits(store, e="1")]
    part: EmitPart = store.run(emit, Emit("e", "1"))
    younger = [waits(store, "e"), waits(store, e="1")]
    rest: EmitPart = store.run(emit, Emit("e", "1", part.newest))
    assert sorted(part.matched + rest.matched) == sorted(before)
    assert states(store, *younger) == ["SCHEDULED", "SCHEDULED"]
    assert not rest.more


def test_as_many_as_one_commit_may_hold_are_one_part(tmp_path: Path) -> None:
    store = Store(tmp_path / "meta.db")
    specs = [admitted(schedule={"type": "CONDITION", "wait_for_event": "e"}) for _ in range(verb.MOST + 1)]
    store.run(enqueue_many, specs)
    part: EmitPart = store.run(emit, Emit("e"))
    assert (len(part.matched), part.more) == (verb.MOST, True)
    rest: EmitPart = store.run(emit, Emit("e", newest=part.newest))
    assert (len(rest.matched), rest.more) == (1, False)
    store.close()
