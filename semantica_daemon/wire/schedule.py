"""The `schedule` family: jobs made from templates by cron, at an interval, at events or when the machine starts."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Raw, Struct

from semantica_daemon.wire.job import Ack
from semantica_daemon.wire.types import FAR_FUTURE, Label, Params, Value, about

SHORTEST_INTERVAL_MS = 1000
Misfire = Literal["run_once", "skip", "run_all"]
Overlap = Literal["queue", "skip", "supersede"]


class PutScheduleParams(Params, frozen=True):
    """Fields that are left out get their default; only `enabled` of a known schedule stays as it is."""

    name: Annotated[Label, about("name of the schedule; the same name again replaces it")]
    template_id: Annotated[Label, about("id or name of the template that its jobs are made from")]
    cron_expression: Annotated[
        Annotated[str, Meta(min_length=1, max_length=256)] | None,
        about("five fields, six with seconds first, or @daily, @every 90m, @reboot (when the machine has started) …"),
    ] = None
    every_ms: Annotated[
        Annotated[int, Meta(ge=SHORTEST_INTERVAL_MS, le=FAR_FUTURE)] | None,
        about("instead: the interval; the first time is one interval after the put"),
    ] = None
    on_event: Annotated[
        Label | None,
        about("instead: at every event.emit with this key; the job's payload gets `event`, with key and value"),
    ] = None
    event_value: Annotated[Value | None, about("with on_event: only when the event has this value")] = None
    jitter_ms: Annotated[
        Annotated[int, Meta(ge=0, le=604_800_000)], about("each job is delayed by up to so long, differently each time")
    ] = 0
    timezone: Annotated[
        Annotated[str, Meta(min_length=1, max_length=256)], about("zone of the cron expression, such as Europe/Berlin")
    ] = "UTC"
    enabled: Annotated[bool | None, about("whether it fires; default: true for a new one, else unchanged")] = None
    param_overrides: Annotated[dict[str, Any] | None, about("merged into the template's payload")] = None
    misfire: Annotated[
        Misfire, about("times missed while the daemon was away: run once for all, skip them, or run all")
    ] = "run_once"
    overlap: Annotated[
        Overlap, about("when the last job is still live: wait for it, skip this time, or supersede it")
    ] = "queue"
    schedule_id: Annotated[Label | None, about("change this one, by id or name, and give it the name")] = None


class ScheduleAck(Struct, frozen=True):
    schedule_id: Annotated[str, about("id of the schedule")]
    name: Annotated[str, about("its name")]
    next_trigger_at: Annotated[int | None, about("when it fires next, epoch ms; null when disabled or not by time")]
    created: Annotated[bool, about("false: a known one was replaced")]


class ScheduleParams(Params, frozen=True):
    schedule_id: Annotated[Label, about("id or name of the schedule")]


class GetScheduleParams(ScheduleParams, frozen=True):
    upcoming: Annotated[Annotated[int, Meta(ge=1, le=100)], about("how many of its next times to list")] = 5


class ScheduleView(Struct, frozen=True):
    """A stored schedule."""

    schedule_id: Annotated[str, about("id of the schedule")]
    name: Annotated[str, about("its name")]
    template_id: Annotated[str, about("id of its template")]
    template_name: Annotated[str, about("name of its template")]
    cron_expression: Annotated[str | None, about("when it fires; null for an interval or an event")]
    every_ms: Annotated[int | None, about("its interval")]
    on_event: Annotated[str | None, about("key of the event that fires it")]
    event_value: Annotated[str | None, about("value that the event must have; null: any")]
    jitter_ms: Annotated[int, about("most that a job is delayed")]
    timezone: Annotated[str, about("zone of the cron expression")]
    enabled: Annotated[bool, about("whether it fires")]
    param_overrides: Annotated[Raw, about("merged into the template's payload")]
    misfire: Annotated[str, about("run_once, skip or run_all")]
    overlap: Annotated[str, about("queue, skip or supersede")]
    last_triggered_at: Annotated[int | None, about("when it last made a job")]
    next_trigger_at: Annotated[int | None, about("when it fires next; null when disabled")]
    last_job_id: Annotated[str | None, about("id of the last job it has made")]
    last_job_state: Annotated[str | None, about("state of that job; null when there is none, or it was removed")]
    last_exit_code: Annotated[int | None, about("exit code of that job's latest run")]
    created_at: Annotated[int, about("when it was created, epoch ms")]
    updated_at: Annotated[int, about("when it was last changed")]
    upcoming: Annotated[list[int], about("its next times; in schedule.list only the next one")]


class ScheduleList(Struct, frozen=True):
    schedules: Annotated[list[ScheduleView], about("the schedules by name")]


class EnableResult(Struct, frozen=True):
    schedule_id: Annotated[str, about("id of the schedule")]
    enabled: Annotated[bool, about("whether it fires now")]
    next_trigger_at: Annotated[int | None, about("when it fires next")]


class DeleteScheduleResult(Struct, frozen=True):
    schedule_id: Annotated[str, about("id of the schedule")]
    deleted: Annotated[bool, about("always true")] = True


class TriggerResult(Struct, frozen=True):
    schedule_id: Annotated[str, about("id of the schedule")]
    job: Annotated[Ack | None, about("the job; null when an earlier one is live and the schedule skips overlaps")]
    skipped: Annotated[str | None, about('"overlap" when there is no job')]
    next_trigger_at: Annotated[int | None, about("when it fires next by itself")]
