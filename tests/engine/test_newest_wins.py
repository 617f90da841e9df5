"""Newest wins, through the whole daemon: for queued, scheduled, retrying and running work alike."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from tests.engine.sample_handlers import Door
from tests.engine.stream import events, types_of
from tests.harness import START, Harness, RpcError

Doors = Callable[[str], Door]
LANE = {"subject_key": "vim::repo::a.py"}


async def save(harness: Harness, job_type: str = "semantica.noop", **spec: Any) -> Any:
    return await harness.enqueue(job_type, **LANE, **spec)


async def running(harness: Harness, door: Door, name: str, job_type: str = "hold", **spec: Any) -> str:
    ack = await save(harness, job_type, payload={"door": name}, **spec)
    assert await asyncio.to_thread(door.entered.wait, 40)
    return str(ack["job_id"])


async def test_fifty_saves_of_a_waiting_lane_give_one_run(manual: Harness) -> None:
    await manual.call("queue.pause")
    acks = [await save(manual) for _ in range(50)]
    assert [ack["generation"] for ack in acks] == list(range(1, 51))
    assert [ack["superseded"] for ack in acks[1:]] == [[ack["job_id"]] for ack in acks[:-1]]
    await manual.call("queue.resume")
    await manual.settle()
    assert [one["job_id"] for one in await events(manual, "job.started")] == [acks[-1]["job_id"]]
    for older, newer in pairwise(acks):
        job = await manual.job(older["job_id"])
        assert (job["state"], job["superseded_by"], job["run_count"]) == ("SUPERSEDED", newer["job_id"], 0)


async def test_a_scheduled_job_makes_way_and_never_comes_back(manual: Harness) -> None:
    old = await save(manual, schedule={"type": "AFTER", "delay_ms": 1000})
    new = await save(manual, schedule={"type": "AFTER", "delay_ms": 3000})
    assert new["superseded"] == [old["job_id"]]
    await manual.advance(10_000)
    assert (await manual.state(old["job_id"]), await manual.state(new["job_id"])) == ("SUPERSEDED", "DONE")
    assert await types_of(manual, old["job_id"]) == ["job.scheduled", "job.superseded"]


async def test_a_job_that_waits_for_its_retry_makes_way(timed: Harness) -> None:
    old = await save(timed, "fail_async", payload={"how": "plain"}, max_attempts=5, backoff_base_ms=5000)
    await timed.settle()
    assert await timed.state(old["job_id"]) == "SCHEDULED"
    new = await save(timed, "fail_async", payload={"how": "permanent"})
    assert new["superseded"] == [old["job_id"]]
    await timed.advance(60_000)
    job = await timed.job(old["job_id"])
    assert (job["state"], job["run_count"], job["superseded_by"]) == ("SUPERSEDED", 1, new["job_id"])


async def test_a_running_job_may_finish_and_is_marked_stale(timed: Harness, door: Doors) -> None:
    first, second = door("a"), door("b")
    old = await running(timed, first, "a")
    new = await save(timed, "hold", payload={"door": "b"})
    await timed.settle()
    assert (new["superseded"], await timed.state(new["job_id"])) == ([], "QUEUED")
    job = await timed.job(old)
    assert (job["state"], job["stale"]) == ("RUNNING", True)
    assert not second.entered.is_set(), "a lane runs one job at a time"
    first.open.set()
    job = await timed.ended(old)
    assert (job["state"], job["stale"], job["result_summary"]) == ("DONE", True, "held")
    (done,) = await events(timed, "job.done", job_id=old)
    assert done["payload"]["stale"] is True
    second.open.set()
    job = await timed.ended(new["job_id"])
    assert (job["state"], job["stale"]) == ("DONE", False)


async def test_a_lane_that_waits_for_its_running_job_blocks_nobody_else(timed: Harness, door: Doors) -> None:
    await running(timed, door("a"), "a")
    held_back = await save(timed, "hold", payload={"door": "b"}, priority=100)
    other = await timed.enqueue("semantica.noop", priority=-100)
    assert (await timed.ended(other["job_id"]))["state"] == "DONE"
    assert await timed.state(held_back["job_id"]) == "QUEUED"


async def test_a_stale_run_that_fails_is_not_tried_again(timed: Harness, door: Doors) -> None:
    first, second = door("a"), door("b")
    old = await running(timed, first, "a", "deaf", max_attempts=5, timeout_ms=100)
    new = await save(timed, "deaf", payload={"door": "b"})
    await timed.advance(101)
    first.open.set()
    job = await timed.ended(old)
    assert (job["state"], job["superseded_by"], job["run_count"]) == ("SUPERSEDED", new["job_id"], 1)
    second.open.set()
    assert (await timed.ended(new["job_id"]))["state"] == "DONE"


async def test_a_running_job_is_interrupted_when_the_newer_asks_for_it(timed: Harness, door: Doors) -> None:
    door("b").open.set()
    old = await running(timed, door("a"), "a", max_attempts=5)
    new = await save(timed, "hold", payload={"door": "b"}, on_running="cancel")
    job = await timed.ended(old)
    assert (job["state"], job["superseded_by"], job["error"]) == ("SUPERSEDED", new["job_id"], None)
    assert [run["status"] for run in job["runs"]] == ["SUPERSEDED"]
    assert (await timed.ended(new["job_id"]))["state"] == "DONE"


async def test_an_interrupted_thread_that_goes_on_holds_its_lane_until_it_returns(timed: Harness, door: Doors) -> None:
    place = door("a")
    old = await running(timed, place, "a", "deaf")
    door("b").open.set()
    new = await save(timed, "deaf", payload={"door": "b"}, on_running="cancel")
    await timed.advance(5000)
    assert (await types_of(timed, old))[-1] == "job.unresponsive"
    assert await timed.state(new["job_id"]) == "QUEUED"
    place.open.set()
    assert (await timed.ended(old))["state"] == "SUPERSEDED"
    assert (await timed.ended(new["job_id"]))["state"] == "DONE"


async def test_after_three_interruptions_in_a_row_the_running_one_is_left_to_finish(
    timed: Harness, door: Doors
) -> None:
    doors = [door(f"d{number}") for number in range(6)]
    ids = [await running(timed, doors[number], f"d{number}", on_running="cancel") for number in range(4)]
    assert [await timed.state(job_id) for job_id in ids] == ["SUPERSEDED"] * 3 + ["RUNNING"]
    waits = await save(timed, "hold", payload={"door": "d4"}, on_running="cancel")
    await timed.settle()
    assert (await timed.job(ids[3]))["stale"] is True
    assert not doors[4].entered.is_set()
    doors[3].open.set()
    assert (await timed.ended(ids[3]))["state"] == "DONE"
    assert await asyncio.to_thread(doors[4].entered.wait, 40)
    again = await running(timed, doors[5], "d5", on_running="cancel")
    assert await timed.state(waits["job_id"]) == "SUPERSEDED", "the count begins anew after one has finished"
    assert await timed.state(again) == "RUNNING"


async def test_an_older_generation_that_comes_late_is_recorded_and_never_runs(manual: Harness) -> None:
    new = await save(manual, generation=20)
    old = await save(manual, generation=10)
    assert (old["state"], old["generation"], old["existing"]) == ("SUPERSEDED", 10, False)
    await manual.settle()
    job = await manual.job(old["job_id"])
    assert (job["superseded_by"], job["run_count"], job["finished_at"]) == (new["job_id"], 0, START)
    assert await manual.state(new["job_id"]) == "DONE"


async def test_a_generation_that_is_known_gives_the_same_job_whatever_became_of_it(manual: Harness) -> None:
    first = await save(manual, generation=5)
    await manual.settle()
    again = await save(manual, generation=5, payload={"other": 1})
    assert (again["job_id"], again["existing"], again["state"]) == (first["job_id"], True, "DONE")
    assert len(await events(manual, "job.started")) == 1


async def test_a_lane_has_one_who_numbers_it(manual: Harness) -> None:
    await manual.call("queue.pause")
    await save(manual, generation=5)
    with pytest.raises(RpcError) as refused:
        await save(manual)
    assert (refused.value.code, refused.value.data["code"]) == (4002, "E_GENERATION_OWNER")
    assert refused.value.data["newest_generation"] == 5
    await manual.call("queue.resume")
    await manual.settle()
    assert (await save(manual))["generation"] == 6, "the owner may change while the lane has no live job"


async def test_a_whole_subject_is_superseded_across_its_types(manual: Harness) -> None:
    await manual.call("queue.pause")
    noop = await save(manual)
    echo = await save(manual, "semantica.echo", supersede="subject")
    outside = await save(manual, supersede="none")
    assert echo["superseded"] == [noop["job_id"]]
    await manual.call("queue.resume")
    await manual.settle()
    states = [await manual.state(one["job_id"]) for one in (noop, echo, outside)]
    assert states == ["SUPERSEDED", "DONE", "DONE"]
