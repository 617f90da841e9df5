"""Which source has the next job to start: the best job of every source that has claimable jobs, best first.

A source is the jobs of a queue with one claim class, concurrency key and group. A claim must not look at every source,
so a heap keeps the place of the best job of each queue's sources.
A place may be better than the truth (its job was cancelled) but never worse; the claim corrects it when it looks.
Sources that cannot start anything now (no free slot, paused, the machine is not idle, no room for their key or group, a
rate that is used up) are parked outside the heap until the room that they need is freed.
Of the sources with a key or group a queue may have thousands. They wait in the reserve of their queue, and only the
first of them is in the heap.
"""

import sqlite3
from heapq import heappop, heappush
from itertools import count

from semantica_daemon.model.machine import Facts
from semantica_daemon.store.counts import EVERY_QUEUE, Counts
from semantica_daemon.store.rooms import Room, Rooms

# Claim classes, as stored in jobs.claim_class: 0 any slot, 1 and 2 (and 3, both) are needs of the machine. Jobs that
# take several slots have that number, shifted by WIDTH, added.
NEEDS_IDLE = 1
NEEDS_MAINS = 2
BLOCKED = 4
EXTERNAL = 5
WIDTH = 3

HEADS = """
SELECT queue, claim_class, concurrency_key, chain_group_id, max(priority)
FROM jobs INDEXED BY idx_jobs_pop
WHERE state = 'QUEUED' AND NOT claim_class & 4
GROUP BY queue, claim_class, concurrency_key, chain_group_id
"""
CHANGED = (EVERY_QUEUE, "changed")  # the room of sources that wait for other rules or other facts about the machine

Place = tuple[int, int, int, str]  # (-priority, position, created_at, id): the smallest is the next to start
Source = tuple[str, int, str | None, str | None]  # (queue, claim class, concurrency key, group)
Entry = tuple[Place, Source]


def claim_class(wait_for_idle: int | bool, require_charging: int | bool, slots: int = 1) -> int:
    return NEEDS_IDLE * wait_for_idle | NEEDS_MAINS * require_charging | (slots << WIDTH if slots > 1 else 0)


def first_place(priority: int, number: int) -> Place:
    """A place before all jobs of that priority; different for each number, because sources cannot be compared."""
    return -priority, -(2**62), number, ""


def is_plain(source: Source) -> bool:
    """Whether its jobs have neither a key nor a group, and take one slot."""
    return source[2] is None and source[3] is None and source[1] < BLOCKED


