"""Handles due times: makes SCHEDULED jobs QUEUED, fires schedules, and skips late jobs."""

from semantica_daemon.clock import Clock
from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.machine import Machine
from semantica_daemon.engine.passes import Wake
from semantica_daemon.model.schedule import ON_TIME_MS
from semantica_daemon.store.database import CommitResult
from semantica_daemon.store.writes.promote import Due, Promote, promote


class Scheduler:
    """`wake`: its own. After each step it gives the machine the needs of waiting jobs."""

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
        """Promotes a small part of what is due; returns the instant of the next step, which may be now. At start and
        after a long sleep the command is slow, since computing the missed times of a schedule may take long."""
        late = self._next_at is not None and self._clock.now() - self._next_at > ON_TIME_MS
        due: Due = await self._commands.run(promote, Promote(), slow=late)
        self._machine.needed(due.needs)
        self._next_at = due.at
        return due.at
