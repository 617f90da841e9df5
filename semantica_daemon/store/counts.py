"""The number of jobs in each queue and state, the totals and the rules of each queue; in memory, beside the tables.

Only the writer uses it. It is loaded at start and after a rollback. Claims and limits never count rows. `rooms` counts
the running jobs of concurrency keys and groups.
"""

import sqlite3

from semantica_daemon.model.queue import Limits, QueueRules, has_rate, stored_rules
from semantica_daemon.model.state import LIVE, QUEUED, RUNNING, SCHEDULED, TERMINAL
from semantica_daemon.store.rates import Rates
from semantica_daemon.wire.queue import Keys

TOTALS = (
    "done", "failed", "cancelled", "superseded", "skipped", "runs", "wait_ms", "timed_runs", "run_ms", "recent_run_ms",
)  # fmt: skip
TOTAL_OF = {state: state.partition("_")[0].lower() for state in TERMINAL}  # one total for both SKIPPED states
USED_SLOTS = "used_slots"
NOTHING = dict.fromkeys((*LIVE, USED_SLOTS, *TOTALS), 0)

LOAD = f"SELECT queue, {', '.join(TOTALS)} FROM queue_counts WHERE removed = 0"
STORE = f"INSERT OR REPLACE INTO queue_counts (queue, {', '.join(TOTALS)}) VALUES (?{', ?' * len(TOTALS)})"
# The partial index that has all jobs of a live state, by queue.
INDEX_OF_LIVE = {QUEUED: "idx_jobs_pop", SCHEDULED: "idx_jobs_scheduled", RUNNING: "idx_jobs_running"}
LIVE_COUNTS = "UNION ALL".join(
    f"""
SELECT queue, '{state}' AS state, count(*) AS jobs
FROM jobs INDEXED BY {index}
WHERE state = '{state}'
GROUP BY queue
"""
    for state, index in INDEX_OF_LIVE.items()
)
LOAD_USED_SLOTS = """
SELECT queue, sum(slots)
FROM jobs INDEXED BY idx_jobs_running
WHERE state = 'RUNNING'
GROUP BY queue
"""
LOAD_RULES = "SELECT queue, slots, on_running, max_queued, rate, keys, paused_at FROM queues"

EVERY_QUEUE = "*"


