"""Cancelling: first asked, then made. What waits ends at once, what runs ends when it is really gone."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.engine.sample_handlers import Door
from tests.engine.stream import types_of
from tests.harness import Harness

Doors = Callable[[str], Door]


async def start(harness: Harness, job_type: str, door: Door, name: str, **spec: Any) -> str:
    """A job that stands at its door, really inside its handler."""
    ack = await harness.enqueue(job_type, payload={"door": name}, **spec)
    assert await asyncio.to_thread(door.entered.wait, 40)
    return str(ack["job_id"])


async def test_what_is_queued_or_scheduled_is_cancelled_at_once(timed: Harness) -> None:
    await timed.call("queue.pause")
    queued = (await timed.enqueue())["job_id"]
    scheduled = (await timed.enqueue(schedule={"type": "AFTER", "delay_ms": 1000}))["job_id"]
    answer = await timed.call("job.cancel", job_ids=[queued, scheduled], reason="not needed")
    assert answer == {"cancelled": [queued, scheduled], "cancelling": [], "unchanged": []}
    await timed.call("queue.resume")
    await timed.advance(5000)
    for job_id in (queued, scheduled):
        job = await timed.job(job_id)
        assert (job["state"], job["run_count"], job["started_at"]) == ("CANCELLED", 0, None)
        assert (await types_of(timed, job_id))[-1] == "job.cancelled"


async def test_cancelling_what_is_finished_changes_nothing_and_is_no_error(real: Harness) -> None:
    job = await real.ended((await real.enqueue())["job_id"])
    answer = await real.call("job.cancel", job_id=job["job_id"])
    assert answer == {"cancelled": [], "cancelling": [], "unchanged": [job["job_id"]]}
    assert await real.job(job["job_id"]) == job


async def test_a_running_async_handler_is_interrupted(working: Harness, door: Doors) -> None:
    job_id = await start(working, "hold", door("a"), "a", max_attempts=3)
    answer = await working.call("job.cancel", job_id=job_id, wait_ms=5000)
    assert answer == {"cancelled": [job_id], "cancelling": [], "unchanged": []}
    job = await working.job(job_id)
    assert (job["state"], job["attempts"], job["error"]) == ("CANCELLED", 1, None)
    assert [run["status"] for run in job["runs"]] == ["CANCELLED"]
    assert job["cancel_requested_at"] is not None


async def test_an_accepted_cancel_wins_over_success(working: Harness, door: Doors) -> None:
    """The handler notices, cleans up and returns well; it is CANCELLED all the same, and its result is not kept."""
    place = door("a")
    job_id = await start(working, "clean_up", place, "a")
    await working.call("job.cancel", job_id=job_id)
    job = await working.ended(job_id)
    assert place.told == [True], "ctx.cancelled was true by then"
    assert (job["state"], job["result_summary"], job["error"]) == ("CANCELLED", None, None)


async def test_a_cancel_that_comes_with_the_end_of_the_run_wins(timed: Harness, door: Doors) -> None:
    place = door("a")
    job_id = await start(timed, "deaf", place, "a", max_attempts=3)
    cancel = asyncio.create_task(timed.call("job.cancel", job_id=job_id))
    place.open.set()
    answer = await cancel
    job = await timed.ended(job_id)
    expected = "CANCELLED" if answer["cancelling"] else "DONE"
    assert (job["state"], job["run_count"]) == (expected, 1)


async def test_a_sync_handler_sees_that_it_is_cancelled(working: Harness, door: Doors) -> None:
    job_id = await start(working, "attentive", door("a"), "a")
    answer = await working.call("job.cancel", job_id=job_id, wait_ms=5000)
    assert answer["cancelled"] == [job_id]
    assert await working.state(job_id) == "CANCELLED"
    assert "job.unresponsive" not in await types_of(working, job_id)


@pytest.mark.parametrize("job_type", ["stubborn", "deaf"])
async def test_who_does_not_listen_stays_running_and_keeps_the_slot(timed: Harness, door: Doors, job_type: str) -> None:
    place = door("a")
    job_id = await start(timed, job_type, place, "a", grace_ms=700)
    assert (await timed.call("job.cancel", job_id=job_id))["cancelling"] == [job_id]
    await timed.advance(699)
    assert "job.unresponsive" not in await types_of(timed, job_id)
    await timed.advance(1)
    assert (await types_of(timed, job_id))[-1] == "job.unresponsive"
    await timed.advance(60_000)
    assert (await types_of(timed, job_id)).count("job.unresponsive") == 1
    assert await timed.state(job_id) == "RUNNING"
    await the_other_slot_works(timed)
    place.open.set()
    job = await timed.ended(job_id)
    assert (job["state"], job["result_summary"], job["run_count"]) == ("CANCELLED", None, 1)


async def the_other_slot_works(harness: Harness) -> None:
    """Two jobs at once cannot run beside the stuck one, one after the other they do."""
    first, second = [(await harness.enqueue("semantica.noop"))["job_id"] for _ in range(2)]
    assert (await harness.ended(first))["state"] == "DONE"
    assert (await harness.ended(second))["state"] == "DONE"
    (queue,) = (await harness.call("queue.list"))["queues"]
    assert (queue["running"], queue["slots"]) == (1, 2)


async def test_the_daemons_own_grace_counts_when_the_job_names_none(timed: Harness, door: Doors) -> None:
    place = door("a")
    job_id = await start(timed, "deaf", place, "a")
    await timed.call("job.cancel", job_id=job_id)
    await timed.advance(4999)
    assert "job.unresponsive" not in await types_of(timed, job_id)
    await timed.advance(1)
    assert "job.unresponsive" in await types_of(timed, job_id)
    place.open.set()
    assert (await timed.ended(job_id))["state"] == "CANCELLED"


@pytest.mark.parametrize("job_type", ["hold", "deaf"])
async def test_a_cancel_right_behind_the_enqueue_is_never_lost(working: Harness, door: Doors, job_type: str) -> None:
    """Both in one write of one client: the cancel may meet the job before the first step of its run."""
    for number in range(20):
        place = door(f"d{number}")
        client = await working.client()
        spec = {"job_type": job_type, "payload": {"door": f"d{number}"}, "user_tag": f"t{number}"}
        enqueue = client.send("job.enqueue", **spec)
        cancel = client.send("job.cancel", user_tag=f"t{number}")
        job_id = (await client.result(enqueue))["job_id"]
        answer = await client.result(cancel)
        assert answer["cancelled"] + answer["cancelling"] == [job_id]
        place.open.set()
        assert (await working.ended(job_id))["state"] == "CANCELLED"
        await client.close()


async def test_a_second_cancel_changes_nothing(timed: Harness, door: Doors) -> None:
    place = door("a")
    job_id = await start(timed, "deaf", place, "a")
    await timed.call("job.cancel", job_id=job_id)
    before = await timed.job(job_id)
    await timed.advance(10)
    again = await timed.call("job.cancel", job_id=job_id)
    after = await timed.job(job_id)
    assert again["cancelling"] == [job_id]
    assert before["cancel_requested_at"] == after["cancel_requested_at"]
    assert (await types_of(timed, job_id)).count("job.log") == 1
    place.open.set()
    assert (await timed.ended(job_id))["state"] == "CANCELLED"


async def test_a_selection_cancels_every_live_job_of_it(working: Harness, door: Doors) -> None:
    await start(working, "hold", door("a"), "a", user_tag="mine")
    waiting = [{"job_type": "semantica.noop", "user_tag": "mine", "queue": "slow"}] * 1000
    await working.call("queue.pause", queue="slow")
    for _ in range(3):
        await working.call("job.enqueue_many", jobs=waiting)
    answer = await working.call("job.cancel", user_tag="mine", wait_ms=5000)
    assert (len(set(answer["cancelled"])), answer["cancelling"]) == (3001, [])
    stats = {one["queue"]: one for one in (await working.call("admin.stats"))["queues"]}
    assert stats["slow"]["cancelled"] == 3000
    assert stats["slow"]["queued"] == 0
