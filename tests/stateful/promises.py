"""What a daemon has promised, kept beside it: the plainest account of jobs that run in real time and are cut short.

Unlike `reference`, it cannot say what state a job is in, only which ones it may be in, and where it must end.
"""

from dataclasses import dataclass, field
from typing import Any

TERMINAL = {"DONE", "FAILED", "CANCELLED", "SUPERSEDED", "SKIPPED_TTL", "SKIPPED_DEADLINE"}
CUT_SHORT = {"E_ENGINE_CRASH", "E_SHUTDOWN"}

# How a run of each kind ends when it is let alone: its error, or none.
COMMANDS: dict[str, tuple[list[str], str | None]] = {
    "true": (["true"], None),
    "false": (["false"], "E_EXIT"),
    "exit 3": (["sh", "-c", "exit 3"], "E_EXIT"),
    "sleep": (["sleep", "0.15"], None),
    "long": (["sleep", "60"], "never"),
    "talk": (["sh", "-c", "echo out; echo err >&2; sleep 0.05; echo more"], None),
    "leave": (["sh", "-c", "sleep 60 & setsid sleep 60 & echo left"], None),
    "deaf": (["sh", "-c", "trap '' TERM; sleep 0.5"], None),
    "kill": (["sh", "-c", "kill -9 $$"], "E_SIGNAL"),
    "missing": (["/nowhere/to/be/found"], "E_SPAWN"),
}
HANDLERS: dict[str, tuple[dict[str, Any], str | None]] = {
    "semantica.noop": ({}, None),
    "semantica.sleep": ({"ms": 100}, None),
    "busy": ({"ms": 80}, None),
    "fail": ({"how": "plain"}, "E_HANDLER"),
}
EXIT_CODES = {"true": 0, "false": 1, "exit 3": 3}
SAID = {"talk": {"stdout": "out\nmore\n", "stderr": "err\n"}, "true": {}}


def spec_of(kind: str, chosen: dict[str, Any]) -> dict[str, Any]:
    """`chosen`: fields of the spec, those that are None left out."""
    spec = {name: value for name, value in chosen.items() if value is not None}
    spec |= {"backoff_base_ms": 5, "grace_ms": 400 if kind == "deaf" else 60}
    if kind in HANDLERS:
        return spec | {"job_type": kind, "payload": HANDLERS[kind][0]}
    return spec | {"job_type": "command", "payload": {"argv": COMMANDS[kind][0], "cwd": "/"}}


@dataclass
class Promise:
    kind: str
    spec: dict[str, Any]
    generation: int | None
    disturbances: int
    unheard: set[str] = field(default_factory=set)
    has_been_fit: bool = True
    retry_of: str | None = None

    @property
    def own_error(self) -> str | None:
        return COMMANDS[self.kind][1] if self.kind in COMMANDS else HANDLERS[self.kind][1]

    @property
    def lane(self) -> tuple[str, str] | None:
        subject = self.spec.get("subject_key")
        return (subject, self.spec["job_type"]) if subject else None


