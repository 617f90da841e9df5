"""The one loop every background part runs in: clear the wake, step, wait until it is due or woken."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from semantica_daemon.clock import Clock

TOLERATED_MS = 100


class LastPass(Struct):
    """What admin.health shows of a part."""

    at: int | None = None
    passes: int = 0
    next_at: int | None = None


class Pass:
    """`step` does what is due and answers the instant (epoch ms) of the next, None when only a wake brings one."""

    def __init__(self, name: str, step: Callable[[], Awaitable[int | None]], clock: Clock) -> None:
        self.name = name
        self.last = LastPass()
        self._step = step
        self._clock = clock
        self._wake = asyncio.Event()
        self._error_ms = 0.0

    def wake(self) -> None:
        self._wake.set()

    def wake_by(self, instant: int) -> None:
        """Woken only if that is sooner than it would come by itself; or if it should be at it already."""
        next_at = self.last.next_at
        if next_at is None or instant < next_at or next_at <= self._clock.now():
            self._wake.set()

    def look_at_clock(self) -> None:
        """Its timer stands still while the machine is suspended, and knows nothing of a clock that was set: called
        every few seconds (`daemon`), which wakes nobody else. It is woken if its timer is wrong."""
        waits = self.last.next_at is not None
        if waits and abs(self._timer_error_ms() - self._error_ms) > TOLERATED_MS:
            self._wake.set()

    async def run(self) -> None:
        while True:
            self._wake.clear()
            self.last.next_at = None  # what is committed while it steps must wake it, however late that is due
            self.last.next_at = await self._step()
            self.last.at = self._clock.now()
            self.last.passes += 1
            await self._wait(self.last.next_at)

    async def _wait(self, due: int | None) -> None:
        if due is None:
            await self._wake.wait()
            return
        self._error_ms = self._timer_error_ms()
        timer = self._clock.after(max(0, due - self._clock.now()), self._wake.set)
        try:
            await self._wake.wait()
        finally:
            timer.cancel()

    def _timer_error_ms(self) -> float:
        """How far the clock is from the one that timers go by: as long as this stays the same, they are right."""
        return self._clock.now() - self._clock.monotonic() * 1000
