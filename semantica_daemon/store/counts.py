"""What each queue holds and by which rules, kept in memory beside the table it is flushed to.

The single writer owns it; a transaction that is lost reloads it. Stats and claims never count rows.
"""

import sqlite3

from semantica_daemon.model.queue import Limits, QueueRules

COLUMNS = (
    "queued", "scheduled", "running", "done", "failed", "cancelled", "superseded", "skipped",
    "runs", "wait_ms", "ended_runs", "run_ms", "recent_run_ms",
)  # fmt: skip
COLUMN_OF = {
    "QUEUED": "queued", "SCHEDULED": "scheduled", "RUNNING": "running", "DONE": "done", "FAILED": "failed",
    "CANCELLED": "cancelled", "SUPERSEDED": "superseded", "SKIPPED_TTL": "skipped", "SKIPPED_DEADLINE": "skipped",
}  # fmt: skip

LOAD = f"SELECT queue, {', '.join(COLUMNS)} FROM queue_counts"
STORE = f"INSERT OR REPLACE INTO queue_counts (queue, {', '.join(COLUMNS)}) VALUES (?{', ?' * len(COLUMNS)})"
LOAD_RULES = "SELECT queue, slots, on_running, max_queued, paused_at FROM queues"

Move = tuple[str, str, int]
EVERY_QUEUE = "*"


class Counts:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.queues: dict[str, dict[str, int]] = {}
        self.running = 0
        self._durable: dict[str, QueueRules] = {}
        self._paused: set[str] = set()
        self._in_force: dict[str, QueueRules] = {}
        self._dirty: set[str] = set()
        self._waiting: set[str] = set()

    def load(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute(LOAD).fetchall()
        self.queues = {row[0]: dict(zip(COLUMNS, row[1:], strict=True)) for row in rows}
        self.running = sum(counts["running"] for counts in self.queues.values())
        self._waiting = {queue for queue, counts in self.queues.items() if counts["queued"]}
        self._dirty.clear()
        self.load_rules(connection)

    def load_rules(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute(LOAD_RULES).fetchall()
        self._durable = {row[0]: QueueRules(*row[1:4]) for row in rows}
        self._paused = {row[0] for row in rows if row[4] is not None}
        self._in_force.clear()

    def rules(self, queue: str) -> QueueRules:
        found = self._in_force.get(queue)
        if found is None:
            found = self._in_force[queue] = self.limits.of(queue, self._durable.get(queue))
        return found

    def is_paused(self, queue: str) -> bool:
        return queue in self._paused or EVERY_QUEUE in self._paused

    def depth(self, queue: str) -> int:
        counts = self.queues.get(queue)
        return counts["queued"] + counts["scheduled"] if counts else 0

    def towards(self, queue: str, run_ms: int) -> int:
        """What that run changes in how long runs take of late: a fifth of the difference, the first one all of it."""
        counts = self.queues[queue]
        difference = run_ms - counts["recent_run_ms"]
        return round(difference / 5) if counts["ended_runs"] else difference

    def add(self, move: Move) -> None:
        queue, column, delta = move
        counts = self.queues.get(queue)
        if counts is None:
            counts = self.queues[queue] = dict.fromkeys(COLUMNS, 0)
        counts[column] += delta
        if column == "running":
            self.running += delta
        elif column == "queued":
            (self._waiting.add if counts["queued"] else self._waiting.discard)(queue)
        self._dirty.add(queue)

    def free(self) -> dict[str, int]:
        """For each queue that has waiting jobs and may start some: how many, under its own and the global limit."""
        room = self.limits.max_slots - self.running
        if room <= 0 or EVERY_QUEUE in self._paused:
            return {}
        free = {}
        for queue in self._waiting:
            if queue not in self._paused:
                slots = (self.rules(queue).slots or 0) - self.queues[queue]["running"]
                if slots > 0:
                    free[queue] = min(slots, room)
        return free

    def flush(self, connection: sqlite3.Connection) -> None:
        for queue in self._dirty:
            connection.execute(STORE, (queue, *self.queues[queue].values()))
        self._dirty.clear()
