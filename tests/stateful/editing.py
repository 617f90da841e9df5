"""What is done to waiting jobs by hand: hold, release, move and update, plainly. `reference` has the jobs."""

from dataclasses import dataclass
from typing import Any

from semantica_daemon.errors import HasRun, InvalidParams, NotQueued, NotWaiting, OtherQueue, PayloadRefused, Refusal
from semantica_daemon.wire.editing import MoveResult
from tests.stateful.known import WAITING, Job
from tests.stateful.reference import Reference

Place = tuple[int, int, int, str]  # (-priority, position, created_at, id), as the store has it


@dataclass
class Editing:
    reference: Reference

    def hold(self, job: Job) -> str:
        """Which list of the answer names it."""
        if job.state not in WAITING or job.held:
            return "unchanged"
        if job.state == "QUEUED":
            self.reference.waits_again(job)
        job.held = True
        return "changed"

    def release(self, job: Job) -> str:
        if job.state != "SCHEDULED" or not job.held:
            return "unchanged"
        job.held = False
        job.opened = not job.unmet
        return "changed"

    def update(self, job: Job, changes: dict[str, Any], told: Any) -> None:
        """`told` is the store's answer: a refusal changes nothing."""
        if refusal := self._refusal(job, changes):
            assert isinstance(told, refusal), told
            return
        assert told == job.id
        at, is_queued = changes.get("scheduled_at"), job.state == "QUEUED"
        if is_queued and changes.get("priority", job.spec["priority"]) != job.spec["priority"]:
            self.reference.positions += 1
            job.position = self.reference.positions
        job.spec = job.spec | {name: value for name, value in changes.items() if name != "scheduled_at"}
        if at is None or (is_queued and at <= self.reference.time.now):
            return
        if is_queued:
            self.reference.waits_again(job)
        job.at, job.delay_until, job.has_come = at, None, False
        job.opened = not job.unmet

    def _refusal(self, job: Job, changes: dict[str, Any]) -> type[Refusal] | None:
        if job.state not in WAITING:
            return NotWaiting
        if changes.keys() & {"payload", "env_vars"} and job.run_count:
            return HasRun
        is_command = job.spec["execution_mode"] == "SUBPROCESS"
        return PayloadRefused if "env_vars" in changes and not is_command else None

    def move(
        self, job: Job, where: dict[str, str], told: Any, places: dict[str, Place], before: dict[str, int]
    ) -> None:
        """`places` of the jobs that were QUEUED, as the store has them now: they are in the order that is due.
        `before`: their positions until then; those of other queues and priorities are the same."""
        if refusal := self._refusal_to_move(job, where):
            assert isinstance(told, refusal), told
            return
        assert isinstance(told, MoveResult), told
        expected = self._moved(job, where)
        in_order = sorted(places, key=places.__getitem__)
        assert [one for one in in_order if self.reference.jobs[one].queue == job.queue] == [one.id for one in expected]
        assert (told.priority, told.position) == (job.spec["priority"], places[job.id][1])
        for one in self._queued():
            is_near = one.queue == job.queue and one.spec["priority"] == job.spec["priority"]
            assert is_near or places[one.id][1] == before[one.id]
            self._check_beside(one, in_order, job)
        for job_id in in_order:
            self.reference.positions += 1
            self.reference.jobs[job_id].position = self.reference.positions

    def _refusal_to_move(self, job: Job, where: dict[str, str]) -> type[Refusal] | None:
        if job.state != "QUEUED":
            return NotQueued
        other = self.reference.jobs.get(where.get("before") or where.get("after") or "")
        if other is None:
            return None
        if other.state != "QUEUED":
            return NotQueued
        if other is job:
            return InvalidParams
        return OtherQueue if other.queue != job.queue else None

    def _moved(self, job: Job, where: dict[str, str]) -> list[Job]:
        """The queue afterwards. The job has the priority of those beside it, unless it is in its place already."""
        queue = sorted((one for one in self._queued() if one.queue == job.queue), key=lambda one: one.order)
        others = [one for one in queue if one is not job]
        if not others:
            return queue
        name, other_id = next(iter(where.items()))
        if name == "to":
            other = others[0] if other_id == "front" else others[-1]
            place = 0 if other_id == "front" else len(others)
            if queue[0 if other_id == "front" else -1] is job:
                return queue
        else:
            other = self.reference.jobs[other_id]
            place = others.index(other) + (name == "after")
        job.spec = job.spec | {"priority": other.spec["priority"]}
        others.insert(place, job)
        return others

    def _check_beside(self, one: Job, in_order: list[str], moved: Job) -> None:
        """Jobs of other queues have the same order among themselves."""
        others = [other for other in self._queued() if other.queue == one.queue != moved.queue]
        found = [job_id for job_id in in_order if self.reference.jobs[job_id] in others]
        assert found == [other.id for other in sorted(others, key=lambda other: other.order)]

    def _queued(self) -> list[Job]:
        return [one for one in self.reference.jobs.values() if one.state == "QUEUED"]