class ReadyQueues:
    def __init__(self, counts: Counts, rooms: Rooms) -> None:
        self._counts = counts
        self._rooms = rooms
        self._best: dict[Source, Place] = {}
        self._heap: list[Entry] = []
        self._reserves: dict[str, list[Entry]] = {}  # by queue; the first of each is in the heap or parked
        self._parked: dict[Room, set[Source]] = {}
        self._parked_in: dict[Source, Room] = {}  # sources of reserves that are parked in another room than their queue
        self._openings: list[tuple[int, int, Room]] = []  # when rates allow the next start
        self._opens_at: dict[Room, int] = {}
        self._order = count()
        self.held: dict[str, Place] = {}
        self._facts = Facts()
        self._rules_version = 0

    def load(self, connection: sqlite3.Connection) -> None:
        for kept in (self._best, self._reserves, self._parked, self._parked_in, self._opens_at, self.held):
            kept.clear()
        self._openings.clear()
        self._heap.clear()
        for number, (*source, priority) in enumerate(connection.execute(HEADS).fetchall()):
            self.replace((*source,), first_place(priority, number))

    @property
    def next_opening(self) -> int | None:
        """When a rate, for which a source is parked, allows the next start."""
        return self._openings[0][0] if self._openings else None

    def offer(self, source: Source, place: Place) -> None:
        """Enters a job with that place, which has become claimable."""
        if not source[1] & BLOCKED:
            best = self._best.get(source)
            if best is None or place < best:
                self.replace(source, place)

    def move(self, source: Source, place: Place) -> None:
        """A claimable job has another place; slots that were kept for the best job may now be for another one."""
        self.offer(source, place)
        self.slot_freed(source[0])

    def replace(self, source: Source, place: Place | None) -> None:
        """Sets the place of the source's best job; None: the source has no job left."""
        if self._best.get(source) == place:
            return
        if place is None:
            self._best.pop(source, None)
            return
        self._best[source] = place
        if not is_plain(source):
            self._enter_reserve(source, place)
        elif source not in self._parked.get(source[0], ()):
            heappush(self._heap, (place, source))

    def queues_with_keys(self) -> set[str]:
        """The queues that have claimable jobs with a concurrency key."""
        return {source[0] for source in self._best if source[2] is not None}

    def slot_freed(self, queue: str) -> None:
        """The queue may have room for more jobs, or other jobs than before."""
        if queue in self._parked:
            for source in self._parked.pop(queue):
                if source in self._best:
                    heappush(self._heap, (self._best[source], source))
            if queue in self._reserves:
                heappush(self._heap, self._reserves[queue][0])

    def room_freed(self, room: Room) -> None:
        """A key or group may have room for more jobs."""
        for source in self._parked.pop(room, ()):
            self._parked_in.pop(source, None)
            if source in self._best:
                self._enter_reserve(source, self._best[source])

    def hold(self, queue: str, place: Place) -> None:
        """Keeps the free slots of the queue, or of EVERY_QUEUE, for the job at that place, which needs more of them
        than are free now, until the next claim."""
        self.held[queue] = place

    def release_held(self) -> None:
        """A claim begins: the jobs that slots were kept for may be gone, or no longer the best."""
        for queue in self.held:
            self.slot_freed(queue)
        self.held.clear()

    def best(self, facts: Facts, now: int) -> tuple[Source, Place | None] | None:
        """The source of the next job to start, and the place of the best job elsewhere that could start (None: there is
        no other); None when nothing can start. If only one job of the source may be claimed at a time, the place is its
        own."""
        self._unpark_if_changed(facts)
        if self._openings and self._openings[0][0] <= now:
            self._open_due(now)
        if self._counts.free_global_slots <= 0 or not self._first_is_startable(facts, now):
            return None
        first = self._heap[0]
        if self.held or not is_plain(first[1]):
            return None if self._is_held(EVERY_QUEUE, first[0]) else (first[1], first[0])
        heappop(self._heap)
        other = self._heap[0][0] if self._first_is_startable(facts, now) else None
        heappush(self._heap, first)
        return first[1], other

    def _first_is_startable(self, facts: Facts, now: int) -> bool:
        """Whether any source can start a job; outdated entries are dropped and other sources parked until one can."""
        while self._heap:
            entry = self._heap[0]
            place, source = entry
            room: Room | None = None
            if self._best.get(source) == place:
                queue, claims, key, group = source
                if self._has_slot(queue, now) and facts.meet(claims & NEEDS_IDLE, claims & NEEDS_MAINS):
                    if key is None and group is None and claims < BLOCKED and not self.held:
                        return True
                    room = self._full_room(source, place, now)
                    if room is None:
                        return True
                else:
                    room = self._queue_room(source, now)
                self._parked.setdefault(room, set()).add(source)
            heappop(self._heap)
            if not is_plain(source):
                self._leave_reserve(entry, room)
        return False

    def _has_slot(self, queue: str, now: int) -> bool:
        """Whether the queue, its rate included, lets a job start."""
        counts = self._counts
        return counts.free_slots(queue) > 0 and not (counts.has_rates and counts.rate_left(queue, now) <= 0)

    def _full_room(self, source: Source, place: Place, now: int) -> Room | None:
        """The room that keeps a source from starting its best job, though its queue has a free slot."""
        queue, claims, key, group = source
        if claims >> WIDTH > min(self._counts.rules(queue).slots or 0, self._counts.limits.max_slots):
            return CHANGED
        found = self._rooms.full_room(queue, key, group, now)
        if found is None:
            return queue if self._is_held(queue, place) else None
        room, opens_at = found
        self._watch(room, opens_at)
        return room

    def _queue_room(self, source: Source, now: int) -> Room:
        """Where to park a source whose queue has no free slot, or that needs another state of the machine."""
        queue = source[0]
        if self._has_slot(queue, now) and not is_plain(source):
            return CHANGED
        self._watch(queue, self._rooms.queue_opens_at(queue, now))
        return queue

    def _is_held(self, queue: str, place: Place) -> bool:
        """Whether the slots are kept for a job at this place or before it."""
        return queue in self.held and self.held[queue] <= place

    # The reserves

    def _enter_reserve(self, source: Source, place: Place) -> None:
        if source in self._parked_in:
            return
        entry, reserve = (place, source), self._reserves.setdefault(source[0], [])
        heappush(reserve, entry)
        if reserve[0] is entry:
            heappush(self._heap, entry)

    def _leave_reserve(self, entry: Entry, room: Room | None) -> None:
        """The entry has left the heap: it is outdated, or its source was parked in `room`. Unless it is parked with its
        queue, the next of the reserve takes its place."""
        queue, reserve = entry[1][0], self._reserves.get(entry[1][0])
        if room == queue:
            return
        if room is not None:
            self._parked_in[entry[1]] = room
        if not reserve or reserve[0] != entry:
            return
        while reserve and not self._is_open(reserve[0]):
            heappop(reserve)
        if reserve:
            heappush(self._heap, reserve[0])
        else:
            del self._reserves[queue]

    def _is_open(self, entry: Entry) -> bool:
        return self._best.get(entry[1]) == entry[0] and entry[1] not in self._parked_in

    # What frees many rooms at once

    def _watch(self, room: Room, opens_at: int | None) -> None:
        """Frees the room at that instant."""
        if opens_at is not None and self._opens_at.get(room) != opens_at:
            self._opens_at[room] = opens_at
            heappush(self._openings, (opens_at, next(self._order), room))

    def _open_due(self, now: int) -> None:
        while self._openings and self._openings[0][0] <= now:
            _, _, room = heappop(self._openings)
            self._opens_at.pop(room, None)
            self._free(room)

    def _free(self, room: Room) -> None:
        if isinstance(room, str):
            self.slot_freed(room)
        else:
            self.room_freed(room)

    def _unpark_if_changed(self, facts: Facts) -> None:
        """Unparks all sources after the rules of queues or the facts about the machine have changed."""
        if facts != self._facts or self._counts.rules_version != self._rules_version:
            self._facts, self._rules_version = facts, self._counts.rules_version
            for room in list(self._parked):
                self._free(room)
