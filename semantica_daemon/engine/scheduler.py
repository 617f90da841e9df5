"""The due timer: makes SCHEDULED jobs QUEUED when their time has come, and skips what is too late."""

from semantica_daemon.engine.writer import Writer
from semantica_daemon.store.writes.promote import Promote, promote


class Scheduler:
    def __init__(self, writer: Writer) -> None:
        self._writer = writer

    async def step(self) -> int | None:
        """A batch of what is due now; the instant of the next, which may be at once."""
        due: int | None = await self._writer.run(promote, Promote())
        return due
