"""When the latest jobs of a queue or key with a rate started, so that no more start than the rate allows; in memory,
beside the table `rates`. Only the writer uses it."""

import sqlite3
from collections import deque
from heapq import heapify, heappop, heappush

from semantica_daemon.wire.queue import Rate

LOAD = "SELECT queue, concurrency_key, started_at, starts, expires_at FROM rates ORDER BY started_at"
ADD = """
INSERT INTO rates (queue, concurrency_key, started_at, starts, expires_at)
VALUES (?, ?, ?, ?, ?)
ON CONFLICT (queue, concurrency_key, started_at) DO UPDATE
SET starts = starts + excluded.starts, expires_at = excluded.expires_at
"""
EXPIRE = """
DELETE FROM rates
WHERE (queue, concurrency_key, started_at) IN (
  SELECT queue, concurrency_key, started_at FROM rates INDEXED BY idx_rates_expires WHERE expires_at <= ? LIMIT 100
)
"""
CLEAR = "DELETE FROM rates"

Rated = tuple[str, str]  # (queue, concurrency key; empty for the rate of the queue itself)


class Rates:
    """A rate allows `count` starts in any time of `per_ms`: the instants of the latest starts are kept, so that neither
    a restart nor the border of a window lets more of them happen."""

    def __init__(self) -> None:
        self._starts: dict[Rated, deque[int]] = {}
        self._expires: dict[Rated, int] = {}  # when the latest start no longer counts
        self._expiries: list[tuple[int, Rated]] = []
        self._unsaved: dict[tuple[Rated, int], tuple[int, int]] = {}  # by instant: (starts, when they expire)

    def load(self, connection: sqlite3.Connection) -> None:
        self._starts, self._expires, self._unsaved = {}, {}, {}
        for queue, key, started_at, starts, expires_at in connection.execute(LOAD).fetchall():
            self._starts.setdefault((queue, key), deque()).extend([started_at] * starts)
            self._expires[(queue, key)] = expires_at
        self._expiries = [(at, rated) for rated, at in self._expires.items()]
        heapify(self._expiries)

    def left(self, rated: Rated, rate: Rate, now: int) -> int:
        """How many may start now."""
        starts = self._starts.get(rated)
        if not starts:
            return rate.count
        while starts and starts[0] <= now - rate.per_ms:
            starts.popleft()
        return rate.count - len(starts)

    def opens_at(self, rated: Rated, rate: Rate) -> int:
        """When the next may start, if none may now."""
        return self._starts[rated][-rate.count] + rate.per_ms

    def add(self, rated: Rated, rate: Rate, now: int) -> None:
        """Counts one start."""
        self._starts.setdefault(rated, deque()).append(now)
        self._expires[rated] = expires_at = now + rate.per_ms
        starts, _ = self._unsaved.get((rated, now), (0, 0))
        self._unsaved[(rated, now)] = starts + 1, expires_at
        if not starts:
            heappush(self._expiries, (expires_at, rated))

    def shift(self, connection: sqlite3.Connection, step: int) -> int:
        """The clock was set: the starts keep their distance from now. Returns how many instants have moved."""
        self._save(connection)
        rows = [(*row[:2], row[2] + step, row[3], row[4] + step) for row in connection.execute(LOAD).fetchall()]
        connection.execute(CLEAR)
        connection.executemany(ADD, rows)
        self.load(connection)
        return len(rows)

    def flush(self, connection: sqlite3.Connection, now: int) -> None:
        if self._unsaved:
            self._save(connection)
            connection.execute(EXPIRE, (now,))
        while self._expiries and self._expiries[0][0] <= now:
            _, rated = heappop(self._expiries)
            if self._expires.get(rated, now + 1) <= now:
                del self._expires[rated], self._starts[rated]

    def _save(self, connection: sqlite3.Connection) -> None:
        rows = [(*rated, at, *values) for (rated, at), values in self._unsaved.items()]
        connection.executemany(ADD, rows)
        self._unsaved = {}
