"""The params and the result of job.execute."""

from typing import Annotated, Literal

from msgspec import Struct

from semantica_daemon.wire.job import JobSpec
from semantica_daemon.wire.job_view import JobWithRuns
from semantica_daemon.wire.types import Wait, about


class ExecuteParams(JobSpec, frozen=True, forbid_unknown_fields=True, omit_defaults=True, kw_only=True):
    """A job that waits for nothing: no time, no condition, no debounce, no parents, no hold, no external worker."""

    wait_ms: Annotated[
        Wait, about("wait so long, for another reservation to end and then for the job; E_RESERVED if it cannot start")
    ] = 8000
    wait_for: Annotated[
        Literal["end", "start"], about("start: reply when the job has been started, with the job as it is then")
    ] = "end"


class ExecuteResult(Struct, frozen=True):
    job: Annotated[JobWithRuns, about("the job as it stands: RUNNING if it has not ended within wait_ms")]
    existing: Annotated[bool, about("true when the job was known already: it is not started directly")] = False
    superseded: Annotated[tuple[str, ...], about("ids of the jobs it has replaced")] = ()
    warnings: Annotated[tuple[str, ...], about("what the caller probably did not mean")] = ()
