"""Which queue has the next job to start: the head of every queue that has claimable jobs, best first.

A claim must not look at every queue, so a heap keeps the place of the best job of each source: the jobs of a queue with
one claim class, concurrency key and group.
A place may be better than the truth (its job was cancelled) but never worse; the claim corrects it when it looks.
Queues that cannot start anything now (no free slot, paused, the machine is not idle) are parked outside the heap.
"""

import sqlite3
from heapq import heapify, heappop, heappush

from semantica_daemon.model.machine import Facts
from semantica_daemon.store.counts import Counts

# Claim classes, as stored in jobs.claim_class: 0 any slot, 1 and 2 (and 3, both) are needs of the machine.
NEEDS_IDLE = 1
NEEDS_MAINS = 2
BLOCKED = 4
EXTERNAL = 5

HEADS = """
SELECT queue, claim_class, concurrency_key, chain_group_id, max(priority)
FROM jobs INDEXED BY idx_jobs_pop
WHERE state = 'QUEUED' AND claim_class < 4
GROUP BY queue, claim_class, concurrency_key, chain_group_id
"""

Place = tuple[int, int, int, str]  # (-priority, position, created_at, id): the smallest is the next to start
Source = tuple[str, int, str | None, str | None]  # (queue, claim class, concurrency key, group)


def claim_class(wait_for_idle: int | bool, require_charging: int | bool) -> int:
    return NEEDS_IDLE * wait_for_idle | NEEDS_MAINS * require_charging


class ReadyQueues:
    def __init__(self) -> None:
        self._best: dict[Source, Place] = {}
        self._heap: list[tuple[Place, Source]] = []
        self._parked: dict[str, set[Source]] = {}
        self._facts = Facts()
        self._rules_version = 0

    def load(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute(HEADS).fetchall()
        self._best = {(*source,): (-priority, 0, 0, "") for *source, priority in rows}
        self._heap = [(place, source) for source, place in self._best.items()]
        heapify(self._heap)
        self._parked.clear()

    def offer(self, source: Source, place: Place) -> None:
        """Enters a job with that place, which has become claimable."""
        if source[1] < BLOCKED:
            best = self._best.get(source)
            if best is None or place < best:
                self.replace(source, place)

    def replace(self, source: Source, place: Place | None) -> None:
        """Sets the place of the source's best job; None: the source has no job left."""
        if self._best.get(source) == place:
            return
        if place is None:
            self._best.pop(source, None)
            return
        self._best[source] = place
        if source not in self._parked.get(source[0], ()):
            heappush(self._heap, (place, source))

    def slot_freed(self, queue: str) -> None:
        for source in self._parked.pop(queue, ()):
            if source in self._best:
                heappush(self._heap, (self._best[source], source))

    def best(self, counts: Counts, facts: Facts) -> tuple[Source, Place | None] | None:
        """The source of the next job to start, and the place of the best job elsewhere that could start (None: there is
        no other); None when nothing can start."""
        self._unpark_if_changed(counts, facts)
        if counts.free_global_slots <= 0 or not self._first_is_startable(counts, facts):
            return None
        first = heappop(self._heap)
        other = self._heap[0][0] if self._first_is_startable(counts, facts) else None
        heappush(self._heap, first)
        return first[1], other

    def _first_is_startable(self, counts: Counts, facts: Facts) -> bool:
        """Whether any source can start a job; outdated entries are dropped and other sources parked until one can."""
        while self._heap:
            place, source = self._heap[0]
            if self._best.get(source) == place:
                if counts.free_slots(source[0]) > 0 and facts.meet(source[1] & NEEDS_IDLE, source[1] & NEEDS_MAINS):
                    return True
                self._parked.setdefault(source[0], set()).add(source)
            heappop(self._heap)
        return False

    def _unpark_if_changed(self, counts: Counts, facts: Facts) -> None:
        """Unparks all sources after the rules of queues or the facts about the machine have changed."""
        if facts != self._facts or counts.rules_version != self._rules_version:
            self._facts, self._rules_version = facts, counts.rules_version
            for queue in list(self._parked):
                self.slot_freed(queue)
