"""The stream of events for its readers: pages after a cursor, and wake-ups after each commit.

Live events and replay use the same code: `page` reads the newest events from memory, and older ones from the table.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct

from semantica_daemon.engine.readers import Readers
from semantica_daemon.model.event import ENDS, RESERVATION_ENDS, Filter, StoredEvent
from semantica_daemon.store import reads
from semantica_daemon.store.database import CommitResult
from semantica_daemon.wire.event import Event, Gap

Key = tuple[str, str | None]
RESERVATION_END: Key = ("reservation", None)  # the ACTIVE reservation was released or has expired

CACHED_EVENTS = 2000
CACHED_BYTES = 4_000_000  # of messages and payloads
PAGE = 500
PAGE_BYTES = 1_000_000  # of messages and payloads, but at least one event


class Page(Struct, frozen=True):
    events: list[Event]
    cursor: int
    gap: Gap | None = None


class Feed:
    def __init__(self, readers: Readers, epoch: str, sequence: int) -> None:
        self.epoch = epoch
        self.newest = sequence
        self._readers = readers
        self._recent: list[StoredEvent] = []
        self._recent_size = 0
        self._watchers: defaultdict[Key, set[asyncio.Event]] = defaultdict(set)

    def committed(self, committed: CommitResult) -> None:
        """Caches the events and wakes the readers of their keys. Subscribers of other keys cost nothing."""
        if not committed.events:
            return
        self.newest = committed.events[-1].event.sequence
        self._keep(committed.events)
        if self._watchers:
            for group in committed.ended_groups:
                self._wake(end_in(group))
            for key in {key for stored in committed.events for key in _keys(stored)} & self._watchers.keys():
                self._wake(key)

    def nudge(self, job_id: str) -> None:
        """Wakes the readers of a job without an event: its log has grown."""
        self._wake(("job", job_id))

    def _wake(self, key: Key) -> None:
        for wake in self._watchers.get(key, ()):
            wake.set()

    @contextmanager
    def watching(self, key: Key) -> Iterator[asyncio.Event]:
        """An asyncio.Event that is set when an event with that key is committed (`key_of` a filter, `end_of` a job)."""
        wake = asyncio.Event()
        self._watchers[key].add(wake)
        try:
            yield wake
        finally:
            self._watchers[key].discard(wake)
            if not self._watchers[key]:
                del self._watchers[key]

    async def page(self, cursor: int, wanted: Filter, limit: int = PAGE) -> Page:
        """The events after the cursor. An empty page with a moved cursor: no event there matches the filter."""
        if cursor >= self.newest:
            return Page([], cursor)
        oldest = self._recent[0].event.sequence if self._recent else self.newest + 1
        if cursor >= oldest - 1:
            found = _within_page_size(self._recent[cursor + 1 - oldest : cursor + 1 - oldest + limit])
            return Page([one.event for one in found if wanted.wants(one)], found[-1].event.sequence)
        return await self._stored(cursor, wanted, limit)

    async def newest_page(self, since: int, before: int, wanted: Filter, limit: int) -> list[Event]:
        """The newest matching events between the two sequences, the newest first, up to the size of a page."""
        found = await self._readers.query(reads.newest_events, since, before, wanted, limit)
        return [one.event for one in _within_page_size(found)]

    async def start(self, since: int | None, epoch: str | None) -> tuple[int, Gap | None]:
        """The first cursor of a reader, and the gap if events after the requested cursor were pruned."""
        if since is None and epoch is None:
            return self.newest, None
        oldest, newest = await self._readers.query(reads.stream_ends)
        if epoch is not None and epoch != self.epoch:
            start = newest if since is None else oldest - 1
            return start, Gap(0, start, self.epoch)
        if since is None:
            return self.newest, None
        if since > newest:
            return newest, Gap(since, newest, self.epoch)
        if since < oldest - 1:
            return oldest - 1, Gap(since, oldest - 1, self.epoch)
        return since, None

    async def _stored(self, cursor: int, wanted: Filter, limit: int) -> Page:
        """A page from the table. Sequence numbers have no gaps, so a number that is missing was pruned."""
        newest = self.newest
        rows = await self._readers.query(reads.events, cursor, wanted, limit)
        found = _within_page_size(rows)
        last = found[-1].event.sequence if found else 0
        if wanted.job_id is not None:
            whole = len(rows) < limit and len(found) == len(rows)
            return Page([one.event for one in found if wanted.wants(one)], max(newest, last) if whole else last)
        first = found[0].event.sequence if found else newest + 1
        if first > cursor + 1:
            return Page([], first - 1, Gap(cursor, first - 1, self.epoch))
        found = _without_gap(found, cursor)
        return Page([one.event for one in found if wanted.wants(one)], found[-1].event.sequence if found else newest)

    def _keep(self, events: list[StoredEvent]) -> None:
        self._recent += events
        self._recent_size += sum(one.size for one in events)
        while len(self._recent) > 2 * CACHED_EVENTS or (self._recent_size > CACHED_BYTES and len(self._recent) > 1):
            gone = self._recent[: max(1, len(self._recent) // 2)]
            del self._recent[: len(gone)]
            self._recent_size -= sum(one.size for one in gone)


def key_of(wanted: Filter) -> Key:
    """The most specific wake key that covers this filter."""
    if wanted.job_id is not None:
        return "job", wanted.job_id
    if wanted.user_tag is not None:
        return "user_tag", wanted.user_tag
    return ("everything", None) if wanted.queue is None else ("queue", wanted.queue)


def end_of(job_id: str) -> Key:
    return "end", job_id


def end_in(group: str) -> Key:
    """The key of the ends of the jobs of a group."""
    return "group", group


def _keys(stored: StoredEvent) -> tuple[Key, ...]:
    """The keys whose readers this event wakes."""
    event = stored.event
    keys = ("job", event.job_id), ("user_tag", stored.user_tag), ("queue", stored.queue), ("everything", None)
    if event.event_type in ENDS:
        return (*keys, ("end", event.job_id))
    return (*keys, RESERVATION_END) if event.event_type in RESERVATION_ENDS else keys


def _within_page_size(events: list[StoredEvent]) -> list[StoredEvent]:
    """The first events, up to the size of a page, so that a slow reader never holds much memory."""
    size = 0
    for number, stored in enumerate(events):
        size += stored.size
        if size > PAGE_BYTES and number:
            return events[:number]
    return events


def _without_gap(events: list[StoredEvent], cursor: int) -> list[StoredEvent]:
    """The first events whose sequences follow the cursor without a gap."""
    for number, stored in enumerate(events):
        if stored.event.sequence != cursor + 1 + number:
            return events[:number]
    return events
