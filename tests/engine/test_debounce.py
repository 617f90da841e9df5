"""debounce_ms and max_wait_ms: a lane runs when it has been quiet, and a lane that is never quiet runs all the same."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.sample_handlers import Door
from tests.engine.stream import events
from tests.harness import START, Harness, ManualClock, daemon


async def save(harness: Harness, **spec: Any) -> Any:
    given = {"subject_key": "vim::repo::a.py", "debounce_ms": 1000, **spec}
    return await harness.enqueue(**given)


async def starts(harness: Harness) -> list[tuple[int, str]]:
    """(when, in ms since the beginning; which job), in the order of their starts."""
    return [(one["timestamp_at"] - START, one["job_id"]) for one in await events(harness, "job.started")]


@pytest.mark.parametrize("numbered", [False, True], ids=["by the server", "by the client"])
async def test_fifty_saves_in_a_second_give_one_run(manual: Harness, numbered: bool) -> None:
    acks = []
    for number in range(50):
        acks.append(await save(manual, **({"generation": START + number} if numbered else {})))
        await manual.advance(20)
    await manual.advance(1000 - 21)
    assert await starts(manual) == []
    await manual.advance(1)
    assert await starts(manual) == [(49 * 20 + 1000, acks[-1]["job_id"])]
    assert [ack["state"] for ack in acks] == ["SCHEDULED"] * 50
    assert [ack["superseded"] for ack in acks] == [[], *([ack["job_id"]] for ack in acks[:-1])]
    await manual.advance(5000)
    assert len(await starts(manual)) == 1


async def test_a_lane_that_never_goes_quiet_runs_every_max_wait_ms(manual: Harness) -> None:
    """A save every 300 ms for 10 s: the first that is postponed begins the wait, and the newest by its end runs."""
    acks = {}
    for at in range(0, 10_000, 300):
        acks[at] = (await save(manual, max_wait_ms=2000))["job_id"]
        await manual.advance(300)
    by_now = [(2000, acks[1800]), (4100, acks[3900]), (6200, acks[6000]), (8300, acks[8100])]
    assert await starts(manual) == by_now
    await manual.advance(1000)
    assert await starts(manual) == [*by_now, (10_400, acks[9900])]


async def test_without_max_wait_ms_a_busy_lane_waits_for_its_rest(manual: Harness) -> None:
    for _ in range(30):
        last = await save(manual)
        await manual.advance(999)
    assert await starts(manual) == []
    await manual.advance(1)
    assert await starts(manual) == [(29 * 999 + 1000, last["job_id"])]


async def test_what_comes_late_in_max_wait_ms_waits_no_longer_than_the_rest_of_it(manual: Harness) -> None:
    for _ in range(3):
        await save(manual, debounce_ms=1000, max_wait_ms=2500)
        await manual.advance(900)
    assert await starts(manual) == [(2500, (await manual.call("job.list"))["items"][0]["job_id"])]


async def test_each_lane_is_quiet_by_itself(manual: Harness) -> None:
    other_type = await save(manual, job_type="semantica.echo")
    other_file = await save(manual, subject_key="vim::repo::b.py")
    await manual.advance(900)
    last = await save(manual)
    await manual.advance(100)
    assert {job_id for _, job_id in await starts(manual)} == {other_type["job_id"], other_file["job_id"]}
    await manual.advance(900)
    assert (await starts(manual))[-1] == (1900, last["job_id"])


async def test_a_generation_that_is_known_postpones_nothing(manual: Harness) -> None:
    first = await save(manual, generation=7)
    await manual.advance(999)
    again = await save(manual, generation=7)
    assert (again["job_id"], again["existing"]) == (first["job_id"], True)
    await manual.advance(1)
    assert await starts(manual) == [(1000, first["job_id"])]


async def test_a_plan_postpones_nothing(manual: Harness) -> None:
    first = await save(manual)
    await manual.advance(999)
    plan = await manual.call("job.plan", job_type="semantica.noop", subject_key="vim::repo::a.py", debounce_ms=1000)
    assert (plan["state"], plan["would_supersede"]) == ("SCHEDULED", [first["job_id"]])
    assert str(START + 1999) in plan["starts_when"]
    await manual.advance(1)
    assert await starts(manual) == [(1000, first["job_id"])]


async def test_saves_during_a_run_give_one_more_run_after_it(timed: Harness, door: Callable[[str], Door]) -> None:
    place = door("a")
    spec = {"job_type": "hold", "payload": {"door": "a"}}
    first = await save(timed, **spec)
    await timed.advance(1000)
    assert await asyncio.to_thread(place.entered.wait, 40)
    for _ in range(5):
        last = await save(timed, **spec)
        await timed.advance(100)
    await timed.advance(2000)
    assert [await timed.state(ack["job_id"]) for ack in (first, last)] == ["RUNNING", "QUEUED"]
    place.open.set()
    assert (await timed.ended(last["job_id"]))["state"] == "DONE"
    assert [job_id for _, job_id in await starts(timed)] == [first["job_id"], last["job_id"]]


async def test_what_was_postponed_and_could_not_start_yet_is_postponed_no_further_than_max_wait_ms(
    manual: Harness,
) -> None:
    """Its queue is paused: the newest takes the place of the one that was due, and need not be quiet again."""
    await manual.call("queue.pause")
    for _ in range(2):
        ack = await save(manual, max_wait_ms=1500)
        await manual.advance(1000)
    assert ack["state"] == "SCHEDULED"
    late = await save(manual, max_wait_ms=1500)
    assert (late["state"], late["superseded"]) == ("QUEUED", [ack["job_id"]])


@pytest.mark.parametrize(
    ("schedule", "at"),
    [
        ({"type": "AFTER", "delay_ms": 5000}, 5000),
        ({"type": "AFTER", "delay_ms": 10}, 1000),
        ({"type": "AT", "scheduled_at": START + 3000}, 3000),
        ({"type": "CONDITION", "wait_for_event": "e"}, 1000),
    ],
)
async def test_what_else_is_asked_for_has_to_hold_as_well(manual: Harness, schedule: dict[str, Any], at: int) -> None:
    ack = await save(manual, schedule=schedule)
    await manual.call("event.emit", key="e")
    await manual.advance(at - 1)
    assert await starts(manual) == []
    await manual.advance(1)
    assert await starts(manual) == [(at, ack["job_id"])]


async def test_a_lane_that_was_quiet_while_no_daemon_ran_runs_at_once(home: Path) -> None:
    clock = ManualClock()
    async with daemon(home, clock) as harness:
        await save(harness)
        await harness.advance(500)
        last = await save(harness)
        await harness.advance(600)
        assert await starts(harness) == []
    clock.suspend(400)
    async with daemon(home, clock) as harness:
        await harness.settle()
        assert await starts(harness) == [(1500, last["job_id"])]


async def test_a_restart_does_not_begin_max_wait_ms_anew(home: Path) -> None:
    clock = ManualClock()
    for number in range(3):
        async with daemon(home, clock, seed=number) as harness:
            await save(harness, max_wait_ms=3000)
            await harness.advance(900)
            assert await starts(harness) == []
    async with daemon(home, clock, seed=3) as harness:
        last = await save(harness, max_wait_ms=3000)
        await harness.advance(299)
        assert await starts(harness) == []
        await harness.advance(1)
        assert await starts(harness) == [(3000, last["job_id"])]


async def test_a_retry_waits_for_its_backoff_not_for_quiet(timed: Harness) -> None:
    spec = {"job_type": "fail_async", "payload": {"how": "plain"}, "max_attempts": 2, "backoff_base_ms": 100}
    job_id = (await save(timed, debounce_ms=10_000, **spec))["job_id"]
    await timed.advance(10_000)
    await timed.advance(111)
    job = await timed.job(job_id)
    assert (job["state"], job["attempts"]) == ("FAILED", 2)
