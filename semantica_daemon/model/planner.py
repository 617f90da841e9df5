"""Newest wins: decides what a new job does to its lane, on values alone.

`store/writes/decide` reads the lane and calls this; `store/writes/enqueue` carries the plan out, `job.plan` only
returns it.
"""

from typing import Literal

from msgspec import Struct

from semantica_daemon.errors import GenerationOwner
from semantica_daemon.model import state

Owner = Literal["server", "client"]


class Arrival(Struct, frozen=True):
    job_type: str
    generation: int | None
    whole_subject: bool
    on_running: Literal["finish", "cancel"]
    max_interrupts: int


class Lane(Struct, frozen=True):
    """The stored row of a lane, which outlives its pruned jobs."""

    generation: int
    job_id: str
    numbered_by: Owner
    ended: str | None


class Live(Struct, frozen=True):
    """A live job of the subject; it is in this lane if its type is that of the new job. `interrupts`: in a row, in its
    lane."""

    number: int
    job_id: str
    job_type: str
    state: str
    generation: int
    stopping: bool = False
    queue: str = ""
    interrupts: int = 0
    postponed_since: int | None = None


class Plan(Struct, frozen=True):
    """`stale`: the new job is stored as SUPERSEDED at once. `interrupt` and `outdate`: ids of running jobs."""

    generation: int
    numbered_by: Owner
    stale: bool = False
    supersede: tuple[str, ...] = ()
    interrupt: tuple[str, ...] = ()
    outdate: tuple[str, ...] = ()


def plan(arrival: Arrival, lane: Lane | None, live: list[Live]) -> Plan:
    """If the lane already has the generation, the caller returns that job and ignores the plan."""
    owner: Owner = "server" if arrival.generation is None else "client"
    newest = lane.generation if lane else None
    following = 1 if newest is None else newest + 1
    generation = following if arrival.generation is None else arrival.generation
    in_lane = [job for job in live if job.job_type == arrival.job_type]
    if lane and owner != lane.numbered_by and (in_lane or generation <= lane.generation):
        raise _wrong_owner(lane)
    if newest is not None and generation < newest:
        return Plan(generation, owner, stale=True)
    older = [job for job in in_lane if job.generation < generation]
    others = [job for job in live if job.job_type != arrival.job_type] if arrival.whole_subject else []
    return _against(older + others, arrival, generation, owner)


def _against(older: list[Live], arrival: Arrival, generation: int, owner: Owner) -> Plan:
    waiting = tuple(job.job_id for job in older if job.state != state.RUNNING)
    running = [job for job in older if job.state == state.RUNNING and not job.stopping]
    most = arrival.max_interrupts if arrival.on_running == "cancel" else 0
    interrupt = tuple(job.job_id for job in running if job.interrupts < most)
    outdate = tuple(job.job_id for job in running if job.interrupts >= most)
    return Plan(generation, owner, supersede=waiting, interrupt=interrupt, outdate=outdate)


def _wrong_owner(lane: Lane) -> GenerationOwner:
    if lane.numbered_by == "server":
        return GenerationOwner(
            f"this lane is numbered by the daemon (newest is {lane.generation}); the call gives a generation",
            "leave generation out, or wait until the lane has no live job and give a number above the newest",
            newest_generation=lane.generation,
        )
    return GenerationOwner(
        f"this lane is numbered by its client (newest is {lane.generation}); the call gives no generation",
        "give a generation above the newest, such as the file's mtime in ms, or wait until the lane has no live job",
        newest_generation=lane.generation,
    )
