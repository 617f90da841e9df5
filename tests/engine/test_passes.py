"""The one loop of the background parts: no wake is lost, no wait is too long, and nothing polls."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from semantica_daemon.engine.passes import LONGEST_WAIT_MS, Pass
from tests.engine.clockwork import fire_only, rest
from tests.harness import START, Harness, ManualClock


class Part:
    """A step that stands still where a test wants it to; `due` is what it answers."""

    def __init__(self) -> None:
        self.steps = 0
        self.due: int | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def step(self) -> int | None:
        self.steps += 1
        await self.gate.wait()
        return self.due


@asynccontextmanager
async def started(part: Part, clock: ManualClock) -> AsyncIterator[Pass]:
    one = Pass("part", part.step, clock)
    task = asyncio.create_task(one.run())
    await rest()
    yield one
    task.cancel()


async def go(clock: ManualClock, ms: float) -> None:
    until = clock._now + ms
    while (callback := clock.next_timer(until)) is not None:
        callback()
        await rest()
    await rest()


async def test_a_wake_during_a_step_brings_another_step() -> None:
    part, clock = Part(), ManualClock()
    part.gate.clear()
    async with started(part, clock) as one:
        one.wake()
        part.gate.set()
        await rest()
        assert part.steps == 2


async def test_something_due_that_is_committed_during_a_step_is_not_forgotten() -> None:
    """However late it is due: the step under way may have looked before it was there."""
    part, clock = Part(), ManualClock()
    async with started(part, clock) as one:
        part.gate.clear()
        one.wake()
        await rest()
        one.wake_by(START + 1_000_000)
        part.gate.set()
        await rest()
        assert part.steps == 3


async def test_many_wakes_are_one() -> None:
    part, clock = Part(), ManualClock()
    async with started(part, clock) as one:
        for _ in range(100):
            one.wake()
        await rest()
        assert part.steps == 2


async def test_only_what_is_sooner_wakes_a_part_that_waits() -> None:
    part, clock = Part(), ManualClock()
    part.due = START + 5000
    async with started(part, clock) as one:
        one.wake_by(START + 5000)
        await rest()
        assert part.steps == 1
        one.wake_by(START + 4999)
        await rest()
        assert part.steps == 2


@pytest.mark.parametrize(("due_ms", "steps"), [(29_999, 2), (120_000, 5)])
async def test_a_wait_is_cut_into_pieces_of_thirty_seconds(due_ms: int, steps: int) -> None:
    part, clock = Part(), ManualClock()
    part.due = START + due_ms
    async with started(part, clock):
        longest = max(at for at, _, _ in clock._timers) - START
        assert longest <= LONGEST_WAIT_MS == 30_000
        await go(clock, due_ms - 1)
        assert part.steps == steps - 1
        part.due = None
        await go(clock, 1)
        assert part.steps == steps


async def test_no_timer_of_the_whole_daemon_waits_longer_than_thirty_seconds(manual: Harness) -> None:
    await manual.enqueue(schedule={"type": "AFTER", "delay_ms": 3_600_000})
    await manual.enqueue("semantica.sleep", payload={"ms": 60_000}, deadline=START + 3_600_000)
    await manual.settle()
    assert isinstance(manual.clock, ManualClock)
    live = [at for at, number, _ in manual.clock._timers if number not in manual.clock._cancelled]
    assert live
    assert max(live) - manual.clock.now() <= 30_000


async def passes(harness: Harness) -> dict[str, int]:
    parts = (await harness.call("admin.health"))["parts"]
    counts = {name: part["passes"] for name, part in parts.items() if "passes" in part}
    return counts | {"batches": parts["writer"]["batches"]}


async def test_an_idle_daemon_looks_after_its_socket_every_five_seconds_and_does_nothing_else(manual: Harness) -> None:
    done = await manual.enqueue()
    await manual.advance(5000)
    assert await manual.state(done["job_id"]) == "DONE"
    before = await after_the_last_sync(manual)
    fired = await fire_only(manual, 60_000)
    after = await passes(manual)
    assert fired == 12
    assert after == before | {"socket": before["socket"] + 12}


async def after_the_last_sync(harness: Harness) -> dict[str, int]:
    """Every burst is followed by one synced commit within a second; the counts once it is there."""
    commits = (await passes(harness))["batches"]
    assert await fire_only(harness, 1000) == 1
    while (counts := await passes(harness))["batches"] == commits:
        await rest()
    return counts


async def test_a_far_job_costs_a_look_every_thirty_seconds_and_no_more(manual: Harness) -> None:
    await manual.enqueue(schedule={"type": "AFTER", "delay_ms": 3_600_000})
    await manual.advance(2000)
    before = (await passes(manual))["scheduler"]
    await manual.advance(120_000)
    assert (await passes(manual))["scheduler"] - before == 4
