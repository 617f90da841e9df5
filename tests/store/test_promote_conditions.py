"""Everything a job waits for has to hold: each kind of time × event × need of the machine, in each kind of weather."""

from itertools import product
from typing import Any

import pytest

from semantica_daemon.model.machine import Needs
from semantica_daemon.store.writes.enqueue import enqueue_many
from semantica_daemon.store.writes.lost import lost
from semantica_daemon.store.writes.promote import Due
from tests.builders import NOW, Store, admitted
from tests.store.steps import (
    ON_BOTH,
    ON_MAINS,
    WHEN_IDLE,
    begin,
    claims,
    due,
    emitted,
    end,
    event_types,
    needs,
    put,
    states,
    stop,
    tick,
)  # fmt: skip

TIMES: list[dict[str, Any]] = [{}, {"scheduled_at": NOW + 100}, {"delay_ms": 100}]
ONCE: list[dict[str, Any]] = [{}, {"wait_for_event": "e"}, {"conditions": {"e": "1", "f": "2"}}]
MACHINE: list[dict[str, Any]] = [
    {"wait_for_idle": idle, "require_charging": power} for idle in (False, True) for power in (False, True)
]


def schedule_of(*parts: dict[str, Any]) -> dict[str, Any]:
    given = {name: value for part in parts for name, value in part.items() if value is not False}
    kind = {"scheduled_at": "AT", "delay_ms": "AFTER"}.get(next(iter(given), ""), "CONDITION" if given else "IMMEDIATE")
    return {"type": kind, **given}


SCHEDULES = [schedule_of(*parts) for parts in product(TIMES, ONCE, MACHINE)]
TRUTH = (False, True)


@pytest.mark.parametrize("come", TRUTH)
@pytest.mark.parametrize("late", TRUTH)
@pytest.mark.parametrize("charging", TRUTH)
@pytest.mark.parametrize("idle", TRUTH)
def test_a_job_joins_its_queue_when_all_that_it_asks_for_holds(
    store: Store, idle: bool, charging: bool, late: bool, come: bool
) -> None:
    acks = [put(store, queue="none", schedule=schedule).job_id for schedule in SCHEDULES]
    if come:
        emitted(store, "e", "1"), emitted(store, "f", "2")
    store.machine(idle, charging)
    store.now += 100 if late else 99
    found = due(store)
    for job_id, schedule in zip(acks, SCHEDULES, strict=True):
        in_time = late or not {"scheduled_at", "delay_ms"} & schedule.keys()
        met = come or not {"wait_for_event", "conditions"} & schedule.keys()
        fits = schedule.get("wait_for_idle", False) <= idle and schedule.get("require_charging", False) <= charging
        holds = in_time and met and fits
        assert states(store, job_id) == ["QUEUED" if holds else "SCHEDULED"], schedule
    assert found == expected(store, idle, charging)


def expected(store: Store, idle: bool, charging: bool) -> Due:
    """By a plain look at the table."""
    waiting = store.rows("SELECT *, coalesce(scheduled_at, 0) AS at FROM jobs WHERE state = 'SCHEDULED' AND unmet = 0")
    fits = [job["at"] for job in waiting if job["wait_for_idle"] <= idle and job["require_charging"] <= charging]
    at = {}
    for need in ("wait_for_idle", "require_charging"):
        queued = store.rows(f"SELECT id FROM jobs WHERE state = 'QUEUED' AND {need} = 1")
        at[need] = min([job["at"] for job in waiting if job[need]] + [0] * bool(queued), default=None)
    return Due(min(fits, default=None), Needs(at["wait_for_idle"], at["require_charging"]))


def test_what_becomes_due_goes_in_that_order_and_by_arrival_when_at_once(store: Store) -> None:
    delays = [30, 10, 20, 10]
    jobs = [put(store, queue="none", schedule={"type": "AFTER", "delay_ms": delay}).job_id for delay in delays]
    tick(store, 100)
    order = store.rows("SELECT id FROM jobs ORDER BY position")
    assert [row["id"] for row in order] == [jobs[1], jobs[3], jobs[2], jobs[0]]