@dataclass
class Promises:
    jobs: dict[str, Promise] = field(default_factory=dict)
    keys: dict[str, str] = field(default_factory=dict)
    newest: dict[tuple[str, str], int] = field(default_factory=dict)
    cancelled: set[str] = field(default_factory=set)
    ended: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)
    logs: dict[str, bytes] = field(default_factory=dict)
    disturbances: int = 0
    is_idle: bool = False

    def acknowledged(self, kind: str, spec: dict[str, Any], ack: dict[str, Any]) -> None:
        """A known key gives its job again, and so may a job of the lane that is to be kept; else it is a new one, and
        the next of its lane."""
        key = spec.get("idempotency_key")
        if key in self.keys:
            assert (ack["job_id"], ack["existing"], ack["superseded"]) == (self.keys[key], True, [])
            return
        promise = Promise(kind, spec, ack["generation"], self.disturbances)
        if ack["existing"] and spec.get("supersede") == "keep":
            assert (self.jobs[ack["job_id"]].lane, ack["state"] in TERMINAL) == (promise.lane, False)
            assert ack["job_id"] not in self.ended
            return
        assert ack["job_id"] not in self.jobs
        schedule = spec.get("schedule", {})
        promise.unheard = {schedule["wait_for_event"]} if "wait_for_event" in schedule else set()
        promise.unheard |= schedule.get("conditions", {}).keys()
        promise.has_been_fit = self.is_idle or not schedule.get("wait_for_idle")
        if promise.lane is not None:
            assert ack["generation"] == self.newest.get(promise.lane, 0) + 1
            self.newest[promise.lane] = ack["generation"]
        assert all(self.jobs[one].lane == promise.lane for one in ack["superseded"])
        self.jobs[ack["job_id"]] = promise
        if key is not None:
            self.keys[key] = ack["job_id"]

    def retried(self, old_id: str, ack: dict[str, Any]) -> None:
        """A new job like the old one, of its generation; it waits for nothing but the machine."""
        old = self.jobs[old_id]
        assert ack["job_id"] not in self.jobs
        assert (ack["existing"], ack["generation"]) == (False, old.generation)
        assert all(self.jobs[one].lane == old.lane for one in ack["superseded"])
        needs_idle = old.spec.get("schedule", {}).get("wait_for_idle", False)
        spec = {name: value for name, value in old.spec.items() if name not in ("idempotency_key", "schedule")}
        spec |= {"schedule": {"wait_for_idle": True}} if needs_idle else {}
        promise = Promise(old.kind, spec, old.generation, self.disturbances, retry_of=old_id)
        promise.has_been_fit = self.is_idle or not needs_idle
        self.jobs[ack["job_id"]] = promise

    def not_added(self, code: str, parent: dict[str, Any]) -> None:
        """A child is refused whose parent has ended, and not well."""
        assert code == "E_PARENT_ENDED"
        assert parent["state"] in TERMINAL - {"DONE"}

    def not_retried(self, old_id: str, force: bool, code: str) -> None:
        """A job is refused that has not ended, or whose generation has another live job, or a newer one if not by
        force."""
        old = self.jobs[old_id]
        if code == "E_STALE":
            assert not force
            assert old.spec.get("supersede") != "append"
            assert old.lane
            assert old.generation is not None
            assert self.newest[old.lane] > old.generation
        elif code == "E_PARENT_ENDED":
            assert old.spec.get("parents")
        else:
            assert code == "E_NOT_ENDED"
            others = (one for one, job in self.jobs.items() if job.lane and job.lane == old.lane and one != old_id)
            same = any(self.jobs[one].generation == old.generation and one not in self.ended for one in others)
            assert same or old_id not in self.ended

    def history(self, job_id: str) -> list[str]:
        """The first job and all that lead back to it; empty without a retry."""
        found = [one for one in self.jobs if self._first(one) == self._first(job_id)]
        return found if len(found) > 1 else []

    def _first(self, job_id: str) -> str:
        before = self.jobs[job_id].retry_of
        return job_id if before is None else self._first(before)

    def saw(self, job: dict[str, Any]) -> None:
        """A job as the daemon shows it: what has ended stays as it is."""
        job_id, over = job["job_id"], job["state"] in TERMINAL
        promise = self.jobs[job_id]
        assert job["run_count"] == 0 or (promise.has_been_fit and not promise.unheard), "it ran too early"
        assert (job["finished_at"] is not None) == over
        assert job["retry_of"] == promise.retry_of
        if "runs" in job:
            assert [run["number"] for run in job["runs"]] == list(range(1, job["run_count"] + 1))
            assert [one["job_id"] for one in job["retries"]] == self.history(job_id)
        assert job_id not in self.ended or over, "it had ended"
        if over:
            shown = tuple(job[name] for name in ("state", "finished_at", "attempts", "run_count", "error", "exit_code"))
            if job_id not in self.ended:
                check_end(self, self.jobs[job_id], job)
            assert self.ended.setdefault(job_id, shown) == shown

    def emitted(self, key: str, matched: list[str]) -> None:
        """Each that waited for it has heard it, and for good; nobody else did."""
        waited = [job_id for job_id, one in self.jobs.items() if key in one.unheard and job_id not in self.cancelled]
        assert sorted(matched) == sorted(waited)
        for job_id in waited:
            self.jobs[job_id].unheard.discard(key)

    def is_fit(self, idle: bool) -> None:
        """A daemon begins to which the machine is idle, or not."""
        self.is_idle = idle
        for promise in self.jobs.values():
            promise.has_been_fit |= idle

    def replayed(self, since: int, events: list[dict[str, Any]]) -> None:
        """The stream from a cursor on: what was told before is told again, and the rest follows without a gap."""
        known = self.events[since:]
        assert events[: len(known)] == known
        self.events += events[len(known) :]
        assert [one["sequence"] for one in self.events[since:]] == list(range(since + 1, len(self.events) + 1))

    def read(self, run_id: str, text: bytes) -> None:
        """The whole log of a run up to now: it only grows, and what it has is never lost."""
        before = self.logs.get(run_id, b"")
        assert text.startswith(before)
        self.logs[run_id] = text


def check_end(promises: Promises, promise: Promise, job: dict[str, Any]) -> None:
    state, error = job["state"], (job["error"] or {}).get("code")
    if state == "CANCELLED" and promise.spec.get("parents") and not job["run_count"]:
        return  # for a parent, or by a caller
    if job["job_id"] in promises.cancelled or state == "CANCELLED":
        assert (state, job["job_id"] in promises.cancelled) == ("CANCELLED", True)
    elif state == "SUPERSEDED":
        assert promise.lane is not None
        assert promise.generation is not None
        assert promises.newest[promise.lane] > promise.generation
        assert promise.spec.get("supersede") != "append", "nobody replaces it"
    elif state == "DONE":
        assert promise.own_error is None
        assert job["exit_code"] == EXIT_CODES.get(promise.kind, job["exit_code"])
    else:
        assert state == "FAILED"
        check_failure(promises, promise, job, error)


def check_failure(promises: Promises, promise: Promise, job: dict[str, Any], error: str | None) -> None:
    """Its own fault, after all of its attempts; or cut short, if that is an end and there was one who did it."""
    if error in CUT_SHORT:
        assert promises.disturbances > promise.disturbances
        assert promise.spec["on_interrupt"] == "fail"
    else:
        assert error == promise.own_error
        assert job["exit_code"] == EXIT_CODES.get(promise.kind)
    if error != "E_SPAWN":
        assert job["attempts"] == max(1, promise.spec["max_attempts"])
