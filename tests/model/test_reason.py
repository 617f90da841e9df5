"""Why a job is where it is: every kind with its words, and the estimated start against a small simulation."""

import heapq
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon.model.machine import Idle, MachineStatus, Power
from semantica_daemon.model.reason import JobSituation, UnderWay, explain
from semantica_daemon.wire.job_view import Condition
from semantica_daemon.wire.reason import Explanation, Reason
from tests.cases import each_case

NOW = 1_000_000
JOB = "11111111-0000-4000-8000-000000000000"
OTHER = "22222222-0000-4000-8000-000000000000"
BUSY = MachineStatus(120_000, Idle(False, detail="somebody types"))


def standing(state: str, **changed: Any) -> JobSituation:
    nothing = dict.fromkeys(field for field in JobSituation.__struct_fields__[: -len(JobSituation.__struct_defaults__)])
    given: dict[str, Any] = {
        "job_id": JOB,
        "state": state,
        "queue": "build",
        "attempts": 0,
        "max_attempts": 0,
        "claim_attempts": 0,
        "wait_for_idle": 0,
        "require_charging": 0,
        "stale": 0,
    }
    return JobSituation(**{**nothing, **given, **changed})


def explained(state: str, seen: MachineStatus = BUSY, **changed: Any) -> Explanation:
    return explain(standing(state, **changed), seen, NOW, lambda at: f"[{at - NOW}]")


def run(started_at: int, job_id: str = OTHER, queue: str = "build") -> UnderWay:
    return UnderWay(job_id, queue, started_at)


UNKNOWN = MachineStatus(idle=Idle(detail="nobody can tell"))
ON_BATTERY = MachineStatus(power=Power("psutil", False, "on battery (80 %)"))
FORTY = MachineStatus(120_000, Idle(False, 40_000))
MET = (Condition("a", "1", 5), Condition("b", "2", None))

# SCHEDULED: what it waits for, what the machine says, the reason
WAITING: list[tuple[dict[str, Any], MachineStatus, Reason]] = [
    ({"scheduled_at": NOW + 90_000}, BUSY, Reason("time", "scheduled for [90000], in 1m30s", at=NOW + 90_000)),
    ({}, BUSY, Reason("time", "due now: it joins its queue", at=NOW)),
    ({"scheduled_at": NOW}, BUSY, Reason("time", "due now: it joins its queue", at=NOW)),
    (
        {"scheduled_at": NOW + 4000, "attempts": 2, "max_attempts": 6},
        BUSY,
        Reason("retry", "attempt 3 of 6 in 4s", at=NOW + 4000, attempt=3, max_attempts=6),
    ),
    (
        {"scheduled_at": NOW + 300, "debounce_ms": 500},
        BUSY,
        Reason("debounce", "its subject has to be quiet for 300ms more", at=NOW + 300),
    ),
    (
        {"scheduled_at": NOW + 501, "debounce_ms": 500},
        BUSY,
        Reason("time", "scheduled for [501], in 501ms", at=NOW + 501),
    ),
    (
        {"wait_for_event": "git:commit"},
        BUSY,
        Reason("event", "event git:commit has not been emitted yet", key="git:commit"),
    ),
    ({"conditions": MET}, BUSY, Reason("condition", "event b=2 has not been emitted yet", key="b", value="2")),
    (
        {"wait_for_idle": 1},
        FORTY,
        Reason("idle", "idle for 40s of 2m00s", idle_for_ms=40_000, idle_ms=120_000, known=True),
    ),
    (
        {"wait_for_idle": 1},
        BUSY,
        Reason("idle", "not idle: somebody types", idle_ms=120_000, known=True, detail="somebody types"),
    ),
    (
        {"wait_for_idle": 1},
        UNKNOWN,
        Reason("idle", "not known to be idle: nobody can tell", idle_ms=0, known=False, detail="nobody can tell"),
    ),
    ({"require_charging": 1}, ON_BATTERY, Reason("power", "on battery (80 %)", known=True, detail="on battery (80 %)")),
    ({"earlier": OTHER}, BUSY, Reason("turn", "job 22222222 of the same schedule has not ended", job_id=OTHER)),
]


