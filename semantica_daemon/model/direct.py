"""Which jobs can be executed directly: only those that wait for nothing, since all others wait for their end."""

from semantica_daemon.errors import InvalidParams
from semantica_daemon.wire.job import JobSpec

HINT = "leave it out, or enqueue the job instead"


def check_direct(spec: JobSpec) -> None:
    """Raises InvalidParams for a job that could not start at once."""
    if spec.schedule.type != "IMMEDIATE":
        raise _refused("a job that is executed directly starts at once", "$.schedule")
    for field in ("debounce_ms", "parent_job_id", "parents", "hold"):
        if getattr(spec, field) not in (None, [], False):
            raise _refused("a job that is executed directly waits for nothing", f"$.{field}")
    if spec.supersede in ("keep", "append"):
        raise _refused(f"{spec.supersede} is for jobs that wait", "$.supersede")
    if spec.execution_mode == "EXTERNAL":
        raise _refused("the daemon itself executes the job, not a worker", "$.execution_mode")


def _refused(problem: str, path: str) -> InvalidParams:
    return InvalidParams(problem, HINT, path=path)
