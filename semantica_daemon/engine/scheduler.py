"""The due timer: makes SCHEDULED jobs QUEUED when their time has come, fires schedules, and skips what is too late."""

from collections.abc import Callable

from semantica_daemon.clock import Clock
from semantica_daemon.engine.writer import Writer
from semantica_daemon.model.machine import Needs
from semantica_daemon.model.schedule import ON_TIME_MS
from semantica_daemon.store.writes.promote import Due, Promote, promote


class Scheduler:
    """`needed` is told each time who waits for the machine."""

    def __init__(self, writer: Writer, clock: Clock, needed: Callable[[Needs], None]) -> None:
        self._writer = writer
        self._clock = clock
        self._needed = needed
        self._next_at: int | None = 0

    async def step(self) -> int | None:
        """A small part of what is due now; the instant of the next, which may be at once. After a long sleep, and at
        the start, not on the loop: to find out what a schedule has missed may take a while."""
        late = self._next_at is not None and self._clock.now() - self._next_at > ON_TIME_MS
        due: Due = await self._writer.run(promote, Promote(), slow=late)
        self._needed(due.needs)
        self._next_at = due.at
        return due.at