@each_case(("changed", "seen", "reason"), WAITING)
def test_a_scheduled_job_waits(changed: dict[str, Any], seen: MachineStatus, reason: Reason) -> None:
    found = explained("SCHEDULED", seen, **changed)
    assert found.reasons == [reason]
    assert (found.summary, found.queue_position, found.state) == (reason.message, None, "SCHEDULED")


# QUEUED: what stands around it, the reasons
QUEUED: list[tuple[dict[str, Any], list[Reason]]] = [
    ({"ahead": 0}, [Reason("ahead", "it is next in its queue", ahead=0, queue="build")]),
    ({"ahead": 3, "slots": 9, "max_slots": 9}, [Reason("ahead", "3 ahead in build", ahead=3, queue="build")]),
    (
        {"ahead": 0, "slots": 2, "max_slots": 9, "running": (run(1), run(2), run(3, queue="other"))},
        [Reason("slots", "2 of 2 slots of build are in use", queue="build", running=2, slots=2)],
    ),
    (
        {"ahead": 0, "slots": 2, "max_slots": 2, "running": (run(1), run(3, queue="other"))},
        [Reason("slots", "2 of 2 slots are in use", running=2, slots=2)],
    ),
    (
        {"ahead": 0, "slots": 0},
        [Reason("slots", "queue build has no slots", queue="build", running=0, slots=0)],
    ),
    (
        {"ahead": 1, "slots": 1, "running": (run(1),)},
        [
            Reason("ahead", "1 ahead in build", ahead=1, queue="build"),
            Reason("slots", "the only slot of build is in use", queue="build", running=1, slots=1),
        ],
    ),
    ({"ahead": 0, "paused": True}, [Reason("paused", "queue build is paused", queue="build")]),
    (
        {"ahead": 0, "paused": True, "resume_at": NOW + 9},
        [Reason("paused", "queue build is paused until [9]", at=NOW + 9, queue="build")],
    ),
    ({"ahead": 0, "paused": True, "all_paused": True}, [Reason("paused", "every queue is paused")]),
    (
        {"ahead": 0, "lane_runs": OTHER, "slots": 9, "max_slots": 9, "running": (run(1),)},
        [Reason("lane", "job 22222222 of the same subject is still running", job_id=OTHER, state="RUNNING")],
    ),
    (
        {"ahead": 3, "lane_runs": OTHER, "lane_ahead": 3, "slots": 9, "max_slots": 9},
        [
            Reason(
                "lane",
                "job 22222222 of the same subject is still running, and 3 more jobs come before this one",
                job_id=OTHER,
                state="RUNNING",
                ahead=3,
            )
        ],
    ),
    (
        {"ahead": 2, "lane_runs": OTHER, "lane_state": "QUEUED", "lane_ahead": 1},
        [
            Reason(
                "lane",
                "job 22222222 of the same subject comes first and waits in its queue, and 1 more job comes before "
                "this one",
                job_id=OTHER,
                state="QUEUED",
                ahead=1,
            )
        ],
    ),
    (
        {"ahead": 1, "lane_runs": OTHER, "lane_state": "SCHEDULED"},
        [
            Reason(
                "lane",
                "job 22222222 of the same subject keeps its turn until its next attempt",
                job_id=OTHER,
                state="SCHEDULED",
            )
        ],
    ),
]


@each_case(("changed", "reasons"), QUEUED)
def test_a_queued_job_waits(changed: dict[str, Any], reasons: list[Reason]) -> None:
    found = explained("QUEUED", **changed)
    assert found.reasons == reasons
    assert found.summary == "; ".join(reason.message for reason in reasons)
    assert found.queue_position == changed["ahead"]


STARTED: dict[str, Any] = {"started_at": NOW - 5000, "attempts": 1}
ENDED: dict[str, Any] = {"finished_at": NOW - 1, "started_at": NOW - 2001}

