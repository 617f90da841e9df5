"""The `event` family: the stream of events, subscriptions to it, and events that callers emit."""

from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct

from semantica_daemon.wire.reason import Reason
from semantica_daemon.wire.types import FEW, JobId, Label, Level, Params, Queue, Sequence, Value, about


class Event(Struct, frozen=True, gc=False):
    """Something that has happened to a job, a queue, a schedule or the daemon."""

    sequence: Annotated[int, about("place in the stream, without gaps")]
    job_sequence: Annotated[int | None, about("place among the events of its job")]
    job_id: Annotated[str | None, about("the job; null for queues, schedules and the daemon")]
    timestamp_at: Annotated[int, about("when, epoch ms")]
    event_type: Annotated[str, about("such as job.queued, job.done, queue.paused, daemon.started")]
    level: Annotated[str, about("debug, info, warn or error")]
    message: Annotated[str, about("a sentence; may be empty")]
    payload: Annotated[Raw, about("facts, an object")]


class Gap(Struct, frozen=True, rename={"from_": "from"}):
    """Sequence numbers that the reader will never see: removed by retention, or of another epoch."""

    from_: Annotated[int, about("the sequence that was asked for")]
    to: Annotated[int, about("the stream goes on after this sequence")]
    epoch: Annotated[str, about("the epoch of the stream now")]


class SubscribeParams(Params, frozen=True):
    """Which events; an event must match all filters that are given."""

    since: Annotated[Sequence | None, about("from after this sequence, 0 = from the beginning; default: from now")] = (
        None
    )
    epoch: Annotated[str | None, about("epoch that `since` belongs to; another one gives stream.gap")] = None
    job_id: Annotated[JobId | None, about("only of this job; also brings job.queue_heartbeat while it waits")] = None
    queue: Annotated[Queue | None, about("only of this queue")] = None
    user_tag: Annotated[Label | None, about("only of jobs with this tag")] = None
    event_types: Annotated[Annotated[list[str], FEW] | None, about("only of these types")] = None
    levels: Annotated[Annotated[list[Level], FEW] | None, about("only of these levels")] = None


class Subscription(Struct, frozen=True):
    subscription_id: Annotated[str, about("id in the notifications, and for event.unsubscribe")]
    sequence: Annotated[int, about("the notifications begin after this sequence")]
    epoch: Annotated[str, about("epoch of the stream")]


class UnsubscribeParams(Params, frozen=True):
    subscription_id: Annotated[str, about("id from event.subscribe")]


class UnsubscribeResult(Struct, frozen=True):
    unsubscribed: Annotated[bool, about("false: this connection has no such subscription")]


class EventListParams(Params, frozen=True):
    since: Annotated[Sequence, about("from after this sequence")] = 0
    epoch: Annotated[str | None, about("epoch that `since` belongs to")] = None
    job_id: Annotated[JobId | None, about("only of this job")] = None
    queue: Annotated[Queue | None, about("only of this queue")] = None
    user_tag: Annotated[Label | None, about("only of jobs with this tag")] = None
    event_types: Annotated[Annotated[list[str], FEW] | None, about("only of these types")] = None
    levels: Annotated[Annotated[list[Level], FEW] | None, about("only of these levels")] = None
    sort: Annotated[Literal["oldest", "newest"], about("newest: the newest events, the newest first")] = "oldest"
    before: Annotated[Sequence | None, about("with sort newest: only from before this sequence")] = None
    limit: Annotated[Annotated[int, Meta(ge=1, le=1000)], about("events per page")] = 200


class EventPage(Struct, frozen=True):
    events: Annotated[list[Event], about("the events, oldest first unless sort is newest")]
    next_sequence: Annotated[int, about("pass it as the next `since`; with sort newest, the end of the stream")]
    epoch: Annotated[str, about("epoch of the stream")]
    gap: Annotated[Gap | None, about("events that were asked for and are gone, or null")] = None


class EmitParams(Params, frozen=True):
    key: Annotated[Label, about("what has happened")]
    value: Annotated[Value | None, about("for jobs that wait for this key with this value")] = None


class EmitResult(Struct, frozen=True, omit_defaults=True):
    matched: Annotated[list[str], about("ids of the jobs that waited for it")]
    fired: Annotated[list[str], about("ids of the jobs that schedules for it have made; left out without any")] = []


class EventNotification(Struct, frozen=True):
    """Params of the notification `event`."""

    subscription_id: Annotated[str, about("id from event.subscribe")]
    events: Annotated[list[Event], about("the next events, oldest first")]


class GapNotification(Gap, frozen=True, rename={"from_": "from"}):
    """Params of the notification `stream.gap`: events that the subscriber will never see."""

    subscription_id: Annotated[str, about("id from event.subscribe")]


class QueueHeartbeat(Struct, frozen=True):
    """Params of the notification `job.queue_heartbeat`: why a watched job still waits, every 10 s."""

    subscription_id: Annotated[str, about("id from event.subscribe")]
    job_id: Annotated[str, about("the job")]
    state: Annotated[str, about("QUEUED or SCHEDULED")]
    reason: Annotated[str, about("the reasons as a sentence")]
    reasons: Annotated[list[Reason], about("what it waits for, as in job.explain")]
    queue_position: Annotated[int | None, about("jobs before it in the queue; null unless QUEUED")]
    estimated_start_at: Annotated[int | None, about("when it may start, epoch ms; null: unknown")]
    estimated_wait_ms: Annotated[int | None, about("time until then")]
    claim_attempts: Annotated[int, about("claims whose run could not be started")]