class Counts:
    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.used_slots = 0
        self.rules_version = 0
        self.rates = Rates()
        self.has_rates = False  # whether any queue or key has a rate
        self._queues: dict[str, dict[str, int]] = {}  # per queue: live jobs by state, totals by name
        self._durable: dict[str, QueueRules] = {}
        self._paused: set[str] = set()
        self._in_force: dict[str, QueueRules] = {}
        self._dirty: set[str] = set()

    def load(self, connection: sqlite3.Connection) -> None:
        self._dirty.clear()
        self._queues = {}
        for queue, *totals in connection.execute(LOAD).fetchall():
            self._queues[queue] = {**NOTHING, **dict(zip(TOTALS, totals, strict=True))}
        for queue, state, jobs in connection.execute(LIVE_COUNTS).fetchall():
            self._queues.setdefault(queue, dict(NOTHING))[state] = jobs
        for queue, slots in connection.execute(LOAD_USED_SLOTS).fetchall():
            self._queues[queue][USED_SLOTS] = slots
        self.used_slots = sum(counts[USED_SLOTS] for counts in self._queues.values())
        self.rates.load(connection)
        self.load_rules(connection)

    def load_rules(self, connection: sqlite3.Connection) -> None:
        rows = connection.execute(LOAD_RULES).fetchall()
        self._durable = {row[0]: stored_rules(*row[1:6]) for row in rows}
        self._paused = {row[0] for row in rows if row[6] is not None}
        self.limits.use_stored(self._durable.get(EVERY_QUEUE, QueueRules()).slots)
        self.has_rates = self.limits.has_rates or any(has_rate(rules) for rules in self._durable.values())
        self._in_force.clear()
        self.rules_version += 1

    def rules(self, queue: str) -> QueueRules:
        found = self._in_force.get(queue)
        if found is None:
            found = self._in_force[queue] = self.limits.of(queue, self._durable.get(queue))
        return found

    def stored_keys(self, queue: str) -> Keys:
        """The limits of keys that queue.configure has stored for the queue."""
        return self._durable.get(queue, QueueRules()).keys or {}

    def names(self) -> set[str]:
        """The queues that have or had jobs, or that the config or a stored setting names."""
        return {"default", *self._queues, *self._durable, *self.limits.named} - {EVERY_QUEUE}

    def live(self, queue: str) -> int:
        """The number of jobs in the queue that wait or run."""
        return sum(self._queues.get(queue, NOTHING)[state] for state in LIVE)

    def forget(self, queue: str) -> None:
        """Drops the totals of a queue without live jobs. The next job in it begins them anew."""
        self._queues.pop(queue, None)
        self._dirty.discard(queue)

    def is_paused(self, queue: str) -> bool:
        return queue in self._paused or EVERY_QUEUE in self._paused

    def depth(self, queue: str) -> int:
        """The number of jobs in the queue that have not started."""
        counts = self._queues.get(queue)
        return counts[QUEUED] + counts[SCHEDULED] if counts else 0

    @property
    def free_global_slots(self) -> int:
        """How many more slots the global limit allows."""
        return self.limits.max_slots - self.used_slots

    def free_slots(self, queue: str) -> int:
        """How many slots of the queue are free now, by the limit of the queue alone."""
        if self.is_paused(queue):
            return 0
        return (self.rules(queue).slots or 0) - self._queues.get(queue, NOTHING)[USED_SLOTS]

    def rate_left(self, queue: str, now: int) -> int:
        """How many jobs of the queue its rate lets start now; the number of all slots if it has no rate."""
        rate = self.rules(queue).rate
        return self.limits.max_slots if rate is None else self.rates.left((queue, ""), rate, now)

    def move(self, queue: str, origin: str | None, to: str, slots: int = 1) -> None:
        """Counts that a job of the queue, whose runs take so many slots, has changed its state; `origin` None: it is
        new."""
        counts = self._change(queue)
        if origin is not None:
            counts[origin] -= 1
        if to in LIVE:
            counts[to] += 1
        else:
            counts[TOTAL_OF[to]] += 1
            self._dirty.add(queue)
        if origin == RUNNING:
            slots = -slots
        elif to != RUNNING:
            return
        counts[USED_SLOTS] += slots
        self.used_slots += slots

    def add_run(self, queue: str, wait_ms: int, run_ms: int | None) -> None:
        """Counts a run that has ended; `run_ms` None: its duration is left out."""
        counts = self._change(queue)
        counts["runs"] += 1
        counts["wait_ms"] += wait_ms
        if run_ms is not None:
            counts["recent_run_ms"] += moving_average_step(counts["recent_run_ms"], run_ms, counts["timed_runs"])
            counts["timed_runs"] += 1
            counts["run_ms"] += run_ms
        self._dirty.add(queue)

    def _change(self, queue: str) -> dict[str, int]:
        counts = self._queues.get(queue)
        if counts is None:
            counts = self._queues[queue] = dict(NOTHING)
            self._dirty.add(queue)  # readers list the queues by the rows of queue_counts
        return counts

    def flush(self, connection: sqlite3.Connection, now: int) -> None:
        for queue in self._dirty:
            connection.execute(STORE, (queue, *map(self._queues[queue].__getitem__, TOTALS)))
        self._dirty.clear()
        if self.has_rates:
            self.rates.flush(connection, now)


def moving_average_step(average: int, run_ms: int, known_runs: int) -> int:
    """The change of the average by one run: a fifth of the difference; for the first run, the whole difference."""
    difference = run_ms - average
    return round(difference / 5) if known_runs else difference
