"""job.explain over the socket: one sentence and typed reasons for every wait and every end, a position, a forecast."""

from typing import Any

import pytest

from semantica_daemon import prose
from tests.engine.sample_handlers import doors
from tests.harness import START, Harness, RpcError

HOLD: dict[str, Any] = {"job_type": "hold", "payload": {"door": "a"}}


async def why(harness: Harness, job_id: str) -> Any:
    """The explanation; its sentence is made of its reasons, and each has a kind and a message."""
    found = await harness.call("job.explain", job_id=job_id)
    assert found["summary"] == "; ".join(reason["message"] for reason in found["reasons"])
    assert all(reason["kind"] and reason["message"] for reason in found["reasons"])
    assert (found["job_id"], found["state"]) == (job_id, await harness.state(job_id))
    return found


async def kinds_and_summary(harness: Harness, job_id: str) -> tuple[list[str], str]:
    found = await why(harness, job_id)
    return [reason["kind"] for reason in found["reasons"]], found["summary"]


async def busy(harness: Harness, count: int = 2, **spec: Any) -> list[str]:
    """So many jobs at the door."""
    ids = [(await harness.enqueue(**HOLD, **spec))["job_id"] for _ in range(count)]
    await harness.settle()
    assert {await harness.state(job_id) for job_id in ids} == {"RUNNING"}
    return ids


def on_the_wall(instant: int) -> str:
    return prose.instant(instant, START)


async def test_a_time(desk: Harness) -> None:
    job_id = (await desk.enqueue(schedule={"type": "AT", "scheduled_at": START + 5 * 3_600_000 + 720_000}))["job_id"]
    found = await why(desk, job_id)
    (reason,) = found["reasons"]
    at = START + 5 * 3_600_000 + 720_000
    assert (reason["kind"], reason["at"], found["estimated_start_at"]) == ("time", at, at)
    assert found["summary"] == f"scheduled for {on_the_wall(at)}, in 5h12m"
    assert found["queue_position"] is None


async def test_a_retry(desk: Harness) -> None:
    spec = {"payload": {"how": "plain"}, "max_attempts": 6, "backoff_base_ms": 10_000, "backoff_factor": 1}
    job_id = (await desk.enqueue("fail_async", **spec))["job_id"]
    await desk.advance(11_000)
    job = await desk.job(job_id)
    assert (job["state"], job["attempts"]) == ("SCHEDULED", 2)
    await desk.advance(job["scheduled_at"] - desk.clock.now() - 4000)
    found = await why(desk, job_id)
    assert found["summary"] == "attempt 3 of 6 in 4s"
    (reason,) = found["reasons"]
    assert (reason["kind"], reason["attempt"], reason["max_attempts"]) == ("retry", 3, 6)
    assert found["estimated_start_at"] == reason["at"] == job["scheduled_at"]


async def test_a_quiet_lane(desk: Harness) -> None:
    job_id = (await desk.enqueue(subject_key="s", debounce_ms=5000))["job_id"]
    await desk.advance(2000)
    assert await kinds_and_summary(desk, job_id) == (["debounce"], "its subject has to be quiet for 3s more")


async def test_an_event_and_conditions_and_only_those_that_have_not_come(desk: Harness) -> None:
    wants = {"type": "CONDITION", "wait_for_event": "git:commit", "conditions": {"branch": "main", "ci": "green"}}
    job_id = (await desk.enqueue(schedule=wants))["job_id"]
    kinds, summary = await kinds_and_summary(desk, job_id)
    assert kinds == ["event", "condition", "condition"]
    assert summary == "; ".join(
        f"event {one} has not been emitted yet" for one in ("git:commit", "branch=main", "ci=green")
    )
    await desk.call("event.emit", key="git:commit")
    await desk.call("event.emit", key="branch", value="main")
    found = await why(desk, job_id)
    (reason,) = found["reasons"]
    assert (reason["kind"], reason["key"], reason["value"]) == ("condition", "ci", "green")
    assert found["estimated_start_at"] is None


async def test_an_idle_machine(desk: Harness) -> None:
    await desk.call("machine.activity", source="nvim")
    job_id = (await desk.enqueue(schedule={"type": "CONDITION", "wait_for_idle": True}))["job_id"]
    await desk.advance(40_000)
    found = await why(desk, job_id)
    assert found["summary"] == "idle for 40s of 2m00s"
    (reason,) = found["reasons"]
    assert (reason["kind"], reason["idle_for_ms"], reason["idle_ms"]) == ("idle", 40_000, 120_000)
    assert found["estimated_start_at"] == START + 120_000


async def test_mains(desk: Harness) -> None:
    job_id = (await desk.enqueue(schedule={"type": "CONDITION", "require_charging": True}))["job_id"]
    await desk.settle()
    found = await why(desk, job_id)
    assert ([one["kind"] for one in found["reasons"]], found["summary"]) == (["power"], "on battery, 40 %")
    assert found["estimated_start_at"] is None


