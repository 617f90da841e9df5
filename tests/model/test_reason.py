"""Why a job is where it is: every kind with its words, and the estimated start against a small simulation."""

from typing import Any

from semantica_daemon.model.machine import Idle, MachineStatus, Power
from semantica_daemon.model.reason import JobSituation, UnderWay, explain
from semantica_daemon.model.reservation import Reservation
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
    (
        {"ahead": 0, "reservation": Reservation("r", "deploy", 1, NOW + 9)},
        [Reason("reserved", "reserved by deploy until [9]", at=NOW + 9, reserved_by="deploy")],
    ),
    (
        {"ahead": 0, "reservation": Reservation("r", f"job {OTHER}", 1, NOW + 9, OTHER), "paused": True},
        [
            Reason(
                "reserved", "reserved by job 22222222 until [9]",
                at=NOW + 9, reserved_by=f"job {OTHER}", job_id=OTHER,
            ),
            Reason("paused", "queue build is paused", queue="build"),
        ],
    ),
    (
        {"ahead": 3, "reservation": Reservation("r", "its own", 1, NOW + 9, JOB), "paused": True, "lane_runs": OTHER},
        [Reason("lane", "job 22222222 of the same subject is still running", job_id=OTHER, state="RUNNING")],
    ),
]  # fmt: skip


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


def test_it_tells_how_often_it_was_claimed_in_vain() -> None:
    assert explained("QUEUED", ahead=0, claim_attempts=2).claim_attempts == 2
