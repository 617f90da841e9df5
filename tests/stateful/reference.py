"""The store as a dict: what semantics.md says of states, lanes, order, attempts and time, in the plainest way.

The machine does each thing twice, here and in SQLite. Nothing here knows of planner, transition or SQL.
"""

from dataclasses import dataclass, field
from typing import Any

from semantica_daemon.errors import GenerationOwner, IdempotencyConflict, QueueFull
from semantica_daemon.model.job import Ack
from semantica_daemon.model.outcome import Outcome
from semantica_daemon.store.transition import Claim, Running

LIVE = ("QUEUED", "SCHEDULED", "RUNNING")
WAITING = ("QUEUED", "SCHEDULED")
DAY = 86_400_000
Lane = tuple[str, str]


@dataclass
class Job:
    id: str
    spec: dict[str, Any]
    state: str
    created_at: int
    generation: int = 0
    position: int = 0
    scheduled_at: int | None = None
    expires_at: int | None = None
    attempts: int = 0
    run_count: int = 0
    run: Running | None = None
    stale: bool = False
    stop: str | None = None
    superseded_by: str | None = None
    begun: bool = False
    claim_attempts: int = 0

    @property
    def queue(self) -> str:
        return str(self.spec["queue"])

    @property
    def lane(self) -> Lane | None:
        return lane_of(self.spec)

    @property
    def order(self) -> tuple[int, int, int, str]:
        return -self.spec["priority"], self.position, self.created_at, self.id


@dataclass
class Known:
    """What is known of a lane."""

    newest: int
    owner: str
    generations: dict[int, str]
    interrupts: int = 0


