"""What external workers and their jobs should be: a few dicts, without a database. `test_worker_machine` compares."""

from dataclasses import dataclass, field
from typing import Any

LIVE = ("QUEUED", "SCHEDULED", "RUNNING")


@dataclass
class Lease:
    run_id: str
    job_id: str
    worker_id: str
    lease_ms: int
    expires_at: int
    ends_at: int | None
    stop_at: int | None = None

    def until(self, now: int) -> int:
        bounds = (now + self.lease_ms, self.ends_at, self.stop_at)
        return min(at for at in bounds if at is not None)


@dataclass
class Item:
    job_id: str
    number: int
    priority: int
    queue: str
    job_type: str
    max_attempts: int
    on_interrupt: str
    timeout_ms: int | None
    position: int = 0
    state: str = "QUEUED"
    attempts: int = 0
    claim_attempts: int = 0
    scheduled_at: int = 0
    is_cancelled: bool = False
    done: int = 0


@dataclass
class WorkerModel:
    now: int
    grace_ms: int
    jobs: dict[str, Item] = field(default_factory=dict)
    leases: dict[str, Lease] = field(default_factory=dict)
    workers: dict[str, list[int]] = field(default_factory=dict)  # items processed and failed
    paused: set[str] = field(default_factory=set)
    positions: int = 0

    def enqueue(self, job_id: str, **spec: Any) -> None:
        self.jobs[job_id] = item = Item(job_id, len(self.jobs), **spec)
        self._queue(item)

    def _queue(self, item: Item) -> None:
        self.positions += 1
        item.state, item.position = "QUEUED", self.positions

    def order(self, queues: list[str] | None, types: list[str] | None) -> list[str]:
        """The jobs that a worker with this filter may claim, in their order."""
        found = [
            item
            for item in self.jobs.values()
            if item.state == "QUEUED"
            and item.queue not in self.paused
            and (queues is None or item.queue in queues)
            and (types is None or item.job_type in types)
        ]
        return [item.job_id for item in sorted(found, key=lambda item: (-item.priority, item.position))]

    def claimed(self, run_id: str, job_id: str, worker_id: str, lease_ms: int) -> Lease:
        item = self.jobs[job_id]
        item.state, item.attempts = "RUNNING", item.attempts + 1
        ends_at = None if item.timeout_ms is None else self.now + item.timeout_ms
        lease = self.leases[run_id] = Lease(run_id, job_id, worker_id, lease_ms, 0, ends_at)
        lease.expires_at = lease.until(self.now)
        return lease

    def heartbeat(self, worker_id: str, run_ids: list[str]) -> tuple[dict[str, int], list[str], list[str]]:
        """The leases and when they end, the runs that are lost, those that must stop."""
        own = [run_id for run_id in run_ids if self.owns(worker_id, run_id)]
        for lease in (self.leases[run_id] for run_id in own):
            if self.jobs[lease.job_id].is_cancelled and lease.stop_at is None:
                lease.stop_at = self.now + self.grace_ms
            lease.expires_at = lease.until(self.now)
        stops = [run_id for run_id in own if self.leases[run_id].stop_at is not None]
        return {run_id: self.leases[run_id].expires_at for run_id in own}, [r for r in run_ids if r not in own], stops

    def owns(self, worker_id: str, run_id: str) -> bool:
        return run_id in self.leases and self.leases[run_id].worker_id == worker_id

    def succeed(self, run_id: str) -> None:
        item = self._end(run_id)
        if self._stopped(item):
            return
        item.state, item.done = "DONE", item.done + 1
        self._count(run_id, 0)

    def fail(self, run_id: str, permanent: bool = False) -> None:
        item = self._end(run_id)
        if self._stopped(item):
            return
        self._count(run_id, 1)
        again = not permanent and item.attempts < item.max_attempts
        item.state, item.scheduled_at = ("SCHEDULED", self.now) if again else ("FAILED", 0)

    def give_back(self, run_id: str, failed_claim: bool = False) -> None:
        item = self._end(run_id)
        if self._stopped(item):
            return
        item.claim_attempts += failed_claim
        if failed_claim and item.claim_attempts >= 3:
            self._count(run_id, 1)
            item.state = "FAILED"
        else:
            item.attempts -= 1
            self._queue(item)

    def lapse(self) -> None:
        """Ends the leases that are over, in their order, and then promotes what waits for another attempt."""
        over = [lease for lease in self.leases.values() if lease.expires_at <= self.now]
        for lease in sorted(over, key=lambda lease: (lease.expires_at, lease.run_id)):
            timed_out = lease.ends_at is not None and lease.ends_at <= self.now and lease.stop_at is None
            if self.jobs[lease.job_id].on_interrupt == "requeue" and not timed_out:
                self.give_back(lease.run_id)
            else:
                self.fail(lease.run_id)
        for item in sorted(self.jobs.values(), key=lambda item: (item.scheduled_at, item.number)):
            if item.state == "SCHEDULED":
                self._queue(item)

    def cancel(self, job_id: str) -> None:
        item = self.jobs[job_id]
        if item.state == "RUNNING":
            item.is_cancelled = True
        elif item.state in LIVE:
            item.state = "CANCELLED"

    def restart(self) -> None:
        for lease in self.leases.values():
            lease.expires_at = max(lease.expires_at, lease.until(self.now))

    def _end(self, run_id: str) -> Item:
        self._ended = self.leases.pop(run_id)
        return self.jobs[self._ended.job_id]

    def _stopped(self, item: Item) -> bool:
        if item.is_cancelled:
            item.state = "CANCELLED"
        return item.is_cancelled

    def _count(self, run_id: str, failed: int) -> None:
        self.workers[self._ended.worker_id][failed] += 1
