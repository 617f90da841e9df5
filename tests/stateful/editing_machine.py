"""The rules of the machine for what is done to waiting jobs by hand; `store_machine` has the others."""

from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

from semantica_daemon.store.selected import Portion
from semantica_daemon.store.writes.hold import hold, release
from semantica_daemon.store.writes.move import move
from semantica_daemon.store.writes.update import update
from semantica_daemon.wire.editing import MoveParams, UpdateParams
from tests.stateful.choices import picks
from tests.stateful.editing import Editing, Place
from tests.stateful.known import WAITING, Job
from tests.stateful.opened_store import OpenedStore

WHERE = ["front", "back", "before", "after", "after", "before"]
CHANGES: list[dict[str, Any]] = [
    {"priority": 0}, {"priority": 1}, {"priority": -1}, {"scheduled_at": 50}, {"scheduled_at": -5},
    {"scheduled_at": 4000, "priority": 1}, {"payload": {"argv": ["false"]}}, {"env_vars": {"C": "9"}},
    {"env_vars": {"TOKEN": "z"}, "priority": 1}, {"payload": {"argv": ["cat"]}, "scheduled_at": 10},
]  # fmt: skip


class EditingMachine(OpenedStore):
    @property
    def editing(self) -> Editing:
        return Editing(self.model)

    def waiting_job(self, pick: int, state: str | None = None) -> Job:
        """Mostly one that waits; else any."""
        jobs = list(self.model.jobs.values())
        waiting = [job for job in jobs if job.state == state or (state is None and job.state in WAITING)]
        chosen = jobs if pick % 7 == 0 or not waiting else waiting
        return chosen[pick % len(chosen)]

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks)
    def holds(self, pick: int) -> None:
        job = self.waiting_job(pick)
        with self.commit(hold, Portion((job.id,))) as told:
            assert told == {self.editing.hold(job): [job.id]}

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks)
    def releases(self, pick: int) -> None:
        held = [job for job in self.model.jobs.values() if job.held]
        job = held[pick % len(held)] if held else self.waiting_job(pick)
        with self.commit(release, Portion((job.id,))) as told:
            assert told == {self.editing.release(job): [job.id]}

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, changes=st.sampled_from(CHANGES))
    def updates(self, pick: int, changes: dict[str, Any]) -> None:
        job = self.waiting_job(pick)
        if "scheduled_at" in changes:
            changes = changes | {"scheduled_at": max(0, self.time.now + changes["scheduled_at"])}
        with self.commit(update, msgspec.convert({"job_id": job.id, **changes}, UpdateParams)) as told:
            self.editing.update(job, changes, told)

    @precondition(lambda self: self.model.jobs)
    @rule(pick=picks, other=picks, where=st.sampled_from(WHERE))
    def moves(self, pick: int, other: int, where: str) -> None:
        job, beside = self.waiting_job(pick, "QUEUED"), self.waiting_job(other, "QUEUED")
        given: dict[str, str] = {"to": where} if where in ("front", "back") else {where: beside.id}
        queued = [one.id for one in self.model.jobs.values() if one.state == "QUEUED"]
        before = {job_id: place[1] for job_id, place in self.places(queued).items()}
        with self.commit(move, msgspec.convert({"job_id": job.id, **given}, MoveParams)) as told:
            self.editing.move(job, given, told, self.places(queued), before)

    def places(self, job_ids: list[str]) -> dict[str, Place]:
        rows = self.store.rows("SELECT id, priority, position, created_at FROM jobs")
        places = {row["id"]: (-row["priority"], row["position"], row["created_at"], row["id"]) for row in rows}
        return {job_id: places[job_id] for job_id in job_ids}
