"""The methods of the `job` family that change waiting jobs and archive ended ones."""

from collections.abc import Awaitable, Callable

from msgspec import Struct

from semantica_daemon.engine.moves import Moves
from semantica_daemon.engine.passes import Wake
from semantica_daemon.engine.selections import Change, Selections
from semantica_daemon.model.selection import to_archive, to_hold, to_release
from semantica_daemon.rpc.binding import Binding, Call
from semantica_daemon.store import reads
from semantica_daemon.store.writes.archive import archive
from semantica_daemon.store.writes.hold import hold, release
from semantica_daemon.store.writes.update import update
from semantica_daemon.wire.editing import UpdateParams
from semantica_daemon.wire.job_view import JobWithRuns
from semantica_daemon.wire.selection import ChangeResult, SelectionParams

HOLD = Change(hold, to_hold)
RELEASE = Change(release, to_release, most=250)  # each of them changes its state twice
ARCHIVE = Change(archive, to_archive, "ended")


class EditingMethods(Struct, frozen=True):
    """`wake_removals`: wakes the part that deletes the folders of archived jobs."""

    selections: Selections
    wake_removals: Wake

    def bindings(self) -> dict[str, Binding]:
        moves = Moves(self.selections.readers, self.selections.commands)
        return {
            "job.move": Call(moves.move, writes=True),
            "job.update": Call(self._update, writes=True),
            "job.hold": Call(self._changing(HOLD), writes=True),
            "job.release": Call(self._changing(RELEASE), writes=True),
            "job.archive": Call(self._archive, writes=True),
        }

    async def _update(self, params: UpdateParams) -> JobWithRuns:
        job_id = await self.selections.commands.run(update, params, must_commit=False)
        return await self.selections.readers.query(reads.job, job_id)

    async def _archive(self, params: SelectionParams) -> ChangeResult:
        result = await self._changing(ARCHIVE)(params)
        self.wake_removals.set()
        return result

    def _changing(self, change: Change) -> Callable[[SelectionParams], Awaitable[ChangeResult]]:
        async def apply(params: SelectionParams) -> ChangeResult:
            lists = await self.selections.apply(change, params)
            return ChangeResult(lists.get("changed", []), lists.get("unchanged", []))

        return apply
