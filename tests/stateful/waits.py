"""What jobs of a daemon on a manual clock wait for, in the plainest way: who may run by now, and who must not.

Slots are never short here, and a job is over as soon as it runs, or runs for as long as the machine is fit for it; so
what waits, waits for something.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.harness import ManualClock

IDLE_MS = 20_000
DEBOUNCE_MS, MAX_WAIT_MS = 3000, 8000
ENDED = ("DONE", "SUPERSEDED")


@dataclass
class Waiting:
    """`at` is a time of the clock; `delay_until` a moment of the time that has passed."""

    idle: bool = False
    power: bool = False
    unheard: set[tuple[str, str | None]] = field(default_factory=set)
    at: int = 0
    delay_until: int = 0
    is_long: bool = False
    is_save: bool = False


@dataclass
class World:
    """All that can be waited for, and who waits. `typed_at`: when an editor has told of somebody, if any has."""

    clock: ManualClock
    jobs: dict[str, Waiting] = field(default_factory=dict)
    ended: dict[str, str] = field(default_factory=dict)
    typed_at: int | None = None
    mains: bool = False
    newest: str | None = None
    postponed_since: int | None = None

    def enqueued(self, job_id: str, schedule: dict[str, Any]) -> None:
        job = self.jobs[job_id] = Waiting(
            idle=schedule.get("wait_for_idle", False),
            power=schedule.get("require_charging", False),
            at=schedule.get("scheduled_at", 0),
            delay_until=self.clock.elapsed() + schedule.get("delay_ms", 0),
        )
        job.unheard = {(key, value) for key, value in schedule.get("conditions", {}).items()}
        if schedule.get("wait_for_event"):
            job.unheard.add((schedule["wait_for_event"], None))

    def retried(self, old_id: str, job_id: str) -> None:
        """A retry needs the machine as the job before it; what that one has waited for has come."""
        old = self.jobs[old_id]
        self.jobs[job_id] = Waiting(old.idle, old.power)

    def saved(self, job_id: str) -> list[str]:
        """A job of the lane that waits to be quiet: whom it replaces."""
        replaced = [one for one in [self.newest] if one is not None and one not in self.ended]
        now = self.clock.elapsed()
        if not replaced or self.postponed_since is None:
            self.postponed_since = now
        until = min(now + DEBOUNCE_MS, self.postponed_since + MAX_WAIT_MS)
        self.newest, self.jobs[job_id] = job_id, Waiting(delay_until=until, is_save=True)
        return replaced

    def emitted(self, key: str, value: str) -> list[str]:
        """Whom it matches: they have it for good."""
        said = {(key, None), (key, value)}
        matched = [job_id for job_id, job in self.jobs.items() if job_id not in self.ended and said & job.unheard]
        for job_id in matched:
            self.jobs[job_id].unheard -= said
        return matched

    @property
    def repeatable(self) -> list[str]:
        """Those that have ended and were in no lane."""
        return [job_id for job_id, state in self.ended.items() if state == "DONE" and not self.jobs[job_id].is_save]

    @property
    def is_idle(self) -> bool:
        return self.typed_at is not None and self.clock.elapsed() - self.typed_at >= IDLE_MS

    def may_run(self, job: Waiting) -> bool:
        if job.unheard or (job.idle and not self.is_idle) or (job.power and not self.mains):
            return False
        return job.at <= self.clock.now() and job.delay_until <= self.clock.elapsed()

    def due(self, states: dict[str, str]) -> set[str]:
        """Who waits though there is nothing any more to wait for."""
        return {one for one, job in self.jobs.items() if states[one] == "SCHEDULED" and self.may_run(job)}

    def saw(self, job_id: str, state: str) -> None:
        """Only who may has run, and what has ended stays so."""
        assert self.ended.get(job_id, state) == state
        if state == "RUNNING":
            assert self.jobs[job_id].is_long
            assert self.may_run(self.jobs[job_id]), "it should have stopped"
        elif state in ENDED:
            assert not self.jobs[job_id].is_long
            assert state == "SUPERSEDED" or job_id in self.ended or self.may_run(self.jobs[job_id]), job_id
            self.ended[job_id] = state
        else:
            assert state == "SCHEDULED", "slots are not short"
