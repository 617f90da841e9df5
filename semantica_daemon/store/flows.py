"""Fairness between the concurrency keys of a queue, by the position that a job gets when it becomes QUEUED.

Each key of a queue and priority is a flow; the jobs without a key are one flow too. A job goes 100 behind the job of
its flow that waits last, or behind the latest claimed job of all flows, whichever is later (start-time fair queueing).
So the first job of a key is not behind the thousand of another one, and the order is still that of the positions.
Only lines with waiting jobs that have keys are kept. Only the writer uses it.
"""

import sqlite3
from collections.abc import Iterable

from msgspec import Struct

STEP = 100

QUEUED = """
SELECT priority, concurrency_key, min(position), max(position)
FROM jobs INDEXED BY idx_jobs_pop
WHERE state = 'QUEUED' AND queue = ?
GROUP BY priority, concurrency_key
"""
# Of jobs for slots, and of jobs for workers.
_FIRST = """
SELECT min(position) AS position
FROM jobs INDEXED BY idx_jobs_pop
WHERE state = 'QUEUED' AND queue = ?1 AND claim_class = {} AND concurrency_key IS NULL AND chain_group_id IS NULL
  AND priority = ?2
"""
FIRST_WITHOUT_KEY = f"SELECT min(position) FROM ({_FIRST.format(0)}UNION ALL{_FIRST.format(5)})"

Name = tuple[str, int]  # (queue, priority)


class Line(Struct):
    """`claimed`: the position of the latest claimed job. `last`: the last position of each flow."""

    claimed: int
    last: dict[str | None, int]
    sweep_at: int = 100

    def position(self, key: str | None, at_end: int) -> int:
        """`at_end`: a position behind all jobs."""
        found = self.last[key] = min(at_end, max(self.claimed, self.last.get(key, 0)) + STEP)
        if len(self.last) > self.sweep_at:  # jobs that were cancelled have left flows behind
            self.last = {key: last for key, last in self.last.items() if last > self.claimed}
            self.sweep_at = 2 * len(self.last) + 100
        return found


class Flows:
    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self.lines: dict[Name, Line] = {}

    def load(self, queues: Iterable[str]) -> None:
        """`queues`: those that have waiting jobs with keys."""
        self.lines.clear()
        for queue in queues:
            for priority, key, first, last in self._connection.execute(QUEUED, (queue,)).fetchall():
                line = self.lines.setdefault((queue, priority), Line(first - STEP, {}))
                line.claimed = min(line.claimed, first - STEP)
                line.last[key] = last
        for name in [name for name, line in self.lines.items() if line.last.keys() == {None}]:
            del self.lines[name]

    def position(self, queue: str, priority: int, key: str | None, at_end: int) -> int:
        """The position of a job that becomes QUEUED."""
        line = self.lines.get((queue, priority))
        if line is None:
            if key is None:
                return at_end
            line = self.lines[(queue, priority)] = self._begin(queue, priority, at_end - STEP)
        return line.position(key, at_end)

    def renumbered(self, queue: str, priority: int, key: str | None, position: int) -> None:
        """A waiting job has another position; the next job of its flow still comes behind it."""
        line = self.lines.get((queue, priority))
        if line is not None and key in line.last:
            line.last[key] = max(line.last[key], position)

    def claimed(self, queue: str, priority: int, key: str | None, position: int) -> None:
        line = self.lines.get((queue, priority))
        if line is None:
            return
        line.claimed = max(line.claimed, position)
        if key in line.last and line.last[key] <= line.claimed:
            del line.last[key]
        if not line.last or line.last.keys() == {None}:
            del self.lines[(queue, priority)]

    def _begin(self, queue: str, priority: int, newest: int) -> Line:
        """The jobs without a key that wait already keep their places; `newest` is at least that of the last of them."""
        row = self._connection.execute(FIRST_WITHOUT_KEY, (queue, priority)).fetchone()
        return Line(newest, {}) if row[0] is None else Line(row[0] - STEP, {None: newest})