async def test_everything_at_once(desk: Harness) -> None:
    wants = {"type": "AFTER", "delay_ms": 60_000, "wait_for_idle": True, "require_charging": True}
    wants |= {"wait_for_event": "e", "conditions": {"a": "1"}}
    job_id = (await desk.enqueue(schedule=wants))["job_id"]
    kinds, _ = await kinds_and_summary(desk, job_id)
    assert kinds == ["time", "event", "condition", "idle", "power"]
    await desk.advance(60_000)
    assert (await kinds_and_summary(desk, job_id))[0] == ["event", "condition", "idle", "power"]


@pytest.mark.parametrize("every", [False, True], ids=["one queue", "all of them"])
async def test_a_paused_queue(desk: Harness, every: bool) -> None:
    which = {} if every else {"queue": "build"}
    await desk.call("queue.pause", **which, resume_after_ms=3_600_000)
    job_id = (await desk.enqueue(queue="build"))["job_id"]
    found = await why(desk, job_id)
    assert found["summary"].endswith(f"paused until {on_the_wall(START + 3_600_000)}")
    assert (found["reasons"][0]["kind"], found["reasons"][0]["at"]) == ("paused", START + 3_600_000)
    assert (found["queue_position"], found["estimated_start_at"]) == (0, START + 3_600_000)
    await desk.call("queue.pause", **which)
    found = await why(desk, job_id)
    assert (found["summary"].endswith("paused"), found["estimated_start_at"]) == (True, None)


async def test_a_reservation(desk: Harness) -> None:
    made = await desk.call("reservation.acquire", reserved_by="deploy", ttl_ms=3_600_000)
    job_id = (await desk.enqueue())["job_id"]
    found = await why(desk, job_id)
    assert found["summary"] == f"reserved by deploy until {on_the_wall(START + 3_600_000)}"
    assert found["reasons"][0]["reserved_by"] == "deploy"
    assert (found["queue_position"], found["estimated_start_at"]) == (0, START + 3_600_000)
    planned = await desk.call("job.plan", job_type="semantica.noop")
    assert planned["starts_when"] == "when the reservation of deploy has ended and a slot is free"
    await desk.call("reservation.release", reservation_id=made["reservation_id"])
    await desk.settle()
    assert await desk.state(job_id) == "DONE"


async def test_a_job_that_is_executed_directly(desk: Harness) -> None:
    direct = (await desk.call("job.execute", **HOLD, wait_for="start"))["job"]
    job_id = (await desk.enqueue())["job_id"]
    found = await why(desk, job_id)
    assert found["summary"].startswith(f"reserved by job {direct['job_id'][:8]} until ")
    assert found["reasons"][0]["job_id"] == direct["job_id"]


async def test_a_queue_that_is_paused_twice_resumes_by_itself_only_when_both_pauses_do(desk: Harness) -> None:
    await desk.call("queue.pause", resume_after_ms=1000)
    await desk.call("queue.pause", queue="build")
    job_id = (await desk.enqueue(queue="build"))["job_id"]
    queues = {one["queue"]: one["resume_at"] for one in (await desk.call("queue.list"))["queues"]}
    assert queues == {"build": None, "default": START + 1000}
    assert (await desk.call("job.explain", job_id=job_id))["estimated_start_at"] is None


async def test_the_ones_ahead_and_the_position(desk: Harness) -> None:
    await desk.call("queue.configure", queue="build", slots=1)
    await busy(desk, 1, queue="build")
    ids = [(await desk.enqueue(queue="build"))["job_id"] for _ in range(4)]
    urgent = (await desk.enqueue(queue="build", priority=1))["job_id"]
    positions = {job_id: (await why(desk, job_id))["queue_position"] for job_id in [urgent, *ids]}
    assert list(positions.values()) == [0, 1, 2, 3, 4]
    found = await why(desk, ids[2])
    assert found["summary"] == "3 ahead in build; the only slot of build is in use"
    ahead, slots = found["reasons"]
    assert (ahead["kind"], ahead["ahead"], ahead["queue"]) == ("ahead", 3, "build")
    assert (slots["kind"], slots["running"], slots["slots"]) == ("slots", 1, 1)


async def test_all_slots_taken_by_other_queues(desk: Harness) -> None:
    await busy(desk, 2)
    job_id = (await desk.enqueue(queue="other"))["job_id"]
    assert await kinds_and_summary(desk, job_id) == (["slots"], "2 of 2 slots are in use")


async def test_a_lane_that_runs(desk: Harness) -> None:
    (first,) = await busy(desk, 1, subject_key="s")
    job_id = (await desk.enqueue(**HOLD, subject_key="s"))["job_id"]
    await desk.settle()
    found = await why(desk, job_id)
    assert [(one["kind"], one["job_id"]) for one in found["reasons"]] == [("lane", first)]
    assert found["summary"] == f"job {first[:8]} of the same subject is still running"
    await desk.advance(2000)
    assert await kinds_and_summary(desk, first) == (["running"], "running for 2s; a newer job of its subject is known")


