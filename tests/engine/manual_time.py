"""Moves a manual clock without the round trips of `Harness.settle`, which are commits of their own."""

import asyncio

from tests.harness import Harness, ManualClock


async def rest() -> None:
    for _ in range(10):
        await asyncio.sleep(0)


async def fire_only(harness: Harness, ms: float) -> int:
    """Fires what is due within `ms`; how many timers that were."""
    assert isinstance(harness.clock, ManualClock)
    fired = 0
    until = harness.clock._now + ms
    while (callback := harness.clock.next_timer(until)) is not None:
        fired += 1
        callback()
        await rest()
    return fired


async def passes(harness: Harness) -> dict[str, int]:
    parts = (await harness.call("admin.health"))["parts"]
    counts = {name: part["passes"] for name, part in parts.items() if "passes" in part}
    return counts | {"batches": parts["writer"]["batches"]}


async def after_the_last_sync(harness: Harness) -> dict[str, int]:
    """Every burst is followed by one synced commit within a second; the counts once it is there."""
    commits = (await passes(harness))["batches"]
    assert await fire_only(harness, 1000) == 1
    while (counts := await passes(harness))["batches"] == commits:
        await rest()
    return counts


async def leap(harness: Harness, ms: int) -> None:
    """As `advance`, but from one thing that is due to the next: nobody looks after the socket in between. For days."""
    clock, scheduler = harness.clock, harness.daemon.passes[0]
    assert isinstance(clock, ManualClock)
    assert scheduler.wake.name == "scheduler"
    await harness.settle()
    until = clock.now() + ms
    while (due := scheduler.last.next_at) is not None and due <= until and clock.now() < until:
        await _go_to(harness, clock, due)
        if scheduler.last.next_at == due:  # it slept, and did not know; who looks after the socket wakes it
            await harness.advance(min(5000, until - clock.now()))
    await _go_to(harness, clock, until)


async def _go_to(harness: Harness, clock: ManualClock, instant: int) -> None:
    """One short of it, as if nothing had been due before; then as any other time."""
    left = max(0, instant - clock.now())
    clock._now += max(0, left - 1)
    await harness.advance(min(1, left))
