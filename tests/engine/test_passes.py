"""The one loop of the background parts: no wake is lost, no wait is too long, and nothing polls."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from semantica_daemon.engine.passes import Pass, Wake
from tests.cases import each_case
from tests.engine.manual_time import after_the_last_sync, fire_only, passes, rest
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
    one = Pass(part.step, Wake("part", clock), clock)
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
        one.wake.set()
        part.gate.set()
        await rest()
        assert part.steps == 2


async def test_something_due_that_is_committed_during_a_step_is_not_forgotten() -> None:
    """However late it is due: the step under way may have looked before it was there."""
    part, clock = Part(), ManualClock()
    async with started(part, clock) as one:
        part.gate.clear()
        one.wake.set()
        await rest()
        one.wake.wake_by(START + 1_000_000)
        one.wake.wake_by(START + 2_000_000)
        part.gate.set()
        await rest()
        assert part.steps == 2, "a step that wakes itself for later must not repeat without end"
        await go(clock, 1_000_000)
        assert part.steps == 3


async def test_it_is_not_forgotten_either_when_the_part_had_been_waiting_for_something_sooner() -> None:
    """That is past when the step under way has looked, and says nothing of what is committed meanwhile."""
    part, clock = Part(), ManualClock()
    part.due = START + 5000
    async with started(part, clock) as one:
        part.gate.clear()
        one.wake.set()
        await rest()
        one.wake.wake_by(START + 1_000_000)
        part.due = None
        part.gate.set()
        await rest()
        assert (part.steps, one.last.next_at) == (2, START + 1_000_000)


async def test_many_wakes_are_one() -> None:
    part, clock = Part(), ManualClock()
    async with started(part, clock) as one:
        for _ in range(100):
            one.wake.set()
        await rest()
        assert part.steps == 2


async def test_only_what_is_sooner_wakes_a_part_that_waits() -> None:
    part, clock = Part(), ManualClock()
    part.due = START + 5000
    async with started(part, clock) as one:
        one.wake.wake_by(START + 5000)
        await rest()
        assert part.steps == 1
        one.wake.wake_by(START + 4999)
        await rest()
        assert part.steps == 2


@each_case("due_ms", [29_999, 3_600_000, 86_400_000])
async def test_a_wait_is_one_timer_however_long_it_is(due_ms: int) -> None:
    part, clock = Part(), ManualClock()
    part.due = START + due_ms
    async with started(part, clock):
        await go(clock, due_ms - 1)
        assert part.steps == 1
        part.due = None
        await go(clock, 1)
        assert part.steps == 2


@each_case("away", [ManualClock.suspend, ManualClock.step])
async def test_a_timer_that_stood_still_or_whose_clock_was_set_is_set_anew_once(
    away: Callable[[ManualClock, int], None],
) -> None:
    part, clock = Part(), ManualClock()
    part.due = START + 60_000
    async with started(part, clock) as one:
        away(clock, 50)
        one.check_clock()
        await rest()
        assert part.steps == 1, "less is the clock being disciplined"
        away(clock, 50_000)
        for _ in range(2):
            one.check_clock()
            await rest()
            assert part.steps == 2
        await go(clock, 9_949)
        assert part.steps == 2
        part.due = None
        await go(clock, 1)
        assert part.steps == 3


async def test_asked_to_look_a_part_with_nothing_due_sleeps_on() -> None:
    part, clock = Part(), ManualClock()
    async with started(part, clock) as one:
        clock.suspend(86_400_000)
        one.check_clock()
        await rest()
        assert part.steps == 1


async def test_an_idle_daemon_looks_after_its_socket_every_five_seconds_and_does_nothing_else(manual: Harness) -> None:
    done = await manual.enqueue()
    await manual.advance(5000)
    assert await manual.state(done["job_id"]) == "DONE"
    before = await after_the_last_sync(manual)
    fired = await fire_only(manual, 60_000)
    after = await passes(manual)
    assert fired == 12
    assert after == before | {"socket": before["socket"] + 12}


async def test_far_jobs_and_far_schedules_cost_nothing_until_they_are_due(manual: Harness) -> None:
    """Not even a commit; and an idle machine's jobs that are not due yet are no reason to look at the machine."""
    specs = [{"type": "AFTER", "delay_ms": 3_600_000}, {"type": "AT", "scheduled_at": START + 3_600_000}]
    specs += [{"type": "CONDITION", "wait_for_event": "e"}, {**specs[0], "wait_for_idle": True}]
    for spec in specs:
        await manual.enqueue(schedule=spec)
    await manual.call("template.put", name="t", spec={"job_type": "semantica.noop"})
    await manual.call("schedule.put", name="s", template_id="t", cron_expression="@yearly")
    await manual.advance(5000)
    before = await after_the_last_sync(manual)
    assert await fire_only(manual, 60_000) == 12
    assert await passes(manual) == before | {"socket": before["socket"] + 12}
