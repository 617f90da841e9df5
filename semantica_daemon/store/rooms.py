"""The room of concurrency keys and groups: how many of their jobs run, and whether one more may start; in memory,
beside the tables. Only the writer uses it.

`ready` asks before it offers a source to the claim; whatever else starts jobs (external workers) asks `may_start`. The
start and the end of each run are counted by `run_transition` and `Tx.changed`.
"""

import sqlite3

from semantica_daemon.model.queue import key_rule, key_rules
from semantica_daemon.store.counts import Counts
from semantica_daemon.wire.queue import KeyRule

RUNNING = """
SELECT queue, concurrency_key, chain_group_id, count(*)
FROM jobs INDEXED BY idx_jobs_running
WHERE state = 'RUNNING' AND (concurrency_key IS NOT NULL OR chain_group_id IS NOT NULL)
GROUP BY queue, concurrency_key, chain_group_id
"""
GROUP_LIMIT = "SELECT iif(mode = 'sequential', 1, max_parallel) FROM groups WHERE chain_group_id = ?"
MOST_REMEMBERED = 10_000  # rules of keys and limits of groups

Room = str | tuple[str, str]  # a queue; (queue, concurrency key); (GROUP, group)
GROUP = ""  # no queue has this name


class Rooms:
    def __init__(self, connection: sqlite3.Connection, counts: Counts) -> None:
        self._connection = connection
        self._counts = counts
        self._running: dict[Room, int] = {}
        self._key_rules: dict[Room, KeyRule] = {}
        self._group_limits: dict[str, int | None] = {}
        self._rules_version = 0

    def load(self) -> None:
        self._running.clear()
        self._group_limits.clear()
        for queue, key, group, jobs in self._connection.execute(RUNNING).fetchall():
            for room in rooms_of(queue, key, group):
                self._running[room] = self._running.get(room, 0) + jobs

    def running(self, room: Room) -> int:
        """The number of running jobs of a key or group."""
        return self._running.get(room, 0)

    def may_start(self, queue: str, key: str | None, group: str | None, now: int) -> bool:
        """Whether the rate of the queue, the key and the group let one more job start. Slots and pauses are not
        regarded."""
        return self._opening(queue, "", now) is None and self.full_room(queue, key, group, now) is None

    def full_room(self, queue: str, key: str | None, group: str | None, now: int) -> tuple[Room, int | None] | None:
        """The key or group that lets no more jobs start, and the instant at which its rate does again; None: a job may
        start."""
        if key is not None:
            if self._running.get((queue, key), 0) >= self.key_rule(queue, key).limit:
                return (queue, key), None
            if self._counts.has_rates and (opens_at := self._opening(queue, key, now)) is not None:
                return (queue, key), opens_at
        if group is not None and (limit := self.group_limit(group)) is not None:
            return ((GROUP, group), None) if self._running.get((GROUP, group), 0) >= limit else None
        return None

    def queue_opens_at(self, queue: str, now: int) -> int | None:
        """When the rate of the queue lets the next job start; None: it does now, or there is no rate."""
        return self._opening(queue, "", now) if self._counts.has_rates else None

    def key_rule(self, queue: str, key: str) -> KeyRule:
        if self._rules_version != self._counts.rules_version or len(self._key_rules) >= MOST_REMEMBERED:
            self._rules_version = self._counts.rules_version
            self._key_rules.clear()
        found = self._key_rules.get((queue, key))
        if found is None:
            found = self._key_rules[(queue, key)] = key_rule(key_rules(self._counts.rules(queue).keys), key)
        return found

    def group_limit(self, group: str) -> int | None:
        """How many jobs of the group may run at once; None: any number."""
        if group in self._group_limits:
            return self._group_limits[group]
        if len(self._group_limits) >= MOST_REMEMBERED:
            self._group_limits.clear()
        row = self._connection.execute(GROUP_LIMIT, (group,)).fetchone()
        limit = self._group_limits[group] = row[0] if row else None
        return limit

    def forget_group(self, group: str) -> None:
        """The policy of the group has changed."""
        self._group_limits.pop(group, None)

    def started(self, queue: str, key: str | None, group: str | None, now: int) -> None:
        for room in rooms_of(queue, key, group):
            self._running[room] = self._running.get(room, 0) + 1
        if self._counts.has_rates:
            for name in ("",) if key is None else ("", key):
                rate = self.key_rule(queue, name).rate if name else self._counts.rules(queue).rate
                if rate is not None:
                    self._counts.rates.add((queue, name), rate, now)

    def ended(self, queue: str, key: str | None, group: str | None) -> list[Room]:
        """Returns the rooms that have more space now."""
        rooms = rooms_of(queue, key, group)
        for room in rooms:
            self._running[room] -= 1
            if not self._running[room]:
                del self._running[room]
        return rooms

    def _opening(self, queue: str, key: str, now: int) -> int | None:
        """When the rate of the queue, or of a key of it, allows the next start; None: it does so now."""
        rate = self.key_rule(queue, key).rate if key else self._counts.rules(queue).rate
        if rate is None or self._counts.rates.left((queue, key), rate, now) > 0:
            return None
        return self._counts.rates.opens_at((queue, key), rate)


def rooms_of(queue: str, key: str | None, group: str | None) -> list[Room]:
    rooms: list[Room] = [] if key is None else [(queue, key)]
    return rooms if group is None else [*rooms, (GROUP, group)]
