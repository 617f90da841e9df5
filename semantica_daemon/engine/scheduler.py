"""The due timer: makes SCHEDULED jobs QUEUED when their time has come, fires schedules, and skips what is too late."""

from collections.abc import Callable

from semantica_daemon.engine.writer import Writer
from semantica_daemon.model.machine import Needs
from semantica_daemon.store.writes.promote import Due, Promote, promote
from semantica_daemon.store.writes.templates import Admit


class Scheduler:
    """`needed` is told each time who waits for the machine."""

    def __init__(self, writer: Writer, admit: Admit, needed: Callable[[Needs], None]) -> None:
        self._writer = writer
        self._request = Promote(admit)
        self._needed = needed

    async def step(self) -> int | None:
        """A small part of what is due now; the instant of the next, which may be at once."""
        due: Due = await self._writer.run(promote, self._request, slow=False)
        self._needed(due.needs)
        return due.at
