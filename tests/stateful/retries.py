"""job.retry, beside `reference`: what docs/semantics.md says of an ended job that is added once more."""

from dataclasses import dataclass
from typing import Any

from semantica_daemon.errors import NotEnded, QueueFull, Refusal, SecretLost, Stale
from semantica_daemon.wire.job import Ack
from tests.stateful.known import LIVE, Arrival, Job
from tests.stateful.parents import with_parents
from tests.stateful.reference import Reference

NEEDS = ("wait_for_idle", "require_charging")


@dataclass
class Retries:
    reference: Reference

    def retry(self, old: Job, force: bool, payload: dict[str, Any] | None, told: Any) -> None:
        """`told` is the store's answer, an Ack or a refusal: it must be the one due, and is then carried out."""
        due = self._decide(old, force, payload)
        due = with_parents(due, self.reference.jobs, self.reference.lanes) if isinstance(due, Arrival) else due
        if isinstance(due, type):
            assert isinstance(told, due), told
            return
        assert isinstance(told, Ack), told
        waiting = [job.id for job in due.waiting]
        job = self.reference.arrives(due, told.job_id, one_at_a_time=True)
        assert (told.existing, told.state) == (False, job.state)
        assert told.generation == (job.generation if job.lane else None)
        assert sorted(told.superseded) == sorted(waiting)

    def _decide(self, old: Job, force: bool, payload: dict[str, Any] | None) -> Arrival | type[Refusal]:
        if old.state in LIVE:
            return NotEnded
        if old.spec["execution_mode"] == "SUBPROCESS" and "TOKEN" in (old.spec.get("env_vars") or {}):
            return SecretLost
        new = self._again(old, payload)
        if new.lane is None:
            arrival = Arrival(new, "", [])
        else:
            known = self.reference.lanes[new.lane]
            in_lane = [job for job in self.reference.live() if job.lane == new.lane]
            if any(job.generation == new.generation for job in in_lane):
                return NotEnded
            behind = new.generation < known.newest
            if behind and not force and not new.is_append:
                return Stale
            older = [] if behind or new.is_append else [job for job in in_lane if not job.is_append]
            arrival = Arrival(new, known.owner, older, is_behind=behind, may_interrupt=False)
        return QueueFull if self.reference.is_full(arrival) else arrival

    def _again(self, old: Job, payload: dict[str, Any] | None) -> Job:
        """The settings of the old job; but what held that one back has come, and a key stands for one request."""
        needs = {name: True for name in NEEDS if old.spec["schedule"].get(name)}
        again = {"parents": old.needs, "schedule": needs, "idempotency_key": None, "hold": False}
        spec = old.spec | again | {"debounce_ms": None, "max_wait_ms": None}
        if payload is not None:
            spec["payload"] = payload
        if spec["deadline"] is not None and spec["deadline"] <= self.reference.time.now:
            spec["deadline"] = None
        new = Job("", spec, len(self.reference.jobs), generation=old.generation, schedule_id=old.schedule_id)
        new.retry_of = old.id
        new.gathered = list(old.gathered) if payload is None else []
        new.environment = old.environment and old.environment.without_secrets
        return new
