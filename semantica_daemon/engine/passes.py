"""The loop of every background part: clear the wake, step, wait until the next step is due or woken."""

import asyncio
from collections.abc import Awaitable, Callable

from msgspec import Struct

from semantica_daemon.clock import Clock

TOLERATED_MS = 100


class LastPass(Struct):
    """The state of a part, as admin.health shows it."""

    at: int | None = None
    passes: int = 0
    next_at: int | None = None


class Wake(asyncio.Event):
    """Ends the wait of one background part, and holds its state. It is constructed before the part, so that other parts
    can wake it."""

    def __init__(self, name: str, clock: Clock) -> None:
        super().__init__()
        self.name = name
        self.last = LastPass()
        self._clock = clock
        self._is_in_step = False
        self._noted: int | None = None

    def begin_step(self) -> None:
        self.clear()
        self.last.next_at = None
        self._is_in_step, self._noted = True, None

    def end_step(self, next_at: int | None) -> None:
        """`next_at`: when the step wants the next one; it comes earlier if `wake_by` was called during the step."""
        self._is_in_step = False
        self.last.next_at = min((at for at in (next_at, self._noted) if at is not None), default=None)
        if self._noted is not None and self._noted <= self._clock.now():
            self.set()

    def wake_by(self, instant: int) -> None:
        """Wakes the part if its next step would come later than `instant`, or is overdue."""
        if self._is_in_step:
            self._noted = instant if self._noted is None else min(self._noted, instant)
            return
        next_at = self.last.next_at
        if next_at is None or instant < next_at or next_at <= self._clock.now():
            self.set()


class Pass:
    """Calls `step` in a loop. A step returns the instant (epoch ms) of the next step, or None to wait for a wake."""

    def __init__(self, step: Callable[[], Awaitable[int | None]], wake: Wake, clock: Clock) -> None:
        self.wake = wake
        self.last = wake.last
        self._step = step
        self._clock = clock
        self._timer_offset_ms = 0.0

    def check_clock(self) -> None:
        """Wakes the part if its timer is wrong: timers stop while the machine is suspended, and do not follow a wall
        clock that is set. The socket pass calls this every few seconds, so that no other part has to."""
        is_waiting = self.last.next_at is not None
        if is_waiting and abs(self._clock_offset_ms() - self._timer_offset_ms) > TOLERATED_MS:
            self.wake.set()

    async def run(self) -> None:
        while True:
            self.wake.begin_step()
            self.wake.end_step(await self._step())
            self.last.at = self._clock.now()
            self.last.passes += 1
            await self._wait(self.last.next_at)

    async def _wait(self, due: int | None) -> None:
        if due is None:
            await self.wake.wait()
            return
        self._timer_offset_ms = self._clock_offset_ms()
        timer = self._clock.after(max(0, due - self._clock.now()), self.wake.set)
        try:
            await self.wake.wait()
        finally:
            timer.cancel()

    def _clock_offset_ms(self) -> float:
        """The wall clock minus the clock of the timers. While this stays the same, the timers are right."""
        return self._clock.now() - self._clock.monotonic() * 1000
