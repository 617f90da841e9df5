"""The injected clock: wall-clock instants in epoch ms, and timers on the monotonic clock.

Tests use a manual clock. Everything that happens to a job goes by this clock. Timeouts of callers, partial frames and
shutdown use the loop's clock.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Protocol


class Timer(Protocol):
    def cancel(self) -> None: ...


class Clock(Protocol):
    def now(self) -> int:
        """Epoch milliseconds, for what is stored and shown."""
        ...

    def monotonic(self) -> float:
        """Seconds of the monotonic clock, for measuring durations."""
        ...

    def elapsed(self) -> int:
        """Milliseconds since boot, including suspend; unaffected by clock changes."""
        ...

    def after(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        """Calls `callback` on the loop after `delay_ms`; time in suspend does not count."""
        ...


# macOS has no BOOTTIME; its MONOTONIC is one.
SINCE_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


class SystemClock:
    def now(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        return time.monotonic()

    def elapsed(self) -> int:
        return time.clock_gettime_ns(SINCE_BOOT) // 1_000_000

    def after(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        return asyncio.get_running_loop().call_later(delay_ms / 1000, callback)
