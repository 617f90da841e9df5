"""job.graph: jobs and the parents they need, as the nodes and edges of a graph without cycles."""

from typing import Annotated

from msgspec import Meta, Struct

from semantica_daemon.wire.types import JobId, Label, Params, about


class GraphParams(Params, frozen=True):
    """Without a job and a group: the chains with jobs that wait or run."""

    job_id: Annotated[JobId | None, about("this job, by id or unique prefix, its ancestors and descendants")] = None
    chain_group_id: Annotated[Label | None, about("the jobs with this group label; of many the newest")] = None
    limit: Annotated[Annotated[int, Meta(ge=1, le=1000)], about("most nodes of the answer")] = 200


class GraphNode(Struct, frozen=True):
    job_id: Annotated[str, about("id of the job")]
    job_type: Annotated[str, about("its type")]
    argv: Annotated[list[str] | None, about("its command; null for a handler, and when it is longer than 1 KiB")]
    state: Annotated[str, about("its state")]
    queue: Annotated[str, about("its queue")]
    chain_group_id: Annotated[str | None, about("its group label")]
    user_tag: Annotated[str | None, about("its tag")]
    created_at: Annotated[int, about("when it was enqueued, epoch ms")]
    started_at: Annotated[int | None, about("when its latest run started")]
    finished_at: Annotated[int | None, about("when it ended")]
    hidden_parents: Annotated[int, about("how many of its parents are not among the nodes")]


class GraphEdge(Struct, frozen=True):
    """The child starts when the parent is DONE."""

    parent_id: Annotated[str, about("id of the parent")]
    job_id: Annotated[str, about("id of the child")]


class Graph(Struct, frozen=True):
    nodes: Annotated[list[GraphNode], about("the jobs in the order of arrival, so that parents precede their children")]
    edges: Annotated[list[GraphEdge], about("the links between these jobs")]
    truncated: Annotated[bool, about("there are more jobs, or more than 20,000 links, than the answer has")]
