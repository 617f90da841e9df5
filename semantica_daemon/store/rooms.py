"""The room of concurrency keys and groups: how many of their jobs run, and whether one more may start; in memory,
beside the tables. Only the writer uses it.

`ready` asks before it offers a source to the claim; whatever else starts jobs (external workers) asks `may_start`. The
start and the end of each run are counted by `run_transition` and `Tx.changed`.
"""

import sqlite3

from msgspec import Struct

from semantica_daemon.model.queue import key_rule, key_rules
from semantica_daemon.model.state import SCHEDULED
from semantica_daemon.store.counts import Counts
from semantica_daemon.wire.queue import KeyRule

RUNNING = """
SELECT queue, concurrency_key, chain_group_id, count(*)
FROM jobs INDEXED BY idx_jobs_running
WHERE state = 'RUNNING' AND (concurrency_key IS NOT NULL OR chain_group_id IS NOT NULL)
GROUP BY queue, concurrency_key, chain_group_id
"""
POLICY = """
SELECT iif(mode = 'sequential', 1, max_parallel), mode = 'sequential', on_failure = 'stop', on_failure = 'continue'
FROM groups
WHERE chain_group_id = ?
"""
# Between two attempts a member of a sequential group keeps its turn.
BETWEEN_ATTEMPTS = """
SELECT groups.chain_group_id, count(*)
FROM groups
CROSS JOIN jobs INDEXED BY idx_jobs_group_live ON jobs.chain_group_id = groups.chain_group_id
WHERE mode = 'sequential' AND finished_at IS NULL AND state = 'SCHEDULED' AND attempts > 0
GROUP BY groups.chain_group_id
"""
STOPPING = "SELECT chain_group_id FROM groups INDEXED BY idx_groups_stopped WHERE stopped_upto IS NOT NULL"
STOPPED_BY = "SELECT stopped_by FROM groups WHERE chain_group_id = ?"
STOP = """
UPDATE groups
SET stopped_upto = (SELECT max(number) FROM jobs), stopped_by = ?
WHERE chain_group_id = ?
"""
MOST_REMEMBERED = 10_000  # rules of keys and policies of groups

Room = str | tuple[str, str]  # a queue; (queue, concurrency key); (GROUP, group)
GROUP = ""  # no queue has this name


class GroupPolicy(Struct, frozen=True, gc=False):
    """`limit`: how many of its jobs may run at once; None: any number. `stops`, `continues`: after a failure; neither:
    only what needs the failed job is cancelled."""

    limit: int | None = None
    is_sequential: bool = False
    stops: bool = False
    continues: bool = False


ONLY_A_LABEL = GroupPolicy()


class Rooms:
    """`stopping`: groups in which a job has failed, and whose other jobs are to be cancelled."""

    def __init__(self, connection: sqlite3.Connection, counts: Counts) -> None:
        self._connection = connection
        self._counts = counts
        self._running: dict[Room, int] = {}
        self._key_rules: dict[Room, KeyRule] = {}
        self._policies: dict[str, GroupPolicy] = {}
        self._rules_version = 0
        self.stopping: set[str] = set()

    def load(self) -> None:
        self._running.clear()
        self._policies.clear()
        self.stopping = {row[0] for row in self._connection.execute(STOPPING).fetchall()}
        for group, jobs in self._connection.execute(BETWEEN_ATTEMPTS).fetchall():
            self._running[(GROUP, group)] = jobs
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
        if group is not None:
            if group in self.stopping:  # its jobs are being cancelled, some in each transaction
                return (GROUP, group), None
            if (limit := self.policy(group).limit) is not None and self._running.get((GROUP, group), 0) >= limit:
                return (GROUP, group), None
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

    def policy(self, group: str) -> GroupPolicy:
        found = self._policies.get(group)
        if found is None:
            if len(self._policies) >= MOST_REMEMBERED:
                self._policies.clear()
            row = self._connection.execute(POLICY, (group,)).fetchone()
            found = self._policies[group] = GroupPolicy(row[0], *map(bool, row[1:])) if row else ONLY_A_LABEL
        return found

    def stopped_by(self, group: str) -> str | None:
        """The failed job for which the members that had not started were cancelled."""
        if not self.policy(group).stops:
            return None
        found: str | None = self._connection.execute(STOPPED_BY, (group,)).fetchone()[0]
        return found

    def stop(self, group: str, failed: str) -> None:
        """That job of the group has failed: with its policy `stop`, those that have not started are to be cancelled."""
        if self.policy(group).stops:
            self._connection.execute(STOP, (failed, group))
            self.stopping.add(group)

    def started(self, queue: str, key: str | None, group: str | None, now: int) -> None:
        for room in rooms_of(queue, key, group):
            self._change(room, 1)
        if self._counts.has_rates:
            for name in ("",) if key is None else ("", key):
                rate = self.key_rule(queue, name).rate if name else self._counts.rules(queue).rate
                if rate is not None:
                    self._counts.rates.add((queue, name), rate, now)

    def ended(self, queue: str, key: str | None, group: str | None) -> list[Room]:
        """Returns the rooms that have more space now."""
        rooms = rooms_of(queue, key, group)
        for room in rooms:
            self._change(room, -1)
        return rooms

    def keeps_turn(self, group: str, state: str, attempts: int) -> bool:
        """Whether a job in that state, after so many attempts, takes the room of its group though it does not run: a
        member of a sequential group that waits for its next attempt."""
        return state == SCHEDULED and attempts > 0 and self.policy(group).is_sequential

    def change_turn(self, group: str, by: int) -> None:
        if by:
            self._change((GROUP, group), by)

    def _change(self, room: Room, by: int) -> None:
        jobs = self._running.get(room, 0) + by
        if jobs:
            self._running[room] = jobs
        else:
            del self._running[room]

    def _opening(self, queue: str, key: str, now: int) -> int | None:
        """When the rate of the queue, or of a key of it, allows the next start; None: it does so now."""
        rate = self.key_rule(queue, key).rate if key else self._counts.rules(queue).rate
        if rate is None or self._counts.rates.left((queue, key), rate, now) > 0:
            return None
        return self._counts.rates.opens_at((queue, key), rate)


def rooms_of(queue: str, key: str | None, group: str | None) -> list[Room]:
    rooms: list[Room] = [] if key is None else [(queue, key)]
    return rooms if group is None else [*rooms, (GROUP, group)]
