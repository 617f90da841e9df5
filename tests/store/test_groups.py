"""Groups: how many of their jobs run at once, and what the failure of one ends."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.errors import GroupExists, InvalidParams, ParentEnded
from semantica_daemon.store.writes import groups
from semantica_daemon.store.writes.groups import create
from semantica_daemon.store.writes.retry import retry
from semantica_daemon.wire.group import CreateGroupParams, GroupAck
from semantica_daemon.wire.job import RetryParams
from tests.builders import Store
from tests.store import invariants
from tests.store.steps import BAD, GOOD, HOPELESS, LATER, begin, claimed_ids, claims, end, put, states, stop, tick


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[Store]:
    """Eight slots."""
    store = Store(tmp_path / "meta.db", slots=8)
    yield store
    invariants.check(store)
    store.close()


def members(store: Store, count: int, group: str = "g", **spec: Any) -> list[str]:
    return [put(store, chain_group_id=group, **spec).job_id for _ in range(count)]


def made(store: Store, **policy: Any) -> GroupAck:
    ack: GroupAck = store.run(create, CreateGroupParams(**{"chain_group_id": "g", **policy}))
    return ack


def settle(store: Store) -> int:
    """Runs passes until nothing is left to be stopped; the number of them."""
    passes = 0
    while store.database._rooms.stopping:
        tick(store)
        passes += 1
    return passes


def test_a_label_alone_limits_nothing(wide: Store) -> None:
    ids = members(wide, 4)
    assert claimed_ids(wide) == ids


def test_no_more_members_run_than_max_parallel(wide: Store) -> None:
    made(wide, max_parallel=2)
    ids = members(wide, 2) + members(wide, 2, queue="other", priority=5)
    first = claims(wide)
    assert [one.run.job_id for one in first] == ids[2:]
    assert claims(wide) == []
    end(wide, first[0], HOPELESS)
    assert claimed_ids(wide) == ids[:1]


def test_a_full_group_holds_back_no_other_job(wide: Store) -> None:
    made(wide, max_parallel=1)
    ids = members(wide, 3, priority=9)
    other = put(wide).job_id
    assert claimed_ids(wide) == [ids[0], other]


def test_a_sequential_group_runs_one_member_at_a_time_in_the_order_of_the_queue(wide: Store) -> None:
    made(wide, mode="sequential")
    ids = members(wide, 3)
    (urgent,) = members(wide, 1, priority=1)
    order = []
    for _ in range(4):
        (running,) = claims(wide)
        order.append(running.run.job_id)
        end(wide, running, HOPELESS)
    assert order == [urgent, *ids], "a failed member lets the next one start"


def test_a_member_of_a_sequential_group_keeps_its_turn_between_its_attempts(wide: Store) -> None:
    made(wide, mode="sequential")
    first = begin(wide, chain_group_id="g", max_attempts=2, backoff_base_ms=1000)
    (second,) = members(wide, 1)
    end(wide, first, BAD)
    assert claims(wide) == []
    again = Store(wide.path, slots=8, seed=1)
    again.now = wide.now
    assert claims(again) == [], "also after a restart"
    tick(again, 2000)
    (running,) = claims(again)
    assert running.run.job_id == first.run.job_id
    end(again, running, BAD)
    assert claimed_ids(again) == [second]
    invariants.check(again)
    again.close()
    wide.database._load()


def test_a_cancelled_member_gives_its_turn_to_the_next(wide: Store) -> None:
    made(wide, mode="sequential")
    first = begin(wide, chain_group_id="g", max_attempts=2, backoff_base_ms=1000)
    (second,) = members(wide, 1)
    end(wide, first, BAD)
    stop(wide, first.run.job_id)
    assert claimed_ids(wide) == [second]


def test_jobs_that_are_there_before_the_group_is_created_are_members(wide: Store) -> None:
    ids = members(wide, 3)
    running = claims(wide)
    members(wide, 2)
    made(wide, max_parallel=2)
    assert claims(wide) == []
    for one in running[:2]:
        end(wide, one)
    assert len(claims(wide)) == 1
    assert states(wide, *ids) == ["DONE", "DONE", "RUNNING"]


def test_stop_cancels_the_members_that_have_not_started(wide: Store) -> None:
    made(wide, on_failure="stop", max_parallel=2)
    failing, running = (begin(wide, chain_group_id="g") for _ in range(2))
    waiting = members(wide, 2) + members(wide, 1, schedule=LATER)
    other = put(wide).job_id
    end(wide, failing, HOPELESS)
    assert states(wide, *waiting) == ["CANCELLED"] * 3
    assert claimed_ids(wide) == [other]
    end(wide, running)
    (row,) = wide.rows("SELECT * FROM groups")
    assert (row["stopped_upto"], row["stopped_by"]) == (None, failing.run.job_id)
    (event,) = [one for one in wide.events() if one["job_id"] == waiting[0] and one["event_type"] == "job.cancelled"]
    assert failing.run.job_id in event["message"]


def test_a_member_that_is_added_after_the_stop_runs(wide: Store) -> None:
    made(wide, on_failure="stop")
    failing = begin(wide, chain_group_id="g")
    end(wide, failing, HOPELESS)
    added = put(wide, chain_group_id="g")
    assert added.warnings == (
        f"group g was stopped when job {failing.run.job_id[:8]} failed; this job runs all the same",
    )
    assert put(wide, chain_group_id="h").warnings == ()
    assert claimed_ids(wide)[:1] == [added.job_id]
    again = wide.run(retry, RetryParams(failing.run.job_id))
    assert claimed_ids(wide) == [again.job_id]


def test_an_attempt_that_is_repeated_stops_nothing(wide: Store) -> None:
    made(wide, on_failure="stop")
    failing = begin(wide, chain_group_id="g", max_attempts=2)
    (waiting,) = members(wide, 1)
    end(wide, failing, BAD)
    assert states(wide, waiting) == ["QUEUED"]


AFTER_A_FAILURE = {  # what becomes of a child of the failed member, the child's child, and another member
    "stop": ["CANCELLED", "CANCELLED", "CANCELLED"],
    "skip": ["CANCELLED", "CANCELLED", "QUEUED"],
    "continue": ["QUEUED", "SCHEDULED", "QUEUED"],
    None: ["CANCELLED", "CANCELLED", "QUEUED"],
}


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize("on_failure", AFTER_A_FAILURE)
def test_on_failure_says_which_members_a_failure_ends(wide: Store, mode: str, on_failure: str | None) -> None:
    made(wide, mode=mode, **({"on_failure": on_failure} if on_failure else {}))
    failing = begin(wide, chain_group_id="g")
    child = put(wide, chain_group_id="g", parent_job_id=failing.run.job_id).job_id
    grandchild = put(wide, chain_group_id="g", parent_job_id=child).job_id
    (other,) = members(wide, 1)
    end(wide, failing, HOPELESS)
    tick(wide)
    assert states(wide, child, grandchild, other) == AFTER_A_FAILURE[on_failure]


def test_continue_runs_a_sequential_group_to_its_end(wide: Store) -> None:
    made(wide, mode="sequential", on_failure="continue")
    first = put(wide, chain_group_id="g").job_id
    child = put(wide, chain_group_id="g", parent_job_id=first).job_id
    (other,) = members(wide, 1)
    order = []
    for _ in range(3):
        (running,) = claims(wide)
        order.append(running.run.job_id)
        end(wide, running, HOPELESS)
        tick(wide)
    assert order == [first, other, child], "the child became QUEUED last"
    assert states(wide, *order) == ["FAILED"] * 3


@pytest.mark.parametrize("spec", [{}, {"chain_group_id": "h"}])
def test_continue_is_about_parents_of_the_same_group(wide: Store, spec: dict[str, str]) -> None:
    made(wide, on_failure="continue")
    made(wide, on_failure="continue", chain_group_id="h")
    failing = begin(wide, chain_group_id="g")
    outside = put(wide, parent_job_id=failing.run.job_id, **spec).job_id
    end(wide, failing, HOPELESS)
    tick(wide)
    assert states(wide, outside) == ["CANCELLED"]
    with pytest.raises(ParentEnded):
        put(wide, parent_job_id=failing.run.job_id, **spec)


def test_continue_takes_a_parent_that_has_failed_already_but_none_that_was_cancelled(wide: Store) -> None:
    made(wide, on_failure="continue")
    failing = begin(wide, chain_group_id="g")
    end(wide, failing, HOPELESS)
    cancelled = put(wide, chain_group_id="g").job_id
    child = put(wide, chain_group_id="g", parent_job_id=cancelled).job_id
    stop(wide, cancelled)
    tick(wide)
    assert states(wide, child) == ["CANCELLED"]
    assert put(wide, chain_group_id="g", parents=[failing.run.job_id]).state == "QUEUED"
    with pytest.raises(ParentEnded):
        put(wide, chain_group_id="g", parents=[failing.run.job_id, cancelled])


def test_continue_does_not_change_the_meaning_of_a_condition(wide: Store) -> None:
    made(wide, on_failure="continue")
    failing = begin(wide, chain_group_id="g")
    condition = {f"job:{failing.run.job_id}": "DONE"}
    waiting = put(wide, chain_group_id="g", schedule={"type": "CONDITION", "conditions": condition}).job_id
    end(wide, failing, HOPELESS)
    tick(wide)
    assert states(wide, waiting) == ["CANCELLED"]


def test_a_large_group_is_stopped_in_several_transactions(wide: Store) -> None:
    made(wide, on_failure="stop")
    failing = begin(wide, chain_group_id="g")
    ids = members(wide, 120)
    end(wide, failing, HOPELESS)
    cancelled = [one for one in states(wide, *ids) if one == "CANCELLED"]
    assert len(cancelled) == groups.MOST
    assert wide.committed is not None
    assert wide.committed.due == wide.now, "the scheduler goes on at once"
    again = Store(wide.path, slots=8, seed=1)
    again.now = wide.now
    assert settle(again) == 2
    assert states(again, *ids) == ["CANCELLED"] * 120
    again.close()
    wide.database._load()


def test_no_member_starts_while_a_large_group_is_being_stopped(wide: Store) -> None:
    made(wide, on_failure="stop")
    failing = begin(wide, chain_group_id="g")
    ids = members(wide, 3 * groups.MOST)
    end(wide, failing, HOPELESS)
    (later,) = members(wide, 1)
    started = claimed_ids(wide)
    settle(wide)
    assert started == [], "while some are not cancelled yet"
    assert states(wide, *ids) == ["CANCELLED"] * len(ids)
    assert claimed_ids(wide) == [later]


def test_a_group_is_created_once(wide: Store) -> None:
    assert made(wide, mode="sequential").created
    assert not made(wide, mode="sequential").created
    with pytest.raises(GroupExists):
        made(wide, mode="parallel")


def test_a_group_without_a_label_gets_one(wide: Store) -> None:
    first, second = (made(wide, chain_group_id=None) for _ in range(2))
    assert first.created
    assert first.chain_group_id != second.chain_group_id


def test_a_sequential_group_has_no_max_parallel(wide: Store) -> None:
    with pytest.raises(InvalidParams):
        made(wide, mode="sequential", max_parallel=2)
    made(wide, mode="sequential", max_parallel=1)


def test_a_key_and_a_group_both_limit(wide: Store) -> None:
    made(wide, max_parallel=2)
    for key in ("a", "a", "b", "c"):
        put(wide, chain_group_id="g", concurrency_key=key)
    running = claims(wide)
    assert [one.job.concurrency_key for one in running] == ["a", "b"]
    end(wide, running[1], GOOD)
    assert [one.job.concurrency_key for one in claims(wide)] == ["c"]
    end(wide, running[0], GOOD)
    assert [one.job.concurrency_key for one in claims(wide)] == ["a"]
