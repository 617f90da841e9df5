"""Which EXTERNAL jobs workers may claim: the best job of each source, in memory, beside idx_jobs_blocked. `ready` has
the jobs that the slots claim.

A source is the jobs of one queue and type, with one concurrency key, group and need of the machine. Its name is stored
in `blocked_by` of its jobs, so that one search of an index finds the next of them.
Each filter that workers claim by has a heap of the sources that it matches. A place may be better than the truth (its
job was cancelled) but never worse; the claim corrects it. Sources that cannot start anything now are parked until the
room that they need is freed.
"""

import sqlite3
from heapq import heapify, heappop, heappush
from itertools import count

import msgspec
from msgspec import Struct

from semantica_daemon.model.machine import Facts
from semantica_daemon.store.counts import Counts
from semantica_daemon.store.ready import CHANGED, NEEDS_IDLE, NEEDS_MAINS, Place, first_place
from semantica_daemon.store.rooms import Room, Rooms

ROOM = "worker:"
HEADS = """
SELECT blocked_by, max(priority)
FROM jobs INDEXED BY idx_jobs_blocked
WHERE blocked_by IS NOT NULL AND blocked_by >= 'worker:' AND blocked_by < 'worker;'
GROUP BY blocked_by
"""
MOST_HEAPS = 64

ExternalSource = tuple[str, str, str | None, str | None, int]  # (queue, job type, concurrency key, group, needs)
Entry = tuple[Place, ExternalSource]
_decode = msgspec.json.Decoder(ExternalSource).decode


class Wanted(Struct, frozen=True):
    """The filter of a claim; None: every queue, every type."""

    queues: frozenset[str] | None = None
    job_types: frozenset[str] | None = None

    def matches(self, source: ExternalSource) -> bool:
        in_queue = self.queues is None or source[0] in self.queues
        return in_queue and (self.job_types is None or source[1] in self.job_types)


def room_of(source: ExternalSource) -> str:
    """The name of the source, as `blocked_by` has it."""
    return ROOM + msgspec.json.encode(source).decode()


class ExternalQueues:
    def __init__(self, counts: Counts, rooms: Rooms) -> None:
        self._counts = counts
        self._rooms = rooms
        self._best: dict[ExternalSource, Place] = {}
        self._heaps: dict[Wanted, list[Entry]] = {}
        self._parked: dict[Room, set[ExternalSource]] = {}
        self._parked_in: dict[ExternalSource, Room] = {}
        self._openings: list[tuple[int, int, Room]] = []  # when rates allow the next start
        self._order = count()
        self._facts = Facts()
        self._rules_version = 0

    def load(self, connection: sqlite3.Connection) -> None:
        for kept in (self._heaps, self._parked, self._parked_in):
            kept.clear()
        self._openings.clear()
        rows = enumerate(connection.execute(HEADS).fetchall())
        self._best = {_decode(name.removeprefix(ROOM)): first_place(rank, n) for n, (name, rank) in rows}

    def next_opening(self, now: int) -> int | None:
        """When a rate, for which a source is parked, allows the next start."""
        while self._openings and self._openings[0][0] <= now:
            self.room_freed(heappop(self._openings)[2])
        return self._openings[0][0] if self._openings else None

    def queues_with_keys(self) -> set[str]:
        """The queues that have claimable jobs with a concurrency key."""
        return {source[0] for source in self._best if source[2] is not None}

    def offer(self, source: ExternalSource, place: Place) -> None:
        """Enters a job with that place, which has become claimable."""
        best = self._best.get(source)
        if best is None or place < best:
            self.replace(source, place)

    def replace(self, source: ExternalSource, place: Place | None) -> None:
        """Sets the place of the source's best job; None: the source has no job left."""
        if place is None:
            self._best.pop(source, None)
        elif self._best.get(source) != place:
            self._best[source] = place
            if source not in self._parked_in:
                self._push(source, place)

    def room_freed(self, room: Room) -> None:
        """A queue, key or group may have room for more jobs."""
        for source in self._parked.pop(room, ()):
            del self._parked_in[source]
            if source in self._best:
                self._push(source, self._best[source])

    def best(self, wanted: Wanted, facts: Facts, now: int) -> Entry | None:
        """The place of the next job that a worker with this filter may start, and its source; None: there is none."""
        self._unpark(facts, now)
        heap = self._heap_of(wanted)
        while heap:
            entry = heap[0]
            place, source = entry
            if self._best.get(source) == place and source not in self._parked_in:
                room = self._full_room(source, facts, now)
                if room is None:
                    return entry
                self._parked.setdefault(room, set()).add(source)
                self._parked_in[source] = room
            heappop(heap)
        return None

    def _full_room(self, source: ExternalSource, facts: Facts, now: int) -> Room | None:
        """The room that keeps a source from starting its best job. Queues have slots for their own runs alone."""
        queue, _, key, group, needs = source
        if self._counts.is_paused(queue) or not facts.meet(needs & NEEDS_IDLE, needs & NEEDS_MAINS):
            return CHANGED
        found: tuple[Room, int | None] | None = self._rooms.full_room(queue, key, group, now)
        if found is None and (opens_at := self._rooms.queue_opens_at(queue, now)) is not None:
            found = queue, opens_at
        if found is None:
            return None
        if found[1] is not None:
            heappush(self._openings, (found[1], next(self._order), found[0]))
        return found[0]

    def _heap_of(self, wanted: Wanted) -> list[Entry]:
        heap = self._heaps.get(wanted)
        if heap is None:
            if len(self._heaps) >= MOST_HEAPS:
                del self._heaps[next(iter(self._heaps))]
            found = [(place, source) for source, place in self._best.items() if wanted.matches(source)]
            heap = self._heaps[wanted] = [entry for entry in found if entry[1] not in self._parked_in]
            heapify(heap)
        return heap

    def _push(self, source: ExternalSource, place: Place) -> None:
        """A heap that no claim looks at fills with outdated places; it is dropped, and made again by the next claim."""
        for wanted, heap in list(self._heaps.items()):
            if wanted.matches(source):
                heappush(heap, (place, source))
                if len(heap) > 2 * len(self._best) + 16:
                    del self._heaps[wanted]

    def _unpark(self, facts: Facts, now: int) -> None:
        """Unparks sources whose rate has opened; all of them after the rules of queues or the facts have changed."""
        self.next_opening(now)
        if facts != self._facts or self._counts.rules_version != self._rules_version:
            self._facts, self._rules_version = facts, self._counts.rules_version
            for room in list(self._parked):
                self.room_freed(room)
