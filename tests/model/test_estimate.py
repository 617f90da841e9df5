"""The estimated start of a waiting job, against a small simulation of its queue."""

import heapq
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon.model.machine import MachineStatus
from semantica_daemon.model.reason import JobSituation, UnderWay
from semantica_daemon.model.reservation import Reservation
from tests.cases import each_case
from tests.model.test_reason import BUSY, FORTY, JOB, MET, NOW, ON_BATTERY, OTHER, explained, run, standing


@each_case(
    ("changed", "seen", "expected"),
    [
        ({"scheduled_at": NOW + 5}, BUSY, NOW + 5),
        ({"scheduled_at": NOW - 5}, BUSY, NOW),
        ({"scheduled_at": NOW + 5, "wait_for_event": "e"}, BUSY, None),
        ({"scheduled_at": NOW + 5, "conditions": MET}, BUSY, None),
        ({"scheduled_at": NOW + 5, "earlier": OTHER}, BUSY, None),
        ({"scheduled_at": NOW + 5, "require_charging": 1}, ON_BATTERY, None),
        ({"scheduled_at": NOW + 5, "wait_for_idle": 1}, BUSY, None),
        ({"scheduled_at": NOW + 5, "wait_for_idle": 1}, FORTY, NOW + 80_000),
        ({"scheduled_at": NOW + 90_000, "wait_for_idle": 1}, FORTY, NOW + 90_000),
    ],
)
def test_a_scheduled_job_starts_when_the_last_of_it_holds_if_anybody_can_know(
    changed: dict[str, Any], seen: MachineStatus, expected: int | None
) -> None:
    assert explained("SCHEDULED", seen, **changed).estimated_start_at == expected


def simulated(job: JobSituation, running: list[UnderWay], slots: int, begins: int, took: int) -> int:
    """A run takes as long as the last ones took, and one that has taken longer takes as long again; so do the ones
    after it in its queue. The first in line takes the first slot that is free."""
    lasted = [NOW - one.started_at for one in running]
    ends = [NOW + (took - ms if ms <= took else ms) for ms in lasted]
    took = max([took, *(NOW - one.started_at for one in job.running if one.queue == "build")])
    heapq.heapify(ends)
    now = begins
    for _ in range((job.ahead or 0) + 1):
        while ends and (ends[0] <= now or len(ends) >= slots):
            now = max(now, heapq.heappop(ends))
        heapq.heappush(ends, now + took)
    return now


runs = st.lists(st.builds(run, st.integers(NOW - 40, NOW), st.just(OTHER), st.sampled_from(["build", "x"])), max_size=6)


@given(
    runs, st.integers(0, 9), st.integers(1, 4), st.integers(1, 6), st.integers(1, 30), st.none() | st.integers(1, 60)
)
def test_the_estimated_start_is_what_a_simulation_of_the_queue_gives(
    running: list[UnderWay], ahead: int, slots: int, max_slots: int, took: int, paused_ms: int | None
) -> None:
    """Under its own limit and under that of all queues, whichever lets it wait longer."""
    paused: dict[str, Any] = {} if paused_ms is None else {"paused": True, "resume_at": NOW + paused_ms}
    given: dict[str, Any] = {
        "ahead": ahead,
        "slots": slots,
        "max_slots": max_slots,
        "running": tuple(running),
        **paused,
    }
    job = standing("QUEUED", **given)
    begins = NOW + (paused_ms or 0)
    own = simulated(job, [one for one in running if one.queue == "build"], slots, begins, took)
    everybody = simulated(job, running, max_slots, begins, took)
    assert explained("QUEUED", **given, recent_run_ms=took).estimated_start_at == max(own, everybody)


IN_LANE: dict[str, Any] = {"ahead": 0, "lane_runs": OTHER, "slots": 2, "max_slots": 3, "running": (run(NOW - 5),)}


@each_case(
    ("changed", "expected"),
    [
        ({"ahead": 0}, NOW),
        ({"ahead": 1, "slots": 2, "max_slots": 2}, NOW),
        ({"ahead": 1}, None),
        ({"ahead": 0, "running": (run(NOW - 5),)}, None),
        ({"ahead": 0, "slots": 0, "recent_run_ms": 5}, None),
        ({"ahead": 0, "paused": True, "recent_run_ms": 5}, None),
        ({"ahead": 0, "paused": True, "resume_at": NOW + 5}, NOW + 5),
        ({"ahead": 0, "paused": True, "resume_at": NOW - 5}, NOW),
        ({"ahead": 0, "lane_runs": OTHER, "slots": 2, "max_slots": 2, "running": (run(NOW - 5),)}, None),
        (
            {
                "ahead": 0,
                "lane_runs": OTHER,
                "slots": 2,
                "max_slots": 2,
                "running": (run(NOW - 5),),
                "recent_run_ms": 9,
            },
            NOW + 4,
        ),
        (
            {
                "ahead": 0,
                "lane_runs": OTHER,
                "slots": 2,
                "max_slots": 2,
                "running": (run(NOW - 5),),
                "recent_run_ms": 3,
            },
            NOW + 5,
        ),
        (IN_LANE | {"recent_run_ms": 9, "ahead": 2, "lane_ahead": 2}, NOW + 4 + 2 * 9),
        (IN_LANE | {"recent_run_ms": 9, "ahead": 1, "lane_state": "QUEUED", "running": ()}, NOW + 9),
        (IN_LANE | {"recent_run_ms": 9, "ahead": 1, "lane_state": "SCHEDULED", "running": ()}, None),
        ({"ahead": 12, "slots": 2, "max_slots": 2, "running": (run(NOW - 1000),) * 2, "recent_run_ms": 2}, NOW + 7000),
        ({"ahead": 1001, "recent_run_ms": 2}, None),
        ({"ahead": 0, "reservation": Reservation("r", "ci", 1, NOW + 9)}, NOW + 9),
        ({"ahead": 0, "reservation": Reservation("r", "its own", 1, NOW + 9, JOB)}, NOW),
    ],
)
def test_before_a_run_has_ended_and_in_special_cases(changed: dict[str, Any], expected: int | None) -> None:
    assert explained("QUEUED", **changed).estimated_start_at == expected
