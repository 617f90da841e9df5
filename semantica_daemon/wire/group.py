"""The `group` family: jobs with one group label, and the policy for them."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from semantica_daemon.wire.types import Label, Params, Wait, about

GroupMode = Literal["parallel", "sequential"]
OnFailure = Literal["stop", "continue", "skip"]
GroupStatus = Literal["PENDING", "RUNNING", "DONE", "FAILED", "PARTIAL", "CANCELLED"]
Name = Annotated[Label, about("the group label of its jobs")]


class CreateGroupParams(Params, frozen=True):
    """Jobs that have the label already are members too."""

    chain_group_id: Annotated[Label | None, about("the group label of its jobs; without it a new one is made")] = None
    mode: Annotated[GroupMode, about("whether its jobs run one at a time, in the order of their queue")] = "parallel"
    on_failure: Annotated[
        OnFailure,
        about(
            "after a failure, stop: the jobs that have not started are cancelled; skip: only what needs the failed "
            "job is; continue: none is, and what needs the failed job starts all the same"
        ),
    ] = "skip"
    max_parallel: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None, about("how many of its jobs may run at once; null: any number")
    ] = None


class GroupAck(Struct, frozen=True):
    chain_group_id: Annotated[str, about("the group label to give to its jobs")]
    created: Annotated[bool, about("false: there is a group with this label and policy already")]


class GroupParams(Params, frozen=True):
    chain_group_id: Name


class GetGroupParams(Params, frozen=True):
    chain_group_id: Name
    limit: Annotated[Annotated[int, Meta(ge=0, le=1000)], about("jobs on a page")] = 200
    cursor: Annotated[str | None, about("next_cursor of the page before")] = None


class ListGroupsParams(Params, frozen=True):
    live: Annotated[bool, about("only groups with jobs that wait or run")] = False
    limit: Annotated[Annotated[int, Meta(ge=1, le=200)], about("groups on a page")] = 50
    cursor: Annotated[str | None, about("next_cursor of the page before")] = None


class CancelGroupParams(Params, frozen=True):
    chain_group_id: Name
    reason: Annotated[Annotated[str, Meta(max_length=1000)], about("shown in the events")] = ""
    wait_ms: Annotated[Wait, about("wait so long for the running jobs to end")] = 0


class WaitGroupParams(Params, frozen=True):
    chain_group_id: Name
    timeout_ms: Annotated[Wait, about("how long to wait")] = 8000


class GroupSummary(Struct, frozen=True):
    """A group without its jobs. A job that was retried counts as its newest retry."""

    chain_group_id: Annotated[str, about("the group label of its jobs")]
    mode: Annotated[GroupMode, about("whether its jobs run one at a time")]
    on_failure: Annotated[OnFailure, about("what a failed job ends")]
    max_parallel: Annotated[int | None, about("how many of its jobs may run at once; null: any number")]
    created_at: Annotated[int | None, about("when it was created, epoch ms; null: it is only a label of its jobs")]
    stopped_by: Annotated[str | None, about("the failed job that has stopped it")]
    status: Annotated[GroupStatus, about("derived from its jobs; final when every job has ended")]
    counts: Annotated[dict[str, int], about("its jobs by state; states without jobs are left out")]


class GroupJob(Struct, frozen=True):
    job_id: Annotated[str, about("the job")]
    state: Annotated[str, about("its state")]
    job_type: Annotated[str, about("its type")]
    queue: Annotated[str, about("its queue")]
    user_tag: Annotated[str | None, about("its tag")]
    parent_job_id: Annotated[str | None, about("the first job that it needs")]
    started_at: Annotated[int | None, about("start of its latest run, epoch ms")]
    finished_at: Annotated[int | None, about("when it ended, epoch ms")]


class GroupView(GroupSummary, frozen=True):
    """A group and a page of its jobs, in the order in which they were added."""

    jobs: Annotated[list[GroupJob], about("its jobs")]
    next_cursor: Annotated[str | None, about("for the next page; null: this is the last")]


class GroupPage(Struct, frozen=True):
    groups: Annotated[list[GroupSummary], about("by label")]
    next_cursor: Annotated[str | None, about("for the next page; null: this is the last")]


class WaitGroupResult(Struct, frozen=True):
    finished: Annotated[bool, about("whether every job of the group has ended; false: the time is over")]
    group: Annotated[GroupSummary, about("the group")]
