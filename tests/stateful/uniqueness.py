"""keep and gather, beside `reference`: which waiting job a new one is kept as, and who has whose payload."""

from dataclasses import dataclass
from typing import Any

from tests.stateful.known import WAITING, Job


@dataclass
class KeptAs:
    """A new job with this spec is `job`, which waits."""

    job: Job
    spec: dict[str, Any]

    def hand_over(self) -> None:
        if self.spec["gather"]:
            self.job.gathered = [*self.job.gathered, self.spec["payload"]]

    def quiet_at(self, elapsed: int) -> int | None:
        """When the debounce of the waiting job ends now; None if it does not wait for that."""
        job, debounce_ms, most = self.job, self.job.spec["debounce_ms"], self.job.spec["max_wait_ms"]
        if debounce_ms is None or job.postponed_since is None or job.state != "SCHEDULED" or job.has_come:
            return None
        return int(elapsed + debounce_ms if most is None else min(elapsed + debounce_ms, job.postponed_since + most))


def kept_as(in_lane: list[Job], spec: dict[str, Any]) -> KeptAs | None:
    """The first that waits, but none that is known to be out of date. A payload changes only before the first run, and
    only of a job that gathers."""
    waiting = [job for job in in_lane if job.state in WAITING and not job.stale]
    if spec["gather"]:
        waiting = [job for job in waiting if job.spec["gather"] and not job.run_count]
    return KeptAs(waiting[0], spec) if waiting else None


def heir_of(jobs: dict[str, Job], job_id: str | None) -> Job | None:
    """Who stands for that job by now, if it gathers and still waits for its first run."""
    job = jobs.get(job_id or "")
    while job and job.state == "SUPERSEDED":
        job = jobs[job.superseded_by or ""]
    return job if job and job.state in WAITING and not job.run_count and job.spec["gather"] else None
