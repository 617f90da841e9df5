"""Free slots take the next jobs: in order, per queue and under the global limit, never what is paused or too late."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from semantica_daemon.model.queue import QueueRules
from semantica_daemon.store.writes.enqueue import enqueue
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.queues import configure, pause, resume
from semantica_daemon.wire.queue import ConfigureParams, PauseParams, ResumeParams
from tests.builders import NOW, Store, admitted
from tests.store import invariants
from tests.store.steps import (
    BAD,
    GOOD,
    ON_BOTH,
    ON_MAINS,
    WHEN_IDLE,
    begin,
    claimed_ids,
    claims,
    end,
    event_types,
    put,
    runs,
    states,
    stop,
    tick,
)


def test_a_claim_is_running_with_its_run_and_its_event(store: Store) -> None:
    ack = put(store, payload={"a": 1}, timeout_ms=7, grace_ms=8, deadline=NOW + 100, ttl_ms=90)
    store.now += 5
    (claimed,) = claims(store)
    job, (run,) = store.job(ack.job_id), runs(store, ack.job_id)
    assert (claimed.run.job_id, claimed.run.attempt, claimed.run.started_at) == (ack.job_id, 1, NOW + 5)
    assert (claimed.payload, claimed.spec.timeout_ms, claimed.spec.grace_ms, claimed.job.deadline) == (
        '{"a":1}',
        7,
        8,
        NOW + 100,
    )
    assert (job["state"], job["run_id"], job["started_at"], job["attempts"]) == (
        "RUNNING", claimed.run.run_id, NOW + 5, 1,
    )  # fmt: skip
    assert (run["run_id"], run["attempt"], run["status"]) == (claimed.run.run_id, 1, "RUNNING")
    assert (run["params_snapshot"], run["started_at"], run["finished_at"]) == ('{"a":1}', NOW + 5, None)
    assert event_types(store, ack.job_id) == ["job.queued", "job.started"]
    payload = msgspec.json.decode(store.events()[-1]["payload"])
    assert payload == {"run_id": claimed.run.run_id, "attempt": 1}


def test_order_is_priority_then_position(store: Store) -> None:
    low, first, second, high = (put(store, priority=priority) for priority in (-10, 0, 0, 10))
    assert claimed_ids(store) == [high.job_id, first.job_id]
    for running in store.rows("SELECT id FROM jobs WHERE state = 'RUNNING'"):
        stop(store, running["id"])
    assert states(store, second.job_id, low.job_id) == ["QUEUED", "QUEUED"]


def test_equal_positions_fall_back_to_created_at_then_id(forged: Store) -> None:
    jobs = [put(forged).job_id for _ in range(4)]
    forged.connection.execute("UPDATE jobs SET position = 100, created_at = 5")
    forged.connection.execute("UPDATE jobs SET created_at = 4 WHERE id = ?", (jobs[3],))
    expected = [jobs[3], *sorted(jobs[:3])]
    assert claimed_ids(forged) == expected[:2]


def test_what_was_put_back_or_promoted_goes_to_the_end_of_its_priority(store: Store) -> None:
    first = begin(store, max_attempts=2, backoff_base_ms=10)
    end(store, first, BAD)
    second = put(store)
    store.now += 100
    tick(store)
    assert claimed_ids(store) == [second.job_id, first.run.job_id]


def test_never_more_run_than_there_are_slots(store: Store) -> None:
    for _ in range(5):
        put(store)
    first = claims(store)
    assert len(first) == 2
    assert claims(store) == []
    end(store, first[0])
    assert len(claims(store)) == 1


def test_a_queue_has_its_own_slots_under_the_global_limit(tmp_path: Path) -> None:
    rules = {"one": QueueRules(slots=1), "many": QueueRules(slots=50)}
    store = Store(tmp_path / "meta.db", slots=3, queues=rules)
    for queue in ("one", "one", "many", "many", "many"):
        put(store, queue=queue)
    claims(store)
    running = store.rows("SELECT queue, count(*) AS n FROM jobs WHERE state = 'RUNNING' GROUP BY queue ORDER BY queue")
    assert running == [{"queue": "many", "n": 2}, {"queue": "one", "n": 1}]
    invariants.check(store)
    store.close()


def test_when_room_is_short_the_best_of_all_queues_go_first(store: Store) -> None:
    low = put(store, queue="a", priority=0)
    high = put(store, queue="b", priority=5)
    middle = put(store, queue="c", priority=3)
    assert claimed_ids(store) == [high.job_id, middle.job_id]
    assert states(store, low.job_id) == ["QUEUED"]


def test_a_queue_that_waits_never_blocks_another(store: Store) -> None:
    put(store, queue="none", priority=100)
    put(store, queue="paused", priority=100)
    store.run(pause, PauseParams("paused"))
    ready = put(store, queue="default", priority=-100)
    assert claimed_ids(store) == [ready.job_id]


def test_a_job_that_is_not_ready_never_stands_in_front_of_one_that_is(store: Store) -> None:
    begin(store, subject_key="s")
    blocked = put(store, subject_key="s", priority=100)
    ready = [put(store, priority=-5).job_id for _ in range(3)]
    assert claimed_ids(store) == ready[:1]
    assert states(store, blocked.job_id) == ["QUEUED"]


@pytest.mark.parametrize("queue", ["default", None])
def test_nothing_of_a_paused_queue_is_claimed_until_it_resumes(store: Store, queue: str | None) -> None:
    running = begin(store)
    ack = put(store)
    store.run(pause, PauseParams(queue))
    assert claims(store) == []
    assert end(store, running) == "DONE", "what runs goes on"
    store.run(resume, ResumeParams(queue))
    assert claimed_ids(store) == [ack.job_id]


def test_new_slots_are_used_at_once_and_fewer_end_nothing(store: Store) -> None:
    ids = [put(store, queue="none").job_id for _ in range(3)]
    assert claims(store) == []
    store.run(configure, ConfigureParams("none", slots=2), claiming=True)
    assert states(store, *ids) == ["RUNNING", "RUNNING", "QUEUED"]
    store.run(configure, ConfigureParams("none", slots=0), claiming=True)
    assert states(store, *ids) == ["RUNNING", "RUNNING", "QUEUED"]


def test_a_job_starts_in_the_commit_that_queued_it(store: Store) -> None:
    ack = store.run(enqueue, admitted(), claiming=True)
    assert states(store, ack.job_id) == ["RUNNING"]
    assert ack.state == "QUEUED", "the ack tells what the enqueue did"


def test_the_end_of_a_run_and_the_claim_of_the_next_share_a_commit(store: Store) -> None:
    first, second = begin(store, queue="one"), put(store, queue="one")
    store.run(finish, Finish(first.run, GOOD), claiming=True)
    assert store.committed is not None
    assert [claimed.run.job_id for claimed in store.committed.claims] == [second.job_id]
    kinds = [recorded.event.event_type for recorded in store.committed.events]
    assert kinds == ["job.done", "job.started"]


@pytest.mark.parametrize(
    ("limit", "ended"), [({"ttl_ms": 10}, "SKIPPED_TTL"), ({"deadline": NOW + 10}, "SKIPPED_DEADLINE")]
)
def test_what_is_too_late_is_skipped_by_a_claim_that_comes_before_the_timer(
    store: Store, limit: dict[str, Any], ended: str
) -> None:
    late = put(store, **limit)
    ready = put(store, priority=-1)
    store.now += 10
    assert claimed_ids(store) == [ready.job_id]
    assert states(store, late.job_id) == [ended]


def test_one_ms_earlier_it_is_still_claimed(store: Store) -> None:
    ack = put(store, ttl_ms=10, deadline=NOW + 10)
    store.now += 9
    assert claimed_ids(store) == [ack.job_id]


def test_skipping_late_ones_uses_no_slot(store: Store) -> None:
    for _ in range(5):
        put(store, ttl_ms=1)
    ready = [put(store).job_id for _ in range(2)]
    store.now += 1
    assert claimed_ids(store) == ready


def test_external_jobs_are_not_for_the_slots(forged: Store) -> None:
    """No verb makes them yet; they have a claim class of their own."""
    ack = put(forged)
    forged.connection.execute("UPDATE jobs SET execution_mode = NULL, claim_class = 5")
    assert claims(forged) == []
    assert states(forged, ack.job_id) == ["QUEUED"]


def test_the_same_rows_give_the_same_order(tmp_path: Path) -> None:
    orders = []
    for number in range(2):
        store = Store(tmp_path / f"{number}.db", slots=50)
        for priority in (3, 1, 3, 2, 2, 1, 3):
            put(store, priority=priority, queue=f"q{priority % 2}")
        orders.append(claimed_ids(store))
        store.close()
    assert orders[0] == orders[1]


@pytest.mark.parametrize(
    ("need", "lost"),
    [
        (WHEN_IDLE, {"charging": True}),
        (ON_MAINS, {"idle": True}),
        (ON_BOTH, {"idle": True}),
        (ON_BOTH, {"charging": True}),
    ],
)
def test_idle_and_power_are_looked_at_again_by_the_claim_and_who_is_behind_goes_first(
    store: Store, need: dict[str, Any], lost: dict[str, bool]
) -> None:
    needy = put(store, schedule=need, priority=100).job_id
    store.machine(idle=True, charging=True)
    tick(store)
    plain = put(store, priority=-100).job_id
    assert states(store, needy) == ["QUEUED"]
    store.machine(**lost)
    assert claimed_ids(store) == [plain]
    assert states(store, needy) == ["QUEUED"], "until `lost` makes it wait again"
    store.machine(idle=True, charging=True)
    assert claimed_ids(store) == [needy]


def test_a_need_that_is_met_is_claimed(store: Store) -> None:
    store.machine(idle=True, charging=True)
    jobs = [put(store, schedule=need).job_id for need in (WHEN_IDLE, ON_BOTH)]
    tick(store)
    assert sorted(claimed_ids(store)) == sorted(jobs)


def test_a_crowd_whose_need_is_lost_is_never_looked_at(store: Store) -> None:
    """It stands in front of everybody else, and costs the claim nothing."""
    store.machine(idle=True)
    for _ in range(7):
        put(store, schedule=WHEN_IDLE, priority=5)
    tick(store)
    plain = put(store).job_id
    store.machine()
    assert claimed_ids(store) == [plain]
