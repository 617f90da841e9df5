"""Timeouts, deadlines, expiry, retries and schedules on a manual clock: nothing comes early, nothing is forgotten."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.engine.sample_handlers import Door
from tests.engine.stream import events
from tests.harness import START, Harness

Doors = Callable[[str], Door]


async def at_its_door(harness: Harness, door: Door, **spec: Any) -> str:
    ack = await harness.enqueue(**spec)
    assert await asyncio.to_thread(door.entered.wait, 40)
    return str(ack["job_id"])


async def test_a_timeout_ends_the_run_and_the_job_may_be_tried_again(timed: Harness, door: Doors) -> None:
    spec = {"job_type": "hold", "payload": {"door": "a"}, "timeout_ms": 800, "max_attempts": 2}
    job_id = await at_its_door(timed, door("a"), **spec)
    await timed.advance(799)
    assert await timed.state(job_id) == "RUNNING"
    await timed.advance(1)
    job = await timed.job(job_id)
    assert (job["state"], job["error"]["code"], job["error"]["class"]) == ("SCHEDULED", "E_TIMEOUT", "transient")
    await timed.advance(1101 + 800)
    job = await timed.job(job_id)
    assert (job["state"], job["error"]["code"], job["attempts"]) == ("FAILED", "E_TIMEOUT", 2)
    assert [run["status"] for run in job["runs"]] == ["FAILED", "FAILED"]


async def test_a_timed_out_thread_keeps_its_slot_until_it_returns(timed: Harness, door: Doors) -> None:
    place = door("a")
    spec = {"job_type": "deaf", "payload": {"door": "a"}, "timeout_ms": 100, "grace_ms": 50}
    job_id = await at_its_door(timed, place, **spec)
    await timed.advance(151)
    assert await timed.state(job_id) == "RUNNING"
    listed = await timed.call("event.list", job_id=job_id, event_types=["job.unresponsive"])
    assert len(listed["events"]) == 1
    place.open.set()
    job = await timed.ended(job_id)
    assert (job["state"], job["error"]["code"], job["result_summary"]) == ("FAILED", "E_TIMEOUT", None)


async def test_a_deadline_ends_a_run_for_good(timed: Harness, door: Doors) -> None:
    """Far enough away that it is looked at several times before."""
    spec = {"job_type": "hold", "payload": {"door": "a"}, "deadline": START + 100_000, "max_attempts": 5}
    job_id = await at_its_door(timed, door("a"), **spec)
    await timed.advance(99_999)
    assert await timed.state(job_id) == "RUNNING"
    await timed.advance(1)
    job = await timed.job(job_id)
    assert (job["state"], job["error"]["code"], job["error"]["class"]) == ("FAILED", "E_DEADLINE", "permanent")
    assert job["attempts"] == 1


@pytest.mark.parametrize("scheduled", [False, True])
async def test_a_deadline_skips_what_has_not_started(manual: Harness, scheduled: bool) -> None:
    await manual.call("queue.pause")
    schedule = {"type": "AT", "scheduled_at": START + 60_000} if scheduled else {"type": "IMMEDIATE"}
    job_id = (await manual.enqueue(deadline=START + 5000, schedule=schedule))["job_id"]
    await manual.advance(4999)
    assert await manual.state(job_id) == ("SCHEDULED" if scheduled else "QUEUED")
    await manual.advance(1)
    job = await manual.job(job_id)
    assert (job["state"], job["finished_at"], job["run_count"]) == ("SKIPPED_DEADLINE", START + 5000, 0)


async def test_a_deadline_between_two_attempts_skips_the_next(timed: Harness) -> None:
    spec = {"payload": {"how": "plain"}, "max_attempts": 5, "backoff_base_ms": 10_000, "deadline": START + 3000}
    job_id = (await timed.enqueue("fail_async", **spec))["job_id"]
    await timed.settle()
    assert await timed.state(job_id) == "SCHEDULED"
    await timed.advance(3000)
    assert await timed.state(job_id) == "SKIPPED_DEADLINE"


async def test_what_waits_longer_than_its_ttl_is_skipped_when_that_has_passed(manual: Harness) -> None:
    await manual.call("queue.pause")
    job_id = (await manual.enqueue(ttl_ms=2000))["job_id"]
    await manual.advance(1999)
    assert await manual.state(job_id) == "QUEUED"
    await manual.advance(1)
    assert (await manual.job(job_id))["finished_at"] == START + 2000
    assert await manual.state(job_id) == "SKIPPED_TTL"


async def test_a_ttl_counts_from_when_the_job_became_queued(manual: Harness) -> None:
    await manual.call("queue.pause")
    job_id = (await manual.enqueue(ttl_ms=2000, schedule={"type": "AFTER", "delay_ms": 120_000}))["job_id"]
    await manual.advance(120_000 + 1999)
    assert await manual.state(job_id) == "QUEUED"
    await manual.advance(1)
    assert await manual.state(job_id) == "SKIPPED_TTL"


async def test_backoff_is_really_waited_and_grows(timed: Harness) -> None:
    """base × factor^(attempts - 1), within ten percent; the last failure is final."""
    spec = {"payload": {"how": "plain"}, "max_attempts": 4, "backoff_base_ms": 1000, "backoff_factor": 3.0}
    job_id = (await timed.enqueue("fail_async", **spec))["job_id"]
    for attempt, expected in ((1, 1000), (2, 3000), (3, 9000)):
        await timed.settle()
        job = await timed.job(job_id)
        wait = job["scheduled_at"] - timed.clock.now()
        assert (job["state"], job["attempts"]) == ("SCHEDULED", attempt)
        assert 0.9 * expected <= wait <= 1.1 * expected
        await timed.advance(wait - 1)
        assert await timed.state(job_id) == "SCHEDULED"
        await timed.advance(1)
    job = await timed.job(job_id)
    assert (job["state"], job["attempts"], len(job["runs"])) == ("FAILED", 4, 4)
    starts = [run["started_at"] for run in job["runs"]]
    assert all(later > earlier for earlier, later in pairwise(starts))


async def test_a_linear_backoff_grows_by_its_first_wait_up_to_its_limit(timed: Harness) -> None:
    spec = {"payload": {"how": "plain"}, "max_attempts": 5, "backoff": "linear", "backoff_max_ms": 2500}
    job_id = (await timed.enqueue("fail_async", **spec))["job_id"]
    for expected in (1000, 2000, 2500, 2500):
        await timed.settle()
        wait = (await timed.job(job_id))["scheduled_at"] - timed.clock.now()
        assert 0.9 * expected <= wait <= min(1.1 * expected, 2500)
        await timed.advance(wait)
    assert (await timed.job(job_id))["state"] == "FAILED"


async def test_a_handler_says_after_how_many_seconds_it_is_tried_again(timed: Harness) -> None:
    payload = {"after": 7.5, "message": "the server is busy"}
    spec = {"payload": payload, "max_attempts": 2, "backoff_base_ms": 10, "backoff_max_ms": 100}
    job_id = (await timed.enqueue("ask_again_async", **spec))["job_id"]
    await timed.settle()
    job = await timed.job(job_id)
    assert job["scheduled_at"] - timed.clock.now() == 7500
    assert (job["error"]["message"], job["error"]["details"]) == ("the server is busy", None)
    await timed.advance(7499)
    assert await timed.state(job_id) == "SCHEDULED"
    await timed.advance(1)
    assert await timed.state(job_id) == "FAILED"


@pytest.mark.parametrize("max_attempts", [0, 1])
async def test_none_or_one_attempt_is_one_run(timed: Harness, max_attempts: int) -> None:
    job_id = (await timed.enqueue("fail_async", payload={"how": "plain"}, max_attempts=max_attempts))["job_id"]
    await timed.advance(120_000)
    job = await timed.job(job_id)
    assert (job["state"], job["attempts"], len(job["runs"])) == ("FAILED", 1, 1)


async def test_a_permanent_failure_is_not_tried_again(timed: Harness) -> None:
    job_id = (await timed.enqueue("fail_async", payload={"how": "permanent"}, max_attempts=9))["job_id"]
    await timed.advance(120_000)
    job = await timed.job(job_id)
    assert (job["state"], len(job["runs"])) == ("FAILED", 1)


async def test_a_job_at_an_instant_of_the_past_runs_now_and_its_caller_is_told(manual: Harness) -> None:
    ack = await manual.enqueue(schedule={"type": "AT", "scheduled_at": START - 1})
    assert ack["state"] == "QUEUED"
    assert any("past" in warning for warning in ack["warnings"])
    await manual.settle()
    assert await manual.state(ack["job_id"]) == "DONE"


async def test_a_job_at_a_future_instant_starts_then(manual: Harness) -> None:
    ack = await manual.enqueue(schedule={"type": "AT", "scheduled_at": START + 90_000})
    assert (ack["state"], ack["warnings"]) == ("SCHEDULED", [])
    await manual.advance(89_999)
    assert await manual.state(ack["job_id"]) == "SCHEDULED"
    await manual.advance(1)
    assert (await manual.job(ack["job_id"]))["started_at"] == START + 90_000


async def test_an_earlier_job_that_comes_later_is_not_kept_waiting(manual: Harness) -> None:
    late = (await manual.enqueue(schedule={"type": "AFTER", "delay_ms": 60_000}))["job_id"]
    await manual.advance(1)
    early = (await manual.enqueue(schedule={"type": "AFTER", "delay_ms": 100}))["job_id"]
    await manual.advance(100)
    assert (await manual.state(early), await manual.state(late)) == ("DONE", "SCHEDULED")


async def test_a_thousand_jobs_due_at_one_instant_all_run_then_in_their_order(manual: Harness) -> None:
    spec = {"job_type": "semantica.noop", "schedule": {"type": "AT", "scheduled_at": START + 1000}}
    acks = (await manual.call("job.enqueue_many", jobs=[spec] * 1000))["jobs"]
    await manual.advance(1000)
    stats = (await manual.call("admin.stats"))["queues"][0]
    assert (stats["done"], stats["scheduled"], stats["queued"]) == (1000, 0, 0)
    assert [one["job_id"] for one in await events(manual, "job.started")] == [ack["job_id"] for ack in acks]
    assert (await manual.job(acks[-1]["job_id"]))["started_at"] == START + 1000


async def test_a_paused_queue_resumes_when_it_was_told_to(manual: Harness) -> None:
    answer = await manual.call("queue.pause", queue="default", resume_after_ms=45_000)
    assert answer["resume_at"] == START + 45_000
    job_id = (await manual.enqueue())["job_id"]
    other = (await manual.enqueue(queue="other"))["job_id"]
    await manual.advance(44_999)
    assert (await manual.state(job_id), await manual.state(other)) == ("QUEUED", "DONE")
    await manual.advance(1)
    assert await manual.state(job_id) == "DONE"
    queues = {one["queue"]: one for one in (await manual.call("queue.list"))["queues"]}
    assert (queues["default"]["paused"], queues["default"]["resume_at"]) == (False, None)


async def test_every_queue_paused_resumes_when_it_was_told_to(manual: Harness) -> None:
    await manual.call("queue.pause", resume_after_ms=1000)
    job_id = (await manual.enqueue(queue="any"))["job_id"]
    await manual.advance(999)
    assert await manual.state(job_id) == "QUEUED"
    await manual.advance(1)
    assert await manual.state(job_id) == "DONE"
