"""The selection of jobs: the params that every method shares which changes many jobs at once, and what they answer."""

from typing import Annotated

from msgspec import Meta, Struct

from semantica_daemon.wire.types import JobId, Label, Params, Queue, Subject, about


class SelectionParams(Params, frozen=True, kw_only=True):
    """Exactly one selection: an id, ids, or a field of the jobs that the method can change: live ones, for job.archive
    ended ones."""

    job_id: Annotated[JobId | None, about("this job, by id or unique prefix")] = None
    job_ids: Annotated[Annotated[list[JobId], Meta(max_length=1000)] | None, about("these jobs")] = None
    user_tag: Annotated[Label | None, about("all jobs with this tag")] = None
    chain_group_id: Annotated[Label | None, about("all jobs with this group label")] = None
    subject_key: Annotated[Subject | None, about("all jobs about this subject")] = None
    queue: Annotated[Queue | None, about("all jobs of this queue")] = None
    schedule_id: Annotated[Label | None, about("all jobs made by the schedule with this id")] = None
    dry_run: Annotated[bool, about("change nothing; the answer lists what would be changed")] = False


class ChangeResult(Struct, frozen=True):
    """Every job that was selected, in one of the lists."""

    changed: Annotated[list[str], about("ids of the jobs that were changed")]
    unchanged: Annotated[list[str], about("ids of the jobs whose state does not allow it, or that are so already")]
