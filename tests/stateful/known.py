"""The values of `reference`: a job, its lane, its arrival, and the two clocks it goes by."""

from dataclasses import dataclass, field, replace
from typing import Any

from semantica_daemon.model.outcome import Outcome
from semantica_daemon.store.run_transition import Running

LIVE = ("QUEUED", "SCHEDULED", "RUNNING")
WAITING = ("QUEUED", "SCHEDULED")
Lane = tuple[str, str]


@dataclass
class Time:
    """What the clock on the wall shows, which may be set, and how much time has really passed."""

    now: int
    elapsed: int = 10**12

    def passes(self, ms: int) -> None:
        self.now += ms
        self.elapsed += ms

    def shown(self, moment: int | None) -> int | None:
        """What the clock shows, as it goes now, when that much has passed."""
        return None if moment is None else self.now + moment - self.elapsed


@dataclass(frozen=True)
class Environment:
    """What the caller handed over: its variables, the names of those that are secret, and whether they are gone."""

    variables: dict[str, str]
    secrets: list[str]
    left_out: bool = False

    @property
    def without_secrets(self) -> "Environment":
        return replace(self, left_out=bool(self.secrets))


@dataclass
class Job:
    """`at` is a time of the clock; `delay_until` and `expires` are moments of the time that has passed. `has_come`: it
    has been in its queue, and when it waits again then not for its time."""

    id: str
    spec: dict[str, Any]
    number: int
    state: str = ""
    generation: int = 0
    position: int = 0
    at: int | None = None
    delay_until: int | None = None
    has_come: bool = False
    expires: int | None = None
    unheard: set[str] = field(default_factory=set)
    unmet_conditions: set[tuple[str, str]] = field(default_factory=set)
    awaits_turn: bool = False
    held: bool = False
    needs: list[str] = field(default_factory=list)  # its parents
    parents_left: set[str] = field(default_factory=set)  # those that are not DONE yet
    has_room: bool = False  # of its lane: it runs, or is the one of its lane that may be started
    opened: bool = False  # its last gate was opened: the same commit makes it QUEUED
    postponed_since: int | None = None
    schedule_id: str | None = None
    attempts: int = 0
    run_count: int = 0
    run: Running | None = None
    stale: bool = False
    stop: str | None = None
    superseded_by: str | None = None
    begun: bool = False
    claim_attempts: int = 0
    retry_of: str | None = None
    environment: Environment | None = None
    gathered: list[dict[str, Any]] = field(default_factory=list)

    @property
    def is_append(self) -> bool:
        return bool(self.spec["supersede"] == "append" and self.lane)

    @property
    def keeps_room(self) -> bool:
        """Of its lane, also while it waits for its next attempt."""
        return self.is_append and self.run_count > 0

    @property
    def payload(self) -> dict[str, Any]:
        own: dict[str, Any] = self.spec["payload"]
        return own | ({"gathered": self.gathered} if self.gathered else {})

    @property
    def payloads(self) -> list[dict[str, Any]]:
        """What a job that takes its place gathers: oldest first."""
        return [*self.gathered, self.spec["payload"]]

    @property
    def queue(self) -> str:
        return str(self.spec["queue"])

    @property
    def lane(self) -> Lane | None:
        return lane_of(self.spec)

    @property
    def order(self) -> tuple[int, int]:
        return -self.spec["priority"], self.position

    @property
    def unmet(self) -> int:
        """How much has still to happen once."""
        gates = len(self.unheard) + len(self.unmet_conditions) + len(self.parents_left)
        return gates + self.awaits_turn + self.held

    @property
    def need(self) -> tuple[bool, bool]:
        """(idle, power)"""
        schedule = self.spec["schedule"]
        return schedule.get("wait_for_idle", False), schedule.get("require_charging", False)


@dataclass
class Known:
    """What is known of a lane. `generations`: the first job of each; `newest_job`: the last retry of the newest."""

    newest: int
    owner: str
    generations: dict[int, str]
    interrupts: int = 0
    newest_job: str = ""

    def job_of(self, generation: int) -> str | None:
        return self.newest_job if generation == self.newest else self.generations.get(generation)


@dataclass
class Arrival:
    """A new job as it will be: `winner` has superseded it before it came, `older` is what it finds of its lane.
    `is_behind`: a retry of a generation that is not the newest. `may_interrupt`: what runs, if its spec says so."""

    job: Job
    owner: str
    older: list[Job]
    winner: str | None = None
    is_behind: bool = False
    may_interrupt: bool = True

    @property
    def waiting(self) -> list[Job]:
        return [job for job in self.older if job.state in WAITING]


def environment_of(spec: dict[str, Any]) -> Environment | None:
    """Only commands have one."""
    given = spec.get("environment")
    if spec["execution_mode"] != "SUBPROCESS" or given is None:
        return None
    secrets = sorted(name for name in given if "TOKEN" in name)
    return Environment({name: value for name, value in given.items() if name not in secrets}, secrets)


def lane_of(spec: dict[str, Any]) -> Lane | None:
    if spec["subject_key"] is None or spec["supersede"] == "none":
        return None
    return spec["subject_key"], spec["job_type"]


def verdict(job: Job, outcome: Outcome) -> tuple[str, str]:
    """(the job's state, the run's status)"""
    if job.stop:
        return job.stop, job.stop
    if outcome.error is None:
        return "DONE", "DONE"
    if outcome.lost:
        return ("SUPERSEDED" if job.stale else "SCHEDULED"), "INTERRUPTED"
    if outcome.unstarted and job.claim_attempts == 2:
        return "FAILED", "FAILED"
    if outcome.unstarted or (outcome.interrupted and job.spec["on_interrupt"] == "requeue"):
        return ("SUPERSEDED" if job.stale else "QUEUED"), "INTERRUPTED"
    if outcome.error.class_ == "permanent" or job.attempts >= job.spec["max_attempts"]:
        return "FAILED", "FAILED"
    return ("SUPERSEDED" if job.stale else "SCHEDULED"), "FAILED"
