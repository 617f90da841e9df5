"""How many jobs each queue has in each state, its totals and its rules, in memory beside the tables.

The single writer owns it; a start or a lost transaction loads it again. Claims and limits never count rows.
"""

import sqlite3

from semantica_daemon.model.queue import Limits, QueueRules
from semantica_daemon.model.state import QUEUED, RUNNING, SCHEDULED

TOTALS = (
    "done", "failed", "cancelled", "superseded", "skipped", "runs", "wait_ms", "timed_runs", "run_ms", "recent_run_ms",
)  # fmt: skip
TOTAL_OF = {
    "DONE": "done", "FAILED": "failed", "CANCELLED": "cancelled", "SUPERSEDED": "superseded",
    "SKIPPED_TTL": "skipped", "SKIPPED_DEADLINE": "skipped",
}  # fmt: skip
LIVE = (QUEUED, SCHEDULED, RUNNING)

LOAD = f"SELECT queue, {', '.join(TOTALS)} FROM queue_counts"
STORE = f"INSERT OR REPLACE INTO queue_counts (queue, {', '.join(TOTALS)}) VALUES (?{', ?' * len(TOTALS)})"
LIVE_COUNTS = {
    QUEUED: "SELECT queue, count(*) FROM jobs INDEXED BY idx_jobs_pop WHERE state = 'QUEUED' GROUP BY queue",
    SCHEDULED: """
SELECT queue, count(*)
FROM jobs INDEXED BY idx_jobs_scheduled
WHERE state = 'SCHEDULED'
GROUP BY queue
""",
    RUNNING: "SELECT queue, count(*) FROM jobs INDEXED BY idx_jobs_running WHERE state = 'RUNNING' GROUP BY queue",
}
LOAD_RULES = "SELECT queue, slots, on_running, max_queued, paused_at FROM queues"

# (queue, state before, state after), or (queue, name of a total, how much more)
Move = tuple[str, str | None, str] | tuple[str, str, int]
EVERY_QUEUE = "*"


class Counts:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.running = 0
        self.rules_version = 0
        self._live: dict[str, dict[str, int]] = {}
        self._totals: dict[str, dict[str, int]] = {}
        self._durable: dict[str, QueueRules] = {}
        self._paused: set[str] = set()
        self._in_force: dict[str, QueueRules] = {}
        self._dirty: set[str] = set()

    def load(self, connection: sqlite3.Connection) -> None:
        self._totals = {row[0]: dict(zip(TOTALS, row[1:], strict=True)) for row in connection.execute(LOAD).fetchall()}
        self._live = {queue: dict.fromkeys(LIVE, 0) for queue in self._totals}
        for state, sql in LIVE_COUNTS.items():
            for queue, count in connection.execute(sql).fetchall():
                self._live.setdefault(queue, dict.fromkeys(LIVE, 0))[state] = count
        self.running = sum(live[RUNNING] for live in self._live.values())
        self._dirty.clear()
        self.load_rules(connection)

    def load_rules(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute(LOAD_RULES).fetchall()
        self._durable = {row[0]: QueueRules(*row[1:4]) for row in rows}
        self._paused = {row[0] for row in rows if row[4] is not None}
        self._in_force.clear()
        self.rules_version += 1

    def rules(self, queue: str) -> QueueRules:
        found = self._in_force.get(queue)
        if found is None:
            found = self._in_force[queue] = self.limits.of(queue, self._durable.get(queue))
        return found

    def is_paused(self, queue: str) -> bool:
        return queue in self._paused or EVERY_QUEUE in self._paused

    def depth(self, queue: str) -> int:
        """How many jobs of the queue wait, whatever for."""
        live = self._live.get(queue)
        return live[QUEUED] + live[SCHEDULED] if live else 0

    @property
    def room(self) -> int:
        """How many more runs the global limit allows."""
        return self.limits.max_slots - self.running

    def free_slots(self, queue: str) -> int:
        """How many runs may start in the queue now, the global limit aside."""
        if self.is_paused(queue):
            return 0
        return (self.rules(queue).slots or 0) - self._live[queue][RUNNING]

    def moving_average_step(self, queue: str, run_ms: int) -> int:
        """How much this run changes recent_run_ms: a fifth of the difference, and all of it for the first run."""
        totals = self._totals[queue]
        difference = run_ms - totals["recent_run_ms"]
        return round(difference / 5) if totals["timed_runs"] else difference

    def apply(self, move: Move) -> None:
        queue, origin, to = move
        if isinstance(to, int):
            self._add(queue, origin or "", to)
            return
        if origin is not None:
            self._count(queue, origin, -1)
        self._count(queue, to, 1)

    def undo(self, move: Move) -> None:
        queue, origin, to = move
        if isinstance(to, int):
            self._add(queue, origin or "", -to)
            return
        self._count(queue, to, -1)
        if origin is not None:
            self._count(queue, origin, 1)

    def _count(self, queue: str, state: str, delta: int) -> None:
        live = self._live.get(queue)
        if live is None:
            live = self._add_queue(queue)
        if state in live:
            live[state] += delta
            if state == RUNNING:
                self.running += delta
        else:
            self._add(queue, TOTAL_OF[state], delta)

    def _add(self, queue: str, total: str, delta: int) -> None:
        self._totals[queue][total] += delta
        self._dirty.add(queue)

    def _add_queue(self, queue: str) -> dict[str, int]:
        """Its row in queue_counts is how readers know that there is such a queue."""
        self._totals[queue] = dict.fromkeys(TOTALS, 0)
        self._live[queue] = dict.fromkeys(LIVE, 0)
        self._dirty.add(queue)
        return self._live[queue]

    def flush(self, connection: sqlite3.Connection) -> None:
        for queue in self._dirty:
            connection.execute(STORE, (queue, *self._totals[queue].values()))
        self._dirty.clear()
