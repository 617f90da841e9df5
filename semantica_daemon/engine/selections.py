"""Methods that change all jobs of a selection: cancel, hold, release and archive. Many jobs are changed in several
transactions, so that a long queue never blocks the writer; with `dry_run` only a reader is asked."""

import asyncio

from msgspec import Struct

from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.readers import Readers
from semantica_daemon.model.selection import Among, Lists, Rule, Selection, selection, sorted_hits
from semantica_daemon.store import selected
from semantica_daemon.store.database import Verb
from semantica_daemon.store.selected import MOST, Portion
from semantica_daemon.store.writes.lifecycle import nothing
from semantica_daemon.wire.selection import SelectionParams


class Change(Struct, frozen=True):
    """`verb` changes the jobs of a Portion and returns Lists; `rule` decides which of them. `among`: the jobs that a
    selection by a field selects; `most`: of them are changed in one transaction."""

    verb: Verb
    rule: Rule
    among: Among = "live"
    most: int = MOST


class Selections(Struct, frozen=True):
    readers: Readers
    commands: CommandQueue

    async def apply(self, change: Change, params: SelectionParams, reason: str = "") -> Lists:
        """Continues to the end even if the caller disconnects."""
        chosen = selection(params)
        if params.dry_run:
            return sorted_hits(change.rule, await self.readers.query(selected.hits, chosen, change.among))
        return await asyncio.shield(asyncio.ensure_future(self._apply(change, chosen, reason)))

    async def _apply(self, change: Change, chosen: Selection, reason: str) -> Lists:
        found: Lists = {}
        portions = await self._portions(change, chosen, reason)
        for place, portion in enumerate(portions):
            part: Lists = await self.commands.run(change.verb, portion, must_commit=place > 0)
            for name, ids in part.items():
                found.setdefault(name, []).extend(ids)
        return found

    async def _portions(self, change: Change, chosen: Selection, reason: str) -> list[Portion]:
        if not chosen.field:
            return [Portion(job_ids=chosen.job_ids, reason=reason)]
        await self.commands.run(nothing, None, must_commit=False)  # a reader then sees what the caller has sent before
        hits = await self.readers.query(selected.hits, chosen, change.among)
        numbers = [hit.number for hit in hits]
        places = range(0, len(numbers), change.most)
        return [Portion(numbers=tuple(numbers[place : place + change.most]), reason=reason) for place in places]
