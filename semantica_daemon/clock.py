"""Time, injected: wall-clock instants in epoch ms, and timers by the monotonic clock.

Tests put a manual clock in its place. Everything that happens to a job goes by it; how long a caller waits, half a
frame may idle and the daemon takes to stop is plain elapsed time, and goes by the loop's own.
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
        """Seconds that never jump, for measuring."""
        ...

    def elapsed(self) -> int:
        """Milliseconds since boot: nobody sets them, and they go on while the machine is suspended."""
        ...

    def after(self, delay_ms: float, callback: Callable[[], object]) -> Timer:
        """Call `callback` on the loop in `delay_ms`, in which a suspended machine does not count."""
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
