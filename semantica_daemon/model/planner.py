"""Newest wins, keep and append: decides what a new job does to its lane, on values alone.

`store/writes/decide` reads the lane and calls this; `store/writes/enqueue` carries the plan out, `job.plan` only
returns it.
"""

from typing import Literal

from msgspec import Struct

from semantica_daemon.errors import GenerationOwner, NotEnded, Stale
from semantica_daemon.model import state
from semantica_daemon.wire.job import JobSpec
from semantica_daemon.wire.types import OnRunning

Owner = Literal["server", "client"]


class Lane(Struct, frozen=True):
    """The stored row of a lane, which outlives its pruned jobs. `appends`: an append job was added to it once."""

    generation: int
    job_id: str
    numbered_by: Owner
    ended: str | None
    appends: int = 0


class Live(Struct, frozen=True):
    """A live job of the subject; it is in this lane if its type is that of the new job. `interrupts`: in a row, in its
    lane. The last three fields are known for a new job that may be kept on another one."""

    number: int
    job_id: str
    job_type: str
    state: str
    generation: int
    stopping: bool = False
    queue: str = ""
    interrupts: int = 0
    postponed_since: int | None = None
    stale: bool = False
    has_run: bool = False
    gathers: bool = False


class Plan(Struct, frozen=True):
    """`stale`: the new job is stored as SUPERSEDED at once. `interrupt` and `outdate`: ids of running jobs."""

    generation: int
    numbered_by: Owner
    stale: bool = False
    supersede: tuple[str, ...] = ()
    interrupt: tuple[str, ...] = ()
    outdate: tuple[str, ...] = ()


def plan(spec: JobSpec, on_running: OnRunning, lane: Lane | None, live: list[Live]) -> Plan:
    """`on_running`: the one in force, of the job or of its queue. If the lane already has the generation, the caller
    returns that job and ignores the plan. `live`: without append jobs, to which no other job does anything."""
    owner: Owner = "server" if spec.generation is None else "client"
    newest = lane.generation if lane else 0
    generation = newest + 1 if spec.generation is None else spec.generation
    in_lane = [job for job in live if job.job_type == spec.job_type]
    if lane and owner != lane.numbered_by and (in_lane or generation <= newest):
        raise _wrong_owner(lane)
    if lane and generation < newest:
        return Plan(generation, owner, stale=True)
    if spec.supersede == "append":
        return Plan(generation, owner)
    older = [job for job in in_lane if job.generation < generation]
    if spec.supersede == "subject":
        older += [job for job in live if job.job_type != spec.job_type]
    elif spec.supersede == "keep":
        older = [job for job in older if job.state == state.RUNNING]
    most = spec.max_interrupts if on_running == "cancel" else 0
    return _against(older, most, generation, owner)


def kept(spec: JobSpec, live: list[Live]) -> Live | None:
    """The waiting job that a new keep job is returned as: the oldest one, unless a newer generation was known when it
    was added. With `gather` the new payload is stored with it, so it must gather too and must not have run."""
    waiting = [job for job in live if job.state != state.RUNNING and not job.stale]
    if spec.gather:
        waiting = [job for job in waiting if job.gathers and not job.has_run]
    return min(waiting, key=lambda job: job.number, default=None)


def plan_retry(generation: int, force: bool, lane: Lane | None, live: list[Live]) -> Plan:
    """The plan for a job that repeats an ended one of the lane. `force`: it runs although a newer generation is known,
    and supersedes nothing then."""
    owner: Owner = lane.numbered_by if lane else "server"
    same = next((job for job in live if job.generation == generation), None)
    if same is not None:
        raise NotEnded(
            f"job {same.job_id}, of the same generation, is {same.state}", "wait for its end", job_id=same.job_id
        )
    is_behind = lane is not None and lane.generation > generation
    if lane and is_behind and not force:
        raise Stale(
            f"a newer generation of its lane is known: {lane.generation}, in job {lane.job_id}",
            "set force to run the older generation all the same",
            newest_job_id=lane.job_id,
            newest_generation=lane.generation,
        )
    return _against([] if is_behind else live, 0, generation, owner)


def _against(older: list[Live], most: int, generation: int, owner: Owner) -> Plan:
    """`most`: interruptions in a row of a running job; after so many it may finish."""
    waiting = tuple(job.job_id for job in older if job.state != state.RUNNING)
    running = [job for job in older if job.state == state.RUNNING and not job.stopping]
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
