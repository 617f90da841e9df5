"""The store as a dict: what docs/semantics.md says of states, lanes, order, attempts, conditions and time, plainly.

The machine does each thing twice, here and in SQLite. Nothing here knows of planner, transition or SQL. Durations are
counted in time that has really passed, so that a clock that is set cannot touch them; `timetable` has the schedules.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from semantica_daemon.errors import GenerationOwner, IdempotencyConflict, QueueFull, Refusal
from semantica_daemon.model.outcome import Outcome
from semantica_daemon.store.run_transition import Claim
from semantica_daemon.wire.job import Ack
from tests.stateful.known import LIVE, WAITING, Arrival, Job, Known, Lane, Time, environment_of, lane_of, verdict
from tests.stateful.parents import settle, with_parents
from tests.stateful.queue_settings import Queues
from tests.stateful.uniqueness import KeptAs, heir_of, kept_as

NEEDS = [(False, False), (False, True), (True, False), (True, True)]
DAY = 86_400_000
OF_THE_CALL = {"force": None, "environment": None}  # no part of what a key stands for


@dataclass
class Reference:
    queues: Queues
    time: Time
    facts: tuple[bool, bool] = (False, False)
    jobs: dict[str, Job] = field(default_factory=dict)
    lanes: dict[Lane, Known] = field(default_factory=dict)
    keys: dict[str, tuple[dict[str, Any], str, int]] = field(default_factory=dict)
    positions: int = 0
    interrupts: Counter[str] = field(default_factory=Counter)
    ended: list[Job] = field(default_factory=list)  # whose children are told of it by the next commit

    # What arrives

    def enqueue(self, spec: dict[str, Any], told: Any) -> None:
        """`told` is the store's answer, an Ack or a refusal: it must be the one due, and is then carried out."""
        key = spec["idempotency_key"]
        due = self._by_key(spec) or self.decide(spec)
        due = with_parents(due, self.jobs, self.lanes) if isinstance(due, Arrival) else due
        if isinstance(due, type):
            assert isinstance(told, due), told
            return
        assert isinstance(told, Ack), told
        if isinstance(due, str | KeptAs):
            job = due.job if isinstance(due, KeptAs) else self.jobs[due]
            assert (told.existing, told.job_id, told.state, told.superseded) == (True, job.id, job.state, ())
            if isinstance(due, KeptAs):
                self.keep(due)
        else:
            waiting = [job.id for job in due.waiting]
            self.arrives(due, told.job_id)
            shown = due.job.generation if due.job.lane else spec["generation"]
            assert (told.existing, told.state, told.generation) == (False, due.job.state, shown)
            assert sorted(told.superseded) == sorted(waiting)
        if key and not self._by_key(spec):
            self.keys[key] = (spec, told.job_id, self.time.elapsed + DAY)

    def _by_key(self, spec: dict[str, Any]) -> str | type[Refusal] | None:
        same, job_id, until = self.keys.get(spec["idempotency_key"], ({}, "", -1))
        if until <= self.time.elapsed:
            return None
        is_same = {**same, **OF_THE_CALL} == {**spec, **OF_THE_CALL}
        return job_id if is_same else IdempotencyConflict

    def decide(self, spec: dict[str, Any], schedule_id: str | None = None) -> Arrival | KeptAs | str | type[Refusal]:
        """A refusal, the id of a job that is known already, one that waits and is kept, or a new one."""
        lane = lane_of(spec)
        known = self.lanes.get(lane) if lane else None
        generation = self._generation(spec, known) if lane else spec["generation"] or 0
        owner = "server" if spec["generation"] is None else "client"
        new = Job("", spec, len(self.jobs), generation=generation, schedule_id=schedule_id)
        new.environment = environment_of(spec)
        in_lane = [job for job in self.live() if lane and job.lane == lane]
        if lane and spec["supersede"] == "keep" and (kept := kept_as(in_lane, spec)):
            return kept
        if known and owner != known.owner and (in_lane or generation <= known.newest):
            return GenerationOwner
        if known and (recorded := known.job_of(generation)):
            if not spec.get("force"):
                return recorded
            if repeated := [job.id for job in in_lane if job.generation == generation]:
                return repeated[0]
            new.retry_of = recorded
        if known and generation < known.newest and new.retry_of:
            arrival = Arrival(new, owner, [], is_behind=True)
            return QueueFull if self.is_full(arrival) else arrival
        if known and generation < known.newest:
            return Arrival(new, owner, [], known.newest_job)
        arrival = Arrival(new, owner, [job for job in self.live() if lane and self._gives_way(job, spec)])
        return QueueFull if self.is_full(arrival) else arrival

    def keep(self, kept: KeptAs) -> None:
        """A lane in which one more has come was not quiet."""
        job = kept.job
        kept.hand_over()
        quiet = kept.quiet_at(self.time.elapsed)
        if quiet is not None and self.time.now + quiet - self.time.elapsed > self.time_of(job):
            job.at, job.delay_until = None, quiet

    def _generation(self, spec: dict[str, Any], known: Known | None) -> int:
        given: int | None = spec["generation"]
        if given is not None:
            return given
        return known.newest + 1 if known else 1

    def is_full(self, arrival: Arrival) -> bool:
        """Whoever it supersedes in its queue makes way for it."""
        queue = arrival.job.queue
        depth = sum(job.state in WAITING and job.queue == queue for job in self.jobs.values())
        makes_room = any(job.queue == queue for job in arrival.waiting)
        return not makes_room and depth >= self.queues.max_queued(queue)

    def _gives_way(self, job: Job, spec: dict[str, Any]) -> bool:
        """append jobs give way to nobody and nobody gives way to them; to a keep job only what runs."""
        if job.lane is None or job.is_append or spec["supersede"] == "append":
            return False
        if spec["supersede"] == "keep" and job.state != "RUNNING":
            return False
        return job.lane == lane_of(spec) or (spec["supersede"] == "subject" and job.lane[0] == spec["subject_key"])

    def arrives(self, arrival: Arrival, job_id: str, one_at_a_time: bool = False) -> Job:
        """`one_at_a_time`: it waits until the jobs of its schedule that are left have ended."""
        job, waiting = arrival.job, arrival.waiting
        job.id, job.awaits_turn = job_id, one_at_a_time and bool(self.of_schedule(arrival.job.schedule_id))
        self._time(job, [older.postponed_since for older in waiting if older.lane == job.lane])
        for older in waiting:
            self.end(older, "SUPERSEDED", job_id)
            job.gathered += older.payloads if job.spec["gather"] else []
        if job.lane and not arrival.winner and not arrival.is_behind:
            known = self.lanes.setdefault(job.lane, Known(job.generation, arrival.owner, {}))
            self._outdate(arrival.older, job, arrival.may_interrupt)
            known.newest, known.owner, known.newest_job = job.generation, arrival.owner, job_id
        if job.lane:
            self.lanes[job.lane].generations.setdefault(job.generation, job_id)
        if arrival.is_behind and job.lane and not job.is_append:
            job.stale, job.superseded_by = True, self.lanes[job.lane].newest_job
        if arrival.winner:
            job.state, job.superseded_by = "SUPERSEDED", arrival.winner
            if job.spec["gather"] and (heir := heir_of(self.jobs, arrival.winner)):
                heir.gathered = heir.gathered + job.payloads
        else:
            self._wait_or_queue(job)
        self.jobs[job_id] = job
        self.queues.used.add(job.queue)
        self._next_turn(job.schedule_id)
        return job

    def _time(self, job: Job, postponed: list[int | None]) -> None:
        """Of its times the latest. A debounced job waits for its lane to be quiet, but not for ever."""
        schedule, debounce_ms, elapsed = job.spec["schedule"], job.spec["debounce_ms"], self.time.elapsed
        delays = [elapsed + schedule["delay_ms"]] if "delay_ms" in schedule else []
        if debounce_ms is not None:
            since = job.postponed_since = min((one for one in postponed if one is not None), default=elapsed)
            most = job.spec["max_wait_ms"]
            delays.append(elapsed + debounce_ms if most is None else min(elapsed + debounce_ms, since + most))
        delay, fixed = max(delays, default=None), schedule.get("scheduled_at")
        if delay is not None and (fixed is None or fixed <= self.time.now + delay - elapsed):
            job.delay_until = delay
        else:
            job.at = fixed

    def _wait_or_queue(self, job: Job) -> None:
        schedule = job.spec["schedule"]
        if schedule.get("wait_for_event") is not None:
            job.unheard = {schedule["wait_for_event"]}
        job.unmet_conditions = set((schedule.get("conditions") or {}).items())
        job.held = job.spec["hold"]
        if job.unmet or any(job.need) or not self.is_time(job):
            job.state = "SCHEDULED"
        else:
            self._queue(job)

    def _outdate(self, older: list[Job], by: Job, may_interrupt: bool) -> None:
        """The interruptions that count are those of the running job's own lane."""
        for job in [job for job in older if job.state == "RUNNING" and job.stop is None]:
            known = self.lanes[job.lane or ("", "")]
            job.stale, job.superseded_by = True, by.id
            if may_interrupt and by.spec["on_running"] == "cancel" and known.interrupts < by.spec["max_interrupts"]:
                job.stop = "SUPERSEDED"
                known.interrupts += 1

    # What happens over time

    def claim(self, claimed: list[Claim]) -> None:
        """In the order of all queues together, until no slot is free; what is met on the way and is too late ends. That
        may make room in its lane for one that comes before others: of those only is the order not known."""
        live = len(self.live())
        expected, found = [job.id for job in self._next_to_start()], [one.run.job_id for one in claimed]
        assert sorted(found) == sorted(expected)
        assert found == expected or len(self.live()) < live
        for job, one in zip((self.jobs[job_id] for job_id in found), claimed, strict=True):
            job.state, job.run, job.postponed_since = "RUNNING", one.run, None
            job.begun = job.spec["execution_mode"] != "SUBPROCESS"
            job.attempts += 1
            job.run_count += 1
            run = (one.run.attempt, one.run.run_number, one.run.started_at)
            assert run == (job.attempts, job.run_count, self.time.now)

    def _next_to_start(self) -> list[Job]:
        found: list[Job] = []
        while self._running() + len(found) < self.queues.max_slots:
            ready = [job for job in self.live() if job not in found and self._may_start(job, found)]
            if not ready:
                break
            first = min(ready, key=lambda job: job.order)
            found += [] if self._skip(first) else [first]
        return found

    def _may_start(self, job: Job, beside: list[Job]) -> bool:
        taken = self._running(job.queue) + sum(other.queue == job.queue for other in beside)
        is_open = self.queues.may_start(job.queue) and taken < self.queues.slots(job.queue)
        return job.state == "QUEUED" and job.has_room and is_open and self.fits(job.need)

    def _skip(self, job: Job) -> bool:
        deadline = job.spec["deadline"]
        if deadline is not None and deadline <= self.time.now:
            self.end(job, "SKIPPED_DEADLINE")
        elif job.state == "QUEUED" and job.expires is not None and job.expires <= self.time.elapsed:
            self.end(job, "SKIPPED_TTL")
        return job.state not in WAITING

    def skip(self) -> None:
        """What is too late by now."""
        for job in [job for job in self.jobs.values() if job.state in WAITING]:
            self._skip(job)

    def promote(self, told: list[str]) -> None:
        """What has nothing left to wait for, in the order `told`: first those that need nothing of the machine, and of
        those the first due first. Who has been there before and was taken back has no better place than others."""
        ready = {job.id: job for job in self.jobs.values() if self.is_ready(job)}
        chosen = [ready[job_id] for job_id in told if job_id in ready]
        assert sorted(job.id for job in chosen) == sorted(ready)
        in_order = [job for job in chosen if not job.has_come and not job.opened]
        places = [(NEEDS.index(job.need), self.time_of(job), job.number) for job in in_order]
        assert places == sorted(places)
        for job in chosen:
            self._queue(job)
        paused = self.queues.paused
        for queue in [queue for queue, until in paused.items() if until is not None and until <= self.time.elapsed]:
            del paused[queue]

    def queue_opened(self, told: list[str]) -> None:
        """Those whose last gate was opened by this commit, in the order `told`."""
        for job_id in told:
            job = self.jobs[job_id]
            if job.state == "SCHEDULED":
                assert job.opened
                assert self.is_ready(job)
                self._queue(job)

    def is_ready(self, job: Job) -> bool:
        return job.state == "SCHEDULED" and not job.unmet and self.fits(job.need) and self.is_time(job)

    def next_due(self) -> list[int | None]:
        """Of everything but schedules; who waits for something else is not due."""
        waiting = [job for job in self.jobs.values() if job.state in WAITING]
        instants: list[int | None] = [job.spec["deadline"] for job in waiting]
        instants += [self.time.shown(job.expires) for job in waiting if job.state == "QUEUED"]
        fit = [job for job in waiting if job.state == "SCHEDULED" and not job.unmet and self.fits(job.need)]
        instants += [self.time_of(job) for job in fit]
        return instants + [self.time.shown(until) for until in self.queues.paused.values()]

    def needed_from(self, which: int) -> int | None:
        """When somebody begins to wait for idle (0) or power (1): 0 is now, None never."""
        jobs = [job for job in self.live() if job.need[which]]
        instants = [self.time_of(job) for job in jobs if job.state == "SCHEDULED" and not job.unmet]
        instants += [0 for job in jobs if job.state == "QUEUED"]
        instants += [0 for job in jobs if job.state == "RUNNING" and job.spec["stop_when_lost"]]
        return min(instants, default=None)

    def lose(self) -> list[str]:
        """What waits in a queue and no longer may waits again; the runs that have to stop."""
        unfit = [job for job in self.live() if not self.fits(job.need)]
        for job in [job for job in unfit if job.state == "QUEUED"]:
            self.waits_again(job)
        return [job.run.run_id for job in unfit if job.run and job.spec["stop_when_lost"]]

    def emit(self, key: str, value: str | None, among: set[str]) -> list[str]:
        """Latched, and never for what comes later; a condition wants the value too. `among`: those before it."""
        matched = []
        for job in [job for job in self.jobs.values() if job.state == "SCHEDULED" and job.id in among]:
            if key in job.unheard or (key, value) in job.unmet_conditions:
                matched.append(job.id)
                job.unheard.discard(key)
                job.unmet_conditions -= {(key, value or "")} if value is not None else set()
                job.opened = not job.unmet
        return matched

    def finish(self, job: Job, outcome: Outcome, became: str | None, at: int | None) -> None:
        """`at` is when the store will try again: the jitter is its own, the bounds are not."""
        state, run_ended = verdict(job, outcome)
        assert became == state
        job.claim_attempts += outcome.unstarted and job.stop is None
        job.attempts -= run_ended == "INTERRUPTED"
        if state == "SCHEDULED" and run_ended == "FAILED":
            wait = job.spec["backoff_base_ms"] * 2.0 ** (job.attempts - 1)
            assert at is not None
            assert wait * 0.9 - 1 <= at - self.time.now <= wait * 1.1 + 1
            job.at, job.delay_until, job.has_come = None, self.time.elapsed + at - self.time.now, False
        if state == "SCHEDULED":
            job.state = state
            self._leave_room(job)
        elif state == "QUEUED":
            self._queue(job)
        else:
            if state == "SUPERSEDED" and (heir := heir_of(self.jobs, job.superseded_by)):
                heir.gathered = job.payloads + heir.gathered
            self.end(job, state, job.superseded_by)
            if run_ended in ("DONE", "FAILED"):
                self.interrupts.pop(job.schedule_id or "", None)
                if job.lane:
                    self.lanes[job.lane].interrupts = 0
        job.run = None

    def cancel(self, job: Job) -> str:
        """Which list of the answer names it."""
        if job.state == "RUNNING":
            job.stop = "CANCELLED"
            return "cancelling"
        if job.state in WAITING:
            self.end(job, "CANCELLED")
            return "cancelled"
        return "unchanged"

    # The small steps

    def running(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state == "RUNNING"]

    def live(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state in LIVE]

    def of_schedule(self, schedule_id: str | None) -> list[Job]:
        return [job for job in self.live() if schedule_id is not None and job.schedule_id == schedule_id]

    def fits(self, need: Iterable[bool]) -> bool:
        return all(has or not needs for needs, has in zip(need, self.facts, strict=True))

    def is_time(self, job: Job) -> bool:
        return job.has_come or ((job.at or 0) <= self.time.now and (job.delay_until or 0) <= self.time.elapsed)

    def time_of(self, job: Job) -> int:
        """As the clock shows it; once it has come it is over."""
        if job.has_come:
            return 0
        return (job.at or 0) if job.delay_until is None else self.time.now + job.delay_until - self.time.elapsed

    def _running(self, queue: str | None = None) -> int:
        return sum(queue in (None, job.queue) for job in self.running())

    def _queue(self, job: Job) -> None:
        self.positions += 1
        job.state, job.position, job.has_come = "QUEUED", self.positions, True
        in_room = (other for other in self.live() if other.has_room and other.lane == job.lane and other is not job)
        job.has_room = job.lane is None or not any(in_room)
        job.expires = None if job.spec["ttl_ms"] is None else self.time.elapsed + job.spec["ttl_ms"]

    def end(self, job: Job, state: str, by: str | None = None) -> None:
        job.state = state
        job.superseded_by = by or job.superseded_by
        self.ended.append(job)
        self._pass_room_on(job)
        self._next_turn(job.schedule_id)

    def waits_again(self, job: Job) -> None:
        """It leaves its queue."""
        job.state = "SCHEDULED"
        self._leave_room(job)

    def _leave_room(self, job: Job) -> None:
        if not job.keeps_room:
            self._pass_room_on(job)

    def settle(self) -> None:
        settle(self.ended, self.jobs, self.end)

    def _pass_room_on(self, job: Job) -> None:
        """A lane has room for one job; the others of it that are QUEUED have it in turn."""
        had_it, job.has_room = job.has_room and job.lane is not None, False
        waiting = [other for other in self.live() if other.state == "QUEUED" and other.lane == job.lane]
        if had_it and waiting:
            min(waiting, key=lambda other: other.order).has_room = True

    def _next_turn(self, schedule_id: str | None) -> None:
        """When nobody of the schedule has it, the first who waits for it."""
        left = self.of_schedule(schedule_id)
        if left and all(other.awaits_turn for other in left):
            left[0].awaits_turn = False
            left[0].opened = not left[0].unmet
