"""The machine is no longer idle, or off the mains: what has not started waits again, and who asked for it is ended."""

from itertools import product
from typing import Any

import pytest

from semantica_daemon.store.tx import StopRun
from semantica_daemon.store.writes import lost as verb
from semantica_daemon.store.writes.clock import Reading, set_clock
from semantica_daemon.store.writes.lost import lost
from tests.builders import NOW, Store
from tests.store.steps import ON_BOTH, ON_MAINS, WHEN_IDLE, begin, claims, end, event_types, put, states, tick

NEEDS: list[dict[str, Any]] = [WHEN_IDLE, ON_MAINS, ON_BOTH]
WEATHER = list(product((False, True), repeat=2))


def fits(need: dict[str, Any], idle: bool, charging: bool) -> bool:
    return bool(need.get("wait_for_idle", False) <= idle and need.get("require_charging", False) <= charging)


@pytest.mark.parametrize(("idle", "charging"), WEATHER)
def test_what_needs_what_was_lost_goes_back_to_waiting_and_nothing_else(
    store: Store, idle: bool, charging: bool
) -> None:
    store.machine(idle=True, charging=True)
    jobs = [put(store, queue="none", schedule=need).job_id for need in NEEDS]
    plain = put(store, queue="none").job_id
    tick(store)
    store.machine(idle, charging)
    assert store.run(lost, None) is False
    expected = ["QUEUED" if fits(need, idle, charging) else "SCHEDULED" for need in NEEDS]
    assert states(store, *jobs, plain) == [*expected, "QUEUED"]


def test_it_says_why_and_joins_its_queue_again_at_the_end(store: Store) -> None:
    store.machine(idle=True)
    job_id = put(store, queue="none", schedule=WHEN_IDLE).job_id
    tick(store)
    other = put(store, queue="none").job_id
    store.machine()
    store.now += 5
    store.run(lost, None)
    event = store.events()[-1]
    assert (event["event_type"], event["message"]) == (
        "job.scheduled",
        "the machine is no longer idle or on mains power",
    )
    assert store.committed is not None
    assert store.committed.due == NOW + 5
    assert tick(store) is None
    store.machine(idle=True)
    tick(store)
    assert event_types(store, job_id) == ["job.scheduled", "job.queued", "job.scheduled", "job.queued"]
    assert store.job(job_id)["position"] > store.job(other)["position"]


def test_it_does_not_wait_for_its_time_again_when_the_clock_is_wrong_after_a_reboot(store: Store) -> None:
    store.machine(idle=True)
    job_id = put(store, schedule={"type": "AFTER", "delay_ms": 50, "wait_for_idle": True}).job_id
    tick(store, 50)
    store.machine()
    store.run(lost, None)
    store.now -= 60_000
    store.run(set_clock, Reading("another boot", 0))
    store.machine(idle=True)
    tick(store)
    assert states(store, job_id) == ["QUEUED"]


@pytest.mark.parametrize(("idle", "charging"), WEATHER)
@pytest.mark.parametrize("stop_when_lost", [True, False])
@pytest.mark.parametrize("need", NEEDS)
def test_a_running_job_is_ended_if_it_asked_for_that(
    store: Store, need: dict[str, Any], stop_when_lost: bool, idle: bool, charging: bool
) -> None:
    store.machine(idle=True, charging=True)
    put(store, schedule=need, stop_when_lost=stop_when_lost)
    tick(store)
    (claimed,) = claims(store)
    store.machine(idle, charging)
    store.run(lost, None)
    assert store.committed is not None
    ends = stop_when_lost and not fits(need, idle, charging)
    assert store.committed.stops == ([StopRun(claimed.run.run_id, "lost")] if ends else [])
    assert states(store, claimed.run.job_id) == ["RUNNING"], "until it is really gone"
    end(store, claimed)


def test_a_plain_running_job_goes_on(store: Store) -> None:
    claimed = begin(store)
    store.run(lost, None)
    assert store.committed is not None
    assert store.committed.stops == []
    end(store, claimed)


def test_a_crowd_goes_back_in_parts(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verb, "MOST", 3)
    store.machine(idle=True)
    jobs = [put(store, queue="none", schedule=WHEN_IDLE).job_id for _ in range(7)]
    tick(store)
    store.machine()
    left = []
    while store.run(lost, None):
        left.append(states(store, *jobs).count("QUEUED"))
    assert left == [4, 1]
    assert set(states(store, *jobs)) == {"SCHEDULED"}