async def test_an_earlier_job_of_the_same_schedule(desk: Harness) -> None:
    await desk.call("template.put", name="t", spec=HOLD)
    await desk.call("schedule.put", name="s", template_id="t", cron_expression="@yearly")
    first, second = [(await desk.call("schedule.trigger", schedule_id="s"))["job"]["job_id"] for _ in range(2)]
    found = await why(desk, second)
    assert [(one["kind"], one["job_id"]) for one in found["reasons"]] == [("turn", first)]


async def test_a_run(desk: Harness) -> None:
    (job_id,) = await busy(desk, 1, max_attempts=3, grace_ms=60_000)
    await desk.advance(5000)
    assert await kinds_and_summary(desk, job_id) == (["running"], "running for 5s, attempt 1 of 3")


async def test_a_run_that_will_not_stop(desk: Harness) -> None:
    spec: dict[str, Any] = {"job_type": "stubborn", "payload": {"door": "a"}, "grace_ms": 60_000}
    job_id = (await desk.enqueue(**spec))["job_id"]
    await desk.advance(5000)
    await desk.call("job.cancel", job_id=job_id)
    await desk.advance(3000)
    kinds, summary = await kinds_and_summary(desk, job_id)
    assert (kinds, summary) == (["stopping"], "running for 8s, asked to stop 3s ago")


async def test_every_end(desk: Harness) -> None:
    done = (await desk.enqueue())["job_id"]
    failed = (await desk.enqueue("fail_async", payload={"how": "permanent"}))["job_id"]
    await desk.settle()
    await desk.call("queue.pause")
    cancelled = (await desk.enqueue())["job_id"]
    await desk.call("job.cancel", job_id=cancelled)
    superseded = (await desk.enqueue(subject_key="s"))["job_id"]
    winner = (await desk.enqueue(subject_key="s"))["job_id"]
    expired = (await desk.enqueue(ttl_ms=1000))["job_id"]
    late = (await desk.enqueue(deadline=START + 1000))["job_id"]
    await desk.advance(1000)
    assert await kinds_and_summary(desk, done) == (["done"], "done in 0ms")
    assert await kinds_and_summary(desk, failed) == (["failed"], "failed: semantica_daemon.failures.Permanent: never")
    assert (await why(desk, failed))["reasons"][0]["code"] == "E_HANDLER"
    assert await kinds_and_summary(desk, cancelled) == (["cancelled"], "cancelled")
    assert await kinds_and_summary(desk, superseded) == (["superseded"], f"superseded by job {winner[:8]}")
    assert await kinds_and_summary(desk, expired) == (["skipped"], "skipped: it waited for a slot longer than its TTL")
    assert await kinds_and_summary(desk, late) == (["skipped"], "skipped: its deadline passed before it started")
    for job_id in (done, failed, cancelled, superseded, expired, late):
        found = await why(desk, job_id)
        assert (found["queue_position"], found["estimated_start_at"]) == (None, None)


async def test_the_forecast_comes_from_what_the_queue_did_of_late(desk: Harness) -> None:
    """Ten-second runs in two slots: the next starts when the first of them should end, the third ten seconds later."""
    first = await busy(desk, 2)
    await desk.advance(10_000)
    doors["a"].open.set()
    assert [(await desk.ended(job_id))["state"] for job_id in first] == ["DONE", "DONE"]
    doors["a"].open.clear()
    begin = desk.clock.now()
    await busy(desk, 2)
    await desk.advance(2000)
    ids = [(await desk.enqueue(**HOLD))["job_id"] for _ in range(5)]
    starts = [(await why(desk, job_id))["estimated_start_at"] - begin for job_id in ids]
    assert starts == [10_000, 10_000, 20_000, 20_000, 30_000]


async def test_nobody_knows_when_no_run_has_ended_yet(desk: Harness) -> None:
    await busy(desk, 2)
    job_id = (await desk.enqueue())["job_id"]
    assert (await why(desk, job_id))["estimated_start_at"] is None


async def test_it_takes_a_prefix_and_stores_nothing(desk: Harness) -> None:
    job_id = (await desk.enqueue(schedule={"type": "CONDITION", "wait_for_event": "e"}))["job_id"]
    await desk.settle()
    before = desk.daemon.feed.newest
    found = await desk.call("job.explain", job_id=job_id[:8])
    assert (found["job_id"], desk.daemon.feed.newest) == (job_id, before)


async def test_a_job_that_is_not_there(desk: Harness) -> None:
    with pytest.raises(RpcError) as caught:
        await desk.call("job.explain", job_id="abcdef01")
    assert (caught.value.code, caught.value.data["code"]) == (4001, "E_JOB_NOT_FOUND")
