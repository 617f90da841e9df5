"""job.move: one transaction, or, when very many jobs have to be renumbered first, several small ones before it."""

from msgspec import Struct

from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.readers import Readers
from semantica_daemon.errors import OrderChanges
from semantica_daemon.model.order import raised
from semantica_daemon.store import order
from semantica_daemon.store.order import QueuedJob
from semantica_daemon.store.selected import MOST
from semantica_daemon.store.writes.move import move, renumber
from semantica_daemon.wire.editing import MoveParams, MoveResult

TRIES = 3


class Moves(Struct, frozen=True):
    readers: Readers
    commands: CommandQueue

    async def move(self, params: MoveParams) -> MoveResult:
        for _ in range(TRIES):
            found: MoveResult | QueuedJob = await self.commands.run(move, params, must_commit=False)
            if isinstance(found, MoveResult):
                return found
            await self._make_room_before(found)
        raise OrderChanges("the order of the queue changes all the time", "try again; the job was not moved")

    async def _make_room_before(self, job: QueuedJob) -> None:
        """Raises the positions of the job and of those behind it, the last ones first: their order is the same after
        each transaction."""
        jobs = [(job.number, job.position), *await self.readers.query(order.behind, job)]
        targets = raised([position for _, position in jobs])
        changes = [(target, number, old) for target, (number, old) in zip(targets, jobs, strict=False)]
        for place in reversed(range(0, len(changes), MOST)):
            await self.commands.run(renumber, changes[place : place + MOST])
