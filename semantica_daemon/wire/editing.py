"""The params of job.move and job.update, which change one waiting job, and what job.move answers."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Struct, UnsetType

from semantica_daemon.wire.job import JobParams
from semantica_daemon.wire.types import At, JobId, Label, Priority, about


class MoveParams(JobParams, frozen=True, kw_only=True):
    """Exactly one of `to`, `before` and `after`. The job takes the priority of the jobs that it is put between."""

    to: Annotated[Literal["front", "back"] | None, about("first or last of all QUEUED jobs of its queue")] = None
    before: Annotated[JobId | None, about("directly before this QUEUED job of the same queue")] = None
    after: Annotated[JobId | None, about("directly after this QUEUED job of the same queue")] = None


class MoveResult(Struct, frozen=True):
    position: Annotated[int, about("its place in its queue among equal priorities")]
    priority: Annotated[int, about("its priority, which may have changed")]


class UpdateParams(JobParams, frozen=True, kw_only=True):
    """What is given is changed. payload and env_vars can be changed only before the first run."""

    priority: Annotated[Priority | None, about("it goes to the back of this priority, unless it has it already")] = None
    user_tag: Annotated[Label | UnsetType | None, about("null removes the tag")] = UNSET
    scheduled_at: Annotated[
        At | None, about("not before this instant, epoch ms; a QUEUED job becomes SCHEDULED; in the past: due now")
    ] = None
    payload: Annotated[dict[str, Any] | None, about("replaces the payload of the job")] = None
    env_vars: Annotated[dict[str, str] | None, about("replaces the variables that are set for it by name")] = None
