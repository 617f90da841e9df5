"""A daemon in this process that dies at a failpoint: the transaction of that moment is lost or kept, and nothing more
is written. Killed processes are in `tests/crash`; here the clock is manual, so each commit can be the last."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from semantica_daemon import failpoints
from tests.harness import Harness, ManualClock, daemon

POINTS = ("before_commit", "after_commit_before_reply")
CRASHES = [(point, passage) for point in POINTS for passage in (1, 2, 3)]


async def crash(
    home: Path, clock: ManualClock, at: tuple[str, int], prepare: Callable[[Harness], Awaitable[object]], ms: int
) -> None:
    """Runs `prepare`, then lets `ms` pass, in which the daemon dies at the n-th passage of a failpoint."""
    try:
        async with daemon(home, clock) as harness:
            await prepare(harness)
            failpoints._armed.name, failpoints._armed._left = at
            failpoints._armed._action = "raise"
            until = clock._now + ms
            while (callback := clock.next_timer(until)) is not None:
                callback()
                await asyncio.sleep(0.01)  # its threads work in real time; ended by the crash
            await asyncio.sleep(10)  # on a busy machine they take longer than the timers
            pytest.fail(f"{at} was never reached")
    except BaseExceptionGroup as group:
        if group.subgroup(lambda error: str(error) == "failpoint") is None:
            raise
    finally:
        failpoints._armed.name = ""