# Neither waits: its state, what is known of it, the reason
OVER: list[tuple[str, dict[str, Any], Reason]] = [
    ("RUNNING", STARTED, Reason("running", "running for 5s", started_at=NOW - 5000, attempt=1, max_attempts=0)),
    (
        "RUNNING",
        {**STARTED, "attempts": 2, "max_attempts": 3},
        Reason("running", "running for 5s, attempt 2 of 3", started_at=NOW - 5000, attempt=2, max_attempts=3),
    ),
    (
        "RUNNING",
        {**STARTED, "stale": 1},
        Reason(
            "running",
            "running for 5s; a newer job of its subject is known",
            started_at=NOW - 5000,
            attempt=1,
            max_attempts=0,
            stale=True,
        ),
    ),
    (
        "RUNNING",
        {**STARTED, "cancel_requested_at": NOW - 2000},
        Reason(
            "stopping",
            "running for 5s, asked to stop 2s ago",
            started_at=NOW - 5000,
            requested_at=NOW - 2000,
            attempt=1,
            max_attempts=0,
        ),
    ),
    ("DONE", ENDED, Reason("done", "done in 2s", at=NOW - 1, started_at=NOW - 2001)),
    (
        "FAILED",
        {**ENDED, "error_code": "E_EXIT", "error_message": "exit code 3"},
        Reason("failed", "failed: exit code 3", at=NOW - 1, code="E_EXIT", error="exit code 3"),
    ),
    (
        "FAILED",
        {**ENDED, "error_code": "E_EXIT", "error_message": ""},
        Reason("failed", "failed: E_EXIT", at=NOW - 1, code="E_EXIT", error=""),
    ),
    ("CANCELLED", ENDED, Reason("cancelled", "cancelled", at=NOW - 1)),
    (
        "SUPERSEDED",
        {**ENDED, "superseded_by": OTHER},
        Reason("superseded", "superseded by job 22222222", at=NOW - 1, job_id=OTHER),
    ),
    ("SUPERSEDED", {**ENDED, "superseded_by": ""}, Reason("superseded", "superseded", at=NOW - 1)),
    (
        "SKIPPED_TTL",
        ENDED,
        Reason("skipped", "skipped: it waited for a slot longer than its TTL", at=NOW - 1, limit="ttl"),
    ),
    (
        "SKIPPED_DEADLINE",
        ENDED,
        Reason("skipped", "skipped: its deadline passed before it started", at=NOW - 1, limit="deadline"),
    ),
]


@each_case(("state", "changed", "reason"), OVER)
def test_a_job_that_does_not_wait(state: str, changed: dict[str, Any], reason: Reason) -> None:
    found = explained(state, **changed)
    assert (found.reasons, found.summary) == ([reason], reason.message)
    assert (found.queue_position, found.estimated_start_at) == (None, None)


def test_all_that_a_job_waits_for_is_in_one_sentence() -> None:
    found = explained(
        "SCHEDULED", ON_BATTERY, scheduled_at=NOW + 7_200_000, wait_for_event="e", conditions=MET, require_charging=1
    )
    assert found.summary == (
        "scheduled for [7200000], in 2h00m; event e has not been emitted yet; event b=2 has not been emitted yet; "
        "on battery (80 %)"
    )
    assert [reason.kind for reason in found.reasons] == ["time", "event", "condition", "power"]
    both = explained("QUEUED", ahead=2, paused=True, slots=1, running=(run(1),), lane_runs=OTHER)
    assert [reason.kind for reason in both.reasons] == ["paused", "lane", "slots"]


def test_what_has_come_or_is_so_is_no_reason() -> None:
    found = explained(
        "SCHEDULED",
        MachineStatus(idle=Idle(True), power=Power(charging=True)),
        wait_for_idle=1,
        require_charging=1,
        wait_for_event="e",
        event_met_at=5,
        conditions=MET[:1],
        scheduled_at=NOW - 1,
    )
    assert [reason.kind for reason in found.reasons] == ["time"]
    assert found.estimated_start_at == NOW


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
    ],
)
def test_before_a_run_has_ended_and_in_special_cases(changed: dict[str, Any], expected: int | None) -> None:
    assert explained("QUEUED", **changed).estimated_start_at == expected


def test_it_tells_how_often_it_was_claimed_in_vain() -> None:
    assert explained("QUEUED", ahead=0, claim_attempts=2).claim_attempts == 2
