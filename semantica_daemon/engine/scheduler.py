"""The due timer: makes SCHEDULED jobs QUEUED when their time has come, fires schedules, and skips late jobs."""

from semantica_daemon.clock import Clock
from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.machine import Machine
from semantica_daemon.engine.passes import Wake
from semantica_daemon.model.schedule import ON_TIME_MS
from semantica_daemon.store.database import CommitResult
from semantica_daemon.store.writes.promote import Due, Promote, promote


class Scheduler:
    """`wake` is its own. The machine learns with each step which jobs need it idle or on mains."""

    def __init__(self, commands: CommandQueue, clock: Clock, machine: Machine, wake: Wake) -> None:
        self._commands = commands
        self._clock = clock
        self._machine = machine
        self._wake = wake
        self._next_at: int | None = 0

    def committed(self, committed: CommitResult) -> None:
        if committed.due is not None:
            self._wake.wake_by(committed.due)

    async def step(self) -> int | None:
        """Promote a small part of what is due; the instant of the next step, which may be now. At start and after a
        long sleep the command is slow: finding out what a schedule has missed may take a while."""
        late = self._next_at is not None and self._clock.now() - self._next_at > ON_TIME_MS
        due: Due = await self._commands.run(promote, Promote(), slow=late)
        self._machine.needed(due.needs)
        self._next_at = due.at
        return due.at