@dataclass
class Reference:
    max_slots: int
    slots: dict[str, int]
    max_queued: dict[str, int]
    jobs: dict[str, Job] = field(default_factory=dict)
    lanes: dict[Lane, Known] = field(default_factory=dict)
    keys: dict[str, tuple[dict[str, Any], str, int]] = field(default_factory=dict)
    paused: dict[str, int | None] = field(default_factory=dict)
    positions: int = 0

    # What arrives

    def enqueue(self, spec: dict[str, Any], now: int, told: Any) -> None:
        """`told` is the store's answer, an Ack or a refusal: it must be the one due, and is then carried out."""
        key = spec["idempotency_key"]
        if key in self.keys and self.keys[key][2] > now:
            same, job_id, _ = self.keys[key]
            if same != spec:
                assert isinstance(told, IdempotencyConflict), told
            else:
                self._existing(told, job_id)
            return
        lane = lane_of(spec)
        known = self.lanes.get(lane) if lane else None
        in_lane = [job for job in self._live() if lane and job.lane == lane]
        generation = self._generation(spec, known) if lane else spec["generation"] or 0
        owner = "server" if spec["generation"] is None else "client"
        if known and owner != known.owner and (in_lane or generation <= known.newest):
            assert isinstance(told, GenerationOwner), told
        elif known and generation in known.generations:
            self._existing(told, known.generations[generation])
            if key:
                self.keys[key] = (spec, known.generations[generation], now + DAY)
        elif known and generation < known.newest:
            self._record(spec, now, told, generation, known.generations[known.newest])
        else:
            self._newest(spec, now, told, generation, owner)

    def _generation(self, spec: dict[str, Any], known: Known | None) -> int:
        given: int | None = spec["generation"]
        if given is not None:
            return given
        return known.newest + 1 if known else 1

    def _existing(self, told: Any, job_id: str) -> None:
        job = self.jobs[job_id]
        assert isinstance(told, Ack), told
        assert (told.existing, told.job_id, told.state, told.superseded) == (True, job_id, job.state, ())

    def _newest(self, spec: dict[str, Any], now: int, told: Any, generation: int, owner: str) -> None:
        lane = lane_of(spec)
        older = [job for job in self._live() if lane and self._gives_way(job, spec)]
        waiting = [job for job in older if job.state in WAITING]
        depth = sum(job.state in WAITING and job.queue == spec["queue"] for job in self.jobs.values())
        makes_room = any(job.queue == spec["queue"] for job in waiting)
        if not makes_room and depth >= self.max_queued.get(spec["queue"], 10**9):
            assert isinstance(told, QueueFull), told
            return
        self._record(spec, now, told, generation, None)
        assert sorted(told.superseded) == sorted(job.id for job in waiting)
        for job in waiting:
            self._end(job, "SUPERSEDED", told.job_id)
        if lane:
            known = self.lanes.setdefault(lane, Known(generation, owner, {}))
            self._outdate(older, spec, told.job_id)
            known.newest, known.owner = generation, owner
            known.generations[generation] = told.job_id

    def _gives_way(self, job: Job, spec: dict[str, Any]) -> bool:
        if job.lane is None:
            return False
        return job.lane == lane_of(spec) or (spec["supersede"] == "subject" and job.lane[0] == spec["subject_key"])

    def _outdate(self, older: list[Job], spec: dict[str, Any], by: str) -> None:
        """The interruptions that count are those of the running job's own lane."""
        for job in [job for job in older if job.state == "RUNNING" and job.stop is None]:
            known = self.lanes[job.lane or ("", "")]
            job.stale, job.superseded_by = True, by
            if spec["on_running"] == "cancel" and known.interrupts < spec["max_interrupts"]:
                job.stop = "SUPERSEDED"
                known.interrupts += 1

    def _record(self, spec: dict[str, Any], now: int, told: Any, generation: int, winner: str | None) -> None:
        assert isinstance(told, Ack), told
        schedule = spec["schedule"]
        at = schedule.get("scheduled_at") if "delay_ms" not in schedule else now + schedule["delay_ms"]
        state = "SUPERSEDED" if winner else "SCHEDULED" if at is not None and at > now else "QUEUED"
        shown = generation if lane_of(spec) else spec["generation"]
        assert (told.existing, told.state, told.generation) == (False, state, shown)
        job = self.jobs[told.job_id] = Job(told.job_id, spec, state, now, generation, scheduled_at=at)
        job.superseded_by = winner
        if winner:
            self.lanes[lane_of(spec) or ("", "")].generations[generation] = job.id
        if state == "QUEUED":
            self._queue(job, now)
        if spec["idempotency_key"]:
            self.keys[spec["idempotency_key"]] = (spec, job.id, now + DAY)

    # What happens over time

    def claim(self, now: int, claimed: list[Claim]) -> None:
        """The free slots of each queue in order; what is met on the way and is too late ends."""
        room = self.max_slots - self._running()
        found: list[Job] = []
        for queue in {job.queue for job in self.jobs.values()}:
            free = min(room, self.slots.get(queue, self.max_slots) - self._running(queue))
            if free > 0 and not {queue, "*"} & self.paused.keys():
                found += self._next_of(queue, free, now)
        expected = sorted(found, key=lambda job: job.order)[:room]
        assert [one.run.job_id for one in claimed] == [job.id for job in expected]
        for job, one in zip(expected, claimed, strict=True):
            job.state, job.run = "RUNNING", one.run
            job.begun = job.spec["execution_mode"] != "SUBPROCESS"
            job.attempts += 1
            job.run_count += 1
            assert (one.run.attempt, one.run.started_at) == (job.attempts, now)

    def _next_of(self, queue: str, free: int, now: int) -> list[Job]:
        found: list[Job] = []
        busy = {job.lane for job in self.jobs.values() if job.state == "RUNNING"} - {None}
        queued = [job for job in self.jobs.values() if (job.queue, job.state) == (queue, "QUEUED")]
        for job in sorted(queued, key=lambda job: job.order):
            if len(found) == free:
                break
            if not self._skip(job, now) and job.lane not in busy:
                found.append(job)
        return found

    def _skip(self, job: Job, now: int) -> bool:
        deadline = job.spec["deadline"]
        if deadline is not None and deadline <= now:
            self._end(job, "SKIPPED_DEADLINE")
        elif job.state == "QUEUED" and job.expires_at is not None and job.expires_at <= now:
            self._end(job, "SKIPPED_TTL")
        return job.state not in WAITING

    def promote(self, now: int) -> None:
        for job in [job for job in self.jobs.values() if job.state in WAITING]:
            self._skip(job, now)
        due = [job for job in self.jobs.values() if job.state == "SCHEDULED" and (job.scheduled_at or 0) <= now]
        for job in sorted(due, key=lambda job: job.scheduled_at or 0):
            self._queue(job, now)
        for queue in [queue for queue, until in self.paused.items() if until is not None and until <= now]:
            del self.paused[queue]

    def next_due(self) -> int | None:
        waiting = [job for job in self.jobs.values() if job.state in WAITING]
        instants = [job.spec["deadline"] for job in waiting]
        instants += [job.scheduled_at if job.state == "SCHEDULED" else job.expires_at for job in waiting]
        instants += list(self.paused.values())
        return min((instant for instant in instants if instant is not None), default=None)

    def finish(self, job: Job, outcome: Outcome, now: int, became: str | None, at: int | None) -> None:
        """`at` is when the store will try again: the jitter is its own, the bounds are not."""
        status = self._verdict(job, outcome)
        state, run_ended = status
        assert became == state
        job.claim_attempts += outcome.unstarted and job.stop is None
        if state == "SCHEDULED":
            wait = job.spec["backoff_base_ms"] * 2.0 ** (job.attempts - 1)
            assert at is not None
            assert wait * 0.9 - 1 <= at - now <= wait * 1.1 + 1
            job.scheduled_at, job.state = at, state
        elif state == "QUEUED":
            job.attempts -= 1
            self._queue(job, now)
        else:
            self._end(job, state, job.superseded_by)
            job.attempts -= run_ended == "INTERRUPTED"
            if job.lane and run_ended in ("DONE", "FAILED"):
                self.lanes[job.lane].interrupts = 0
        job.run = None

    def _verdict(self, job: Job, outcome: Outcome) -> tuple[str, str]:
        """(the job's state, the run's status)"""
        if job.stop:
            return job.stop, job.stop
        if outcome.error is None:
            return "DONE", "DONE"
        if outcome.unstarted and job.claim_attempts == 2:
            return "FAILED", "FAILED"
        if outcome.unstarted:
            return ("SUPERSEDED" if job.stale else "QUEUED"), "INTERRUPTED"
        if outcome.interrupted and job.spec["on_interrupt"] == "requeue":
            return ("SUPERSEDED" if job.stale else "QUEUED"), "INTERRUPTED"
        if outcome.error.class_ == "permanent" or job.attempts >= job.spec["max_attempts"]:
            return "FAILED", "FAILED"
        return ("SUPERSEDED" if job.stale else "SCHEDULED"), "FAILED"

    def cancel(self, job: Job) -> str:
        """Which list of the answer names it."""
        if job.state == "RUNNING":
            job.stop = "CANCELLED"
            return "cancelling"
        if job.state in WAITING:
            self._end(job, "CANCELLED")
            return "cancelled"
        return "unchanged"

    # The small steps

    def running(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state == "RUNNING"]

    def _live(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state in LIVE]

    def _running(self, queue: str | None = None) -> int:
        return sum(queue in (None, job.queue) for job in self.running())

    def _queue(self, job: Job, now: int) -> None:
        self.positions += 1
        job.state, job.position = "QUEUED", self.positions
        job.expires_at = None if job.spec["ttl_ms"] is None else now + job.spec["ttl_ms"]

    def _end(self, job: Job, state: str, by: str | None = None) -> None:
        job.state = state
        job.superseded_by = by or job.superseded_by


def lane_of(spec: dict[str, Any]) -> Lane | None:
    if spec["subject_key"] is None or spec["supersede"] == "none":
        return None
    return spec["subject_key"], spec["job_type"]