def test_the_same_order_comes_of_parts(store: Store) -> None:
    jobs = [
        put(store, queue="none", schedule={"type": "AFTER", "delay_ms": 40 - 10 * (number % 4)}).job_id
        for number in range(9)
    ]
    store.now += 100
    sizes = []
    while (found := due(store, most=2)).at is not None:
        sizes.append(len(store.rows("SELECT id FROM jobs WHERE state = 'QUEUED'")))
        assert found.at <= store.now, "the rest is due now"
    assert sizes == [2, 4, 6, 8]
    order = [row["id"] for row in store.rows("SELECT id FROM jobs ORDER BY position")]
    assert order == [job for delay in (10, 20, 30, 40) for job in jobs if store.job(job)["schedule_delay_ms"] == delay]


def test_a_crowd_that_needs_the_machine_is_promoted_in_parts_too(store: Store) -> None:
    store.run(enqueue_many, [admitted(queue="none", schedule=WHEN_IDLE) for _ in range(5)])
    assert due(store, most=2).at is None, "nobody is due while the machine is busy"
    store.machine(idle=True)
    assert [due(store, most=2).at for _ in range(3)] == [0, 0, None]


@pytest.mark.parametrize(
    ("schedule", "idle", "power"),
    [(WHEN_IDLE, True, False), (ON_MAINS, False, True), (ON_BOTH, True, True), ({"type": "IMMEDIATE"}, False, False)],
)
def test_who_waits_for_the_machine_is_told_from_when_on(
    store: Store, schedule: dict[str, Any], idle: bool, power: bool
) -> None:
    put(store, schedule=schedule)
    assert needs(store) == Needs(0 if idle else None, 0 if power else None)


def test_before_its_time_and_its_events_a_job_does_not_wait_for_the_machine(store: Store) -> None:
    put(store, schedule={"type": "AFTER", "delay_ms": 50, "wait_for_idle": True})
    assert needs(store) == Needs(NOW + 50)
    put(store, schedule={"type": "CONDITION", "wait_for_event": "e", "wait_for_idle": True})
    assert needs(store) == Needs(NOW + 50)
    emitted(store, "e")
    assert needs(store) == Needs(0)


@pytest.mark.parametrize(
    ("schedule", "expected"), [(WHEN_IDLE, Needs(0)), (ON_MAINS, Needs(None, 0)), (ON_BOTH, Needs(0, 0))]
)
def test_who_is_queued_goes_on_needing_it_until_started(
    store: Store, schedule: dict[str, Any], expected: Needs
) -> None:
    put(store, schedule=schedule)
    store.machine(idle=True, charging=True)
    tick(store)
    assert needs(store) == expected
    (claimed,) = claims(store)
    assert needs(store) == Needs(), "what runs goes on, idle or not"
    end(store, claimed)


@pytest.mark.parametrize(
    ("schedule", "expected"), [(WHEN_IDLE, Needs(0)), (ON_MAINS, Needs(None, 0)), (ON_BOTH, Needs(0, 0))]
)
def test_who_would_be_stopped_goes_on_needing_it_while_it_runs(
    store: Store, schedule: dict[str, Any], expected: Needs
) -> None:
    store.machine(idle=True, charging=True)
    put(store, schedule=schedule, stop_when_lost=True)
    tick(store)
    (claimed,) = claims(store)
    assert needs(store) == expected
    end(store, claimed)
    assert needs(store) == Needs()


def test_what_has_ended_needs_nothing(store: Store) -> None:
    stop(store, put(store, schedule=ON_BOTH).job_id)
    put(store, subject_key="s", schedule=ON_BOTH)
    begin(store, subject_key="s")
    assert needs(store) == Needs()


def test_a_deadline_passes_while_a_job_waits_for_an_event_or_the_machine(store: Store) -> None:
    schedules: list[dict[str, Any]] = [WHEN_IDLE, {"type": "CONDITION", "wait_for_event": "e"}]
    jobs = [put(store, deadline=NOW + 10, schedule=schedule).job_id for schedule in schedules]
    assert tick(store, 9) == NOW + 10
    tick(store, 1)
    assert states(store, *jobs) == ["SKIPPED_DEADLINE"] * 2


def test_a_ttl_counts_anew_each_time_it_is_queued(store: Store) -> None:
    job_id = put(store, ttl_ms=10, schedule=WHEN_IDLE).job_id
    store.machine(idle=True)
    assert tick(store) == NOW + 10
    store.machine()
    store.now += 5
    store.run(lost, None)
    assert (states(store, job_id), store.job(job_id)["expires_at"]) == (["SCHEDULED"], None)
    store.machine(idle=True)
    assert tick(store, 100) == NOW + 115
    assert event_types(store, job_id) == ["job.scheduled", "job.queued", "job.scheduled", "job.queued"]
