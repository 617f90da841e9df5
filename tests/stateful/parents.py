"""Parents, beside `reference`: when a new job is refused because of them, and what their end means for it."""

from collections.abc import Callable

from semantica_daemon.errors import NeverStarts, ParentEnded, Refusal
from tests.stateful.known import LIVE, Arrival, Job, Known, Lane


def with_parents(arrival: Arrival, jobs: dict[str, Job], lanes: dict[Lane, Known]) -> Arrival | type[Refusal]:
    """A retry needs the newest retry of a parent that has ended."""
    job, gone = arrival.job, {one.id for one in (*arrival.waiting, *_interrupted(arrival, lanes))}
    found = [jobs[job_id] for job_id in job.spec.get("parents") or ()]
    if job.retry_of:
        found = [one if one.state in LIVE else _newest_retry(one, jobs) for one in found]
    for one in found:
        if gone & _with_live_ancestors(one, jobs):
            return NeverStarts
        if one.state not in (*LIVE, "DONE"):
            return ParentEnded
    job.needs = list(dict.fromkeys(one.id for one in found))
    job.parents_left = {one.id for one in found if one.state != "DONE"}
    return arrival


def _with_live_ancestors(job: Job, jobs: dict[str, Job]) -> set[str]:
    parents = [jobs[job_id] for job_id in job.needs if jobs[job_id].state in LIVE]
    return {job.id}.union(*(_with_live_ancestors(parent, jobs) for parent in parents))


def settle(ended: list[Job], jobs: dict[str, Job], end: Callable[[Job, str], None]) -> None:
    """Tells the children of what has ended: one gate less, or CANCELLED, and then their own children."""
    while ended:
        job = ended.pop(0)
        for child in [one for one in jobs.values() if job.id in one.parents_left and one.state == "SCHEDULED"]:
            if job.state == "DONE":
                child.parents_left.discard(job.id)
                child.opened = not child.unmet
            else:
                end(child, "CANCELLED")


def _interrupted(arrival: Arrival, lanes: dict[Lane, Known]) -> list[Job]:
    spec = arrival.job.spec
    if not arrival.may_interrupt or arrival.winner or spec["on_running"] != "cancel":
        return []
    running = [job for job in arrival.older if job.state == "RUNNING" and job.stop is None]
    return [job for job in running if lanes[job.lane or ("", "")].interrupts < spec["max_interrupts"]]


def _newest_retry(job: Job, jobs: dict[str, Job]) -> Job:
    same = [one for one in jobs.values() if _first(one, jobs) is _first(job, jobs)]
    return max(same, key=lambda one: one.number)


def _first(job: Job, jobs: dict[str, Job]) -> Job:
    while job.retry_of:
        job = jobs[job.retry_of]
    return job
