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
