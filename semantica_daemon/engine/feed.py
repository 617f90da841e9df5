"""The stream as its readers see it: a cursor into the table, with the newest events kept at hand.

Live and replay are one path: `page` answers from what is at hand, or from the table when the cursor is further back.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from semantica_daemon.engine.readers import Readers
from semantica_daemon.model.event import Event, Filter, Recorded
from semantica_daemon.store import reads
from semantica_daemon.store.database import Committed

AT_HAND = 2000
LARGEST_AT_HAND = 4_000_000  # of messages and payloads
PAGE = 500


class Gap(Struct, frozen=True, rename={"from_": "from"}):
    """Sequence numbers that the asker will never see: lost to retention, or from another epoch."""

    from_: int
    to: int
    epoch: str


class Page(Struct, frozen=True):
    events: list[Event]
    cursor: int
    gap: Gap | None = None


class Feed:
    def __init__(self, readers: Readers, epoch: str, sequence: int) -> None:
        self.epoch = epoch
        self.newest = sequence
        self._readers = readers
        self._recent: list[Recorded] = []
        self._recent_size = 0
        self._everything: set[asyncio.Event] = set()
        self._by_job: defaultdict[str, set[asyncio.Event]] = defaultdict(set)

    def committed(self, committed: Committed) -> None:
        """Costs the same for any number of subscribers that are not concerned."""
        if not committed.events:
            return
        self.newest = committed.events[-1].event.sequence
        self._keep(committed.events)
        for wake in self._everything:
            wake.set()
        if self._by_job:
            for recorded in committed.events:
                for wake in self._by_job.get(recorded.event.job_id or "", ()):
                    wake.set()

    @contextmanager
    def watching(self, job_id: str | None) -> Iterator[asyncio.Event]:
        """An event that is set when something is committed about that job, or about anything."""
        wake = asyncio.Event()
        watchers = self._everything if job_id is None else self._by_job[job_id]
        watchers.add(wake)
        try:
            yield wake
        finally:
            watchers.discard(wake)
            if job_id is not None and not watchers:
                self._by_job.pop(job_id, None)

    async def page(self, cursor: int, wanted: Filter, limit: int = PAGE) -> Page:
        """What follows the cursor; an empty page with a moved cursor means that nothing there was wanted."""
        if cursor >= self.newest:
            return Page([], cursor)
        oldest = self._recent[0].event.sequence if self._recent else self.newest + 1
        if cursor >= oldest - 1:
            found = self._recent[cursor + 1 - oldest : cursor + 1 - oldest + limit]
            return Page([one.event for one in found if wanted.wants(one)], found[-1].event.sequence)
        return await self._stored(cursor, wanted, limit)

    async def start(self, since: int | None, epoch: str | None) -> tuple[int, Gap | None]:
        """Where a reader begins, and what it has missed for good."""
        if since is None and epoch is None:
            return self.newest, None
        oldest, newest = await self._readers.ask(reads.stream_ends)
        if epoch is not None and epoch != self.epoch:
            return oldest - 1, Gap(since or 0, newest, self.epoch)
        if since is None:
            return self.newest, None
        if since > newest:
            return newest, Gap(since, newest, self.epoch)
        if since < oldest - 1:
            return oldest - 1, Gap(since, oldest - 1, self.epoch)
        return since, None

    async def _stored(self, cursor: int, wanted: Filter, limit: int) -> Page:
        """From the table. The stream as a whole has no gaps of its own: a number that is missing was pruned."""
        newest = self.newest
        found = await self._readers.ask(reads.events, cursor, wanted, limit)
        if wanted.job_id is None:
            found, first = _unbroken(found, cursor), found[0].event.sequence if found else newest + 1
            if first > cursor + 1:
                return Page([], first - 1, Gap(cursor, first - 1, self.epoch))
            end = found[-1].event.sequence if found else newest
        else:
            last = found[-1].event.sequence if found else 0
            end = last if len(found) == limit else max(newest, last)
        return Page([one.event for one in found if wanted.wants(one)], end)

    def _keep(self, events: list[Recorded]) -> None:
        self._recent += events
        self._recent_size += sum(one.size for one in events)
        while len(self._recent) > 2 * AT_HAND or (self._recent_size > LARGEST_AT_HAND and len(self._recent) > 1):
            gone = self._recent[: max(1, len(self._recent) // 2)]
            del self._recent[: len(gone)]
            self._recent_size -= sum(one.size for one in gone)


def _unbroken(events: list[Recorded], cursor: int) -> list[Recorded]:
    """As far as they follow the cursor and each other."""
    for number, recorded in enumerate(events):
        if recorded.event.sequence != cursor + 1 + number:
            return events[:number]
    return events
