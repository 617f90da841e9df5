"""What the next claim has to start, found by walking all waiting jobs in order, with nothing kept between claims."""

from collections import Counter
from fnmatch import fnmatchcase
from typing import Any

from semantica_daemon.wire.queue import KeyRule, Rate
from tests.builders import Store

MAX = 4


class Limits:
    """The rules in force, as the walk has set them."""

    def __init__(self) -> None:
        self.slots: dict[str, int] = {}
        self.rates: dict[str, Rate] = {}
        self.keys: dict[str, dict[str, KeyRule]] = {}
        self.groups: dict[str, tuple[str, int | None]] = {}
        self.starts: dict[tuple[str, str], list[int]] = {}  # by queue and key, empty for the queue itself

    def key_rule(self, queue: str, key: str) -> KeyRule:
        matches = [pattern for pattern in self.keys.get(queue, {}) if fnmatchcase(key, pattern)]
        best = max(matches, key=lambda pattern: (len(pattern), -pattern.count("*")), default=None)
        return KeyRule() if best is None else self.keys[queue][best]

    def group_limit(self, group: str) -> int | None:
        mode, most = self.groups.get(group, ("parallel", None))
        return 1 if mode == "sequential" else most

    def rates_of(self, queue: str, key: str | None) -> dict[tuple[str, str], Rate]:
        found = {(queue, ""): self.rates.get(queue)}
        if key is not None:
            found[(queue, key)] = self.key_rule(queue, key).rate
        return {name: rate for name, rate in found.items() if rate is not None}

    def rate_is_used_up(self, queue: str, key: str | None, now: int) -> bool:
        rates = self.rates_of(queue, key).items()
        counts = [(sum(at > now - rate.per_ms for at in self.starts.get(name, [])), rate.count) for name, rate in rates]
        return any(starts >= most for starts, most in counts)

    def start(self, queue: str, key: str | None, now: int) -> None:
        for name in self.rates_of(queue, key):
            self.starts.setdefault(name, []).append(now)


class Expectation:
    """A claim at one instant, on the rows as they are."""

    def __init__(self, store: Store, limits: Limits) -> None:
        self.limits, self.now = limits, store.now
        jobs = store.rows("SELECT * FROM jobs WHERE finished_at IS NULL AND execution_mode IS NOT NULL")
        self.waiting = [job for job in jobs if job["state"] == "QUEUED"]
        self.waiting.sort(key=lambda job: (-job["priority"], job["position"], job["created_at"], job["id"]))
        self.used: Counter[str] = Counter()
        self.by_key: Counter[tuple[str, str]] = Counter()
        self.by_group: Counter[str] = Counter()
        self.held: set[str] = set()
        for job in jobs:
            if job["state"] == "RUNNING":
                self.count(job)
            elif job["state"] == "SCHEDULED" and job["attempts"] and self._is_sequential(job["chain_group_id"]):
                self.by_group[job["chain_group_id"]] += 1

    def _is_sequential(self, group: str | None) -> bool:
        return group in self.limits.groups and self.limits.groups[group][0] == "sequential"

    def count(self, job: dict[str, Any]) -> None:
        self.used[job["queue"]] += job["slots"]
        if job["concurrency_key"] is not None:
            self.by_key[(job["queue"], job["concurrency_key"])] += 1
        if job["chain_group_id"] is not None:
            self.by_group[job["chain_group_id"]] += 1

    def started(self) -> list[str]:
        """The ids of the jobs that have to start, in this order."""
        found = []
        for job in self.waiting:
            if self._free_global() <= 0 or "*" in self.held:
                break
            if self._may_start(job):
                self.count(job)
                self.limits.start(job["queue"], job["concurrency_key"], self.now)
                found.append(job["id"])
        return found

    def _free_global(self) -> int:
        return MAX - sum(self.used.values())

    def _may_start(self, job: dict[str, Any]) -> bool:
        queue, most = job["queue"], self.limits.slots.get(job["queue"], MAX)
        free = most - self.used[queue]
        if free <= 0 or queue in self.held or job["slots"] > min(most, MAX) or self._has_no_room(job):
            return False
        if job["slots"] > free:
            self.held.add(queue)
        elif job["slots"] > self._free_global():
            self.held.add("*")
        else:
            return True
        return False

    def _has_no_room(self, job: dict[str, Any]) -> bool:
        queue, key, group = job["queue"], job["concurrency_key"], job["chain_group_id"]
        if self.limits.rate_is_used_up(queue, key, self.now):
            return True
        if key is not None and self.by_key[(queue, key)] >= self.limits.key_rule(queue, key).limit:
            return True
        limit = None if group is None else self.limits.group_limit(group)
        return limit is not None and self.by_group[group or ""] >= limit
