"""Why a job has not started, or how it has ended: the typed reasons of job.explain and job.plan."""

from typing import Annotated

from msgspec import Struct

from semantica_daemon.wire.types import about


class Reason(Struct, frozen=True, omit_defaults=True):
    """`kind` is for programs, `message` for people; `prose` renders the message from the other fields, the facts."""

    kind: Annotated[str, about("time, event, idle, power, held, reserved, paused, lane, key, group, rate, slots, ...")]
    message: Annotated[str, about("the reason as a sentence")] = ""
    at: Annotated[int | None, about("instant that it waits for, epoch ms")] = None
    since: Annotated[int | None, about("since when it is held, epoch ms")] = None
    job_id: Annotated[str | None, about("the other job that it is about")] = None
    queue: Annotated[str | None, about("the queue that it is about")] = None
    job_type: Annotated[str | None, about("type of the jobs that it is about")] = None
    reserved_by: Annotated[str | None, about("holder of the reservation; job_id: of one that runs a job")] = None
    state: Annotated[str | None, about("the state that the other job is in")] = None
    count: Annotated[int | None, about("how many jobs or workers it is about, if they are not named")] = None
    key: Annotated[str | None, about("key of the event that it waits for, or concurrency key that has no room")] = None
    group: Annotated[str | None, about("the group that it is about")] = None
    value: Annotated[str | None, about("value of the event, or state of the other job, that it waits for")] = None
    ahead: Annotated[int | None, about("jobs before it in the queue, or in its lane besides the one named")] = None
    running: Annotated[int | None, about("jobs that hold slots now")] = None
    slots: Annotated[int | None, about("slots there are; of a key or group: jobs of it that may run at once")] = None
    needed: Annotated[int | None, about("slots that the job takes, if more than one")] = None
    idle_for_ms: Annotated[int | None, about("time since the last input")] = None
    idle_ms: Annotated[int | None, about("how long without input counts as idle")] = None
    known: Annotated[bool | None, about("whether the machine's sources know the answer")] = None
    detail: Annotated[str | None, about("what the machine's source reports")] = None
    started_at: Annotated[int | None, about("when its run started, epoch ms")] = None
    requested_at: Annotated[int | None, about("when it was asked to stop, epoch ms")] = None
    attempt: Annotated[int | None, about("attempt number")] = None
    max_attempts: Annotated[int | None, about("runs in all")] = None
    stale: Annotated[bool | None, about("true when a newer job of its subject is known")] = None
    code: Annotated[str | None, about("error code of the run")] = None
    error: Annotated[str | None, about("error message of the run")] = None
    limit: Annotated[str | None, about("why it was skipped: ttl or deadline")] = None


class Explanation(Struct, frozen=True):
    """The result of job.explain."""

    job_id: Annotated[str, about("the job")]
    state: Annotated[str, about("its state")]
    summary: Annotated[str, about("the messages of the reasons, joined")]
    reasons: Annotated[list[Reason], about("what it waits for, or how it has ended")]
    queue_position: Annotated[int | None, about("jobs before it in the queue; null unless QUEUED")]
    estimated_start_at: Annotated[int | None, about("when it may start, epoch ms; null: unknown")]
    claim_attempts: Annotated[int, about("claims whose run could not be started")]
