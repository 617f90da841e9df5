"""The one table of methods: each row a name, what it takes, what it answers, and the one call behind it."""

import difflib
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from semantica_daemon.engine.machine import Activity, MachineView
from semantica_daemon.engine.output import Chunk
from semantica_daemon.engine.waiting import Emitted
from semantica_daemon.errors import NotSupported, UnknownMethod
from semantica_daemon.model.job import Ack, Forecast, JobSpec
from semantica_daemon.model.reason import Explanation
from semantica_daemon.model.view import JobWithRuns
from semantica_daemon.rpc import answers, params, runs
from semantica_daemon.rpc.answers import Rooms
from semantica_daemon.rpc.discover import openrpc
from semantica_daemon.rpc.protocol import LONGEST_NAME
from semantica_daemon.rpc.session import Session
from semantica_daemon.store.admitted import Admitted
from semantica_daemon.store.catalogue import ScheduleView, TemplateView
from semantica_daemon.store.database import Verb
from semantica_daemon.store.writes import enqueue, queues, report, schedules, templates
from semantica_daemon.store.writes.cancel import Cancelled
from semantica_daemon.store.writes.fire import Triggered

Call = Callable[[Rooms, Session, Any], Awaitable[Any]]


class Write(NamedTuple):
    """Straight into the command queue, without a task of its own: `prepare` makes the verb's request."""

    verb: Verb
    prepare: Callable[[Rooms, Any], Any]


class Method(Struct, frozen=True):
    name: str
    params: type[Struct]
    result: Any
    call: Write | Call
    summary: str
    waits: bool
    decoder: "msgspec.json.Decoder[Any]"


def _row(
    name: str, takes: type[Struct], answers_: Any, call: Write | Call, summary: str, waits: bool = False
) -> Method:
    """`waits`: may take long without doing anything, and takes its turn only when it has something to answer."""
    return Method(name, takes, answers_, call, summary, waits, msgspec.json.Decoder(takes))


def _admit(rooms: Rooms, spec: JobSpec) -> Admitted:
    return rooms.intake.admit(spec)


def _admit_all(rooms: Rooms, many: params.ManySpecs) -> list[Admitted]:
    return rooms.intake.admit_all(many.jobs)


def _as_it_is(rooms: Rooms, request: Any) -> Any:
    return request


@cache
def _document() -> dict[str, Any]:
    return openrpc(TABLE)


async def _discover(rooms: Rooms, session: Session, asked: params.Params) -> dict[str, Any]:
    return _document()


No, Any_ = params.Params, params.AnyParams
TABLE: tuple[Method, ...] = (
    _row("job.enqueue", JobSpec, Ack, Write(enqueue.enqueue, _admit), "take a job"),
    _row("job.enqueue_many", params.ManySpecs, enqueue.Acks, Write(enqueue.enqueue_many, _admit_all),
         "take up to 1,000 jobs, all or none"),
    _row("job.plan", JobSpec, Forecast, Write(enqueue.forecast, _admit), "what an enqueue would do, without doing it"),
    _row("job.get", params.OneJob, JobWithRuns, answers.get, "a job and its runs"),
    _row("job.list", params.ListParams, params.JobList, answers.list_jobs, "jobs by filters, a page at a time"),
    _row("job.wait", params.WaitParams, params.Waited, answers.wait, "wait for the end of a job", waits=True),
    _row("job.cancel", params.CancelParams, Cancelled, answers.cancel, "cancel by id, tag, group, subject or queue",
         waits=True),
    _row("job.explain", params.OneJob, Explanation, answers.explain, "why it has not started, in words and in kinds"),
    _row("job.logs", params.LogsParams, Chunk, answers.logs, "what a run has written, by byte offset", waits=True),
    _row("run.progress", params.RunProgress, report.Told, Write(report.told, runs.progress), "how far this run is"),
    _row("run.log", params.RunLog, report.Told, Write(report.told, runs.line), "a line of this run, as an event"),
    _row("run.result", params.RunResult, report.Told, Write(report.keep_result, runs.result),
         "what this run has found: the job's result_summary"),
    _row("event.subscribe", params.SubscribeParams, params.Subscribed, answers.subscribe, "follow the stream"),
    _row("event.unsubscribe", params.UnsubscribeParams, params.Unsubscribed, answers.unsubscribe, "stop following"),
    _row("event.list", params.EventListParams, params.EventList, answers.list_events, "a page of the stream"),
    _row("event.emit", params.EmitParams, Emitted, answers.emit, "something has happened: let go what waits for it"),
    _row("template.put", templates.PutTemplate, templates.TemplateKept, Write(templates.put, _as_it_is),
         "keep a spec under a name; the same name again replaces it"),
    _row("template.get", templates.WhichTemplate, TemplateView, answers.get_template, "a template, by id or name"),
    _row("template.list", No, params.TemplateList, answers.list_templates, "the templates"),
    _row("template.delete", templates.WhichTemplate, templates.TemplateDeleted, Write(templates.delete, _as_it_is),
         "delete a template that no schedule uses"),
    _row("schedule.put", schedules.PutSchedule, schedules.ScheduleKept, Write(schedules.put, _as_it_is),
         "make jobs of a template by cron; the same name again replaces it"),
    _row("schedule.get", params.ScheduleParams, ScheduleView, answers.get_schedule, "a schedule, by id or name"),
    _row("schedule.list", No, params.ScheduleList, answers.list_schedules, "the schedules and their next times"),
    _row("schedule.delete", schedules.WhichSchedule, schedules.ScheduleDeleted, Write(schedules.delete, _as_it_is),
         "delete a schedule; its jobs stay"),
    _row("schedule.enable", schedules.WhichSchedule, schedules.ScheduleSwitched, Write(schedules.enable, _as_it_is),
         "from now on"),
    _row("schedule.disable", schedules.WhichSchedule, schedules.ScheduleSwitched, Write(schedules.disable, _as_it_is),
         "until it is enabled"),
    _row("schedule.trigger", schedules.WhichSchedule, Triggered, Write(schedules.trigger, _as_it_is),
         "fire it once, now"),
    _row("machine.get", No, MachineView, answers.machine, "is it idle, is it on mains, and who says so"),
    _row("machine.activity", params.ActivityParams, Activity, answers.activity, "an editor's user is typing"),
    _row("queue.list", No, params.QueueList, answers.list_queues, "the queues, their slots and what they hold"),
    _row("queue.configure", queues.Configure, queues.Configured, Write(queues.configure, _as_it_is),
         "slots and rules of a queue; durable, and over the config file"),
    _row("queue.pause", queues.Pause, queues.Paused, Write(queues.pause, _as_it_is), "start nothing more of a queue"),
    _row("queue.resume", queues.Resume, queues.Paused, Write(queues.resume, _as_it_is), "go on with a paused queue"),
    _row("admin.health", No, params.Health, answers.health, "is it ready, and how is each part"),
    _row("admin.stats", No, params.Stats, answers.stats, "counts and times by queue, and the system"),
    _row("admin.config", No, dict[str, Any], answers.config, "the configuration in force"),
    _row("admin.shutdown", params.ShutdownParams, params.ShuttingDown, answers.shutdown, "stop, as SIGTERM does"),
    _row("rpc.discover", No, dict[str, Any], _discover, "this table, as OpenRPC"),
    _row("initialize", Any_, params.Hello, answers.initialize, "optional greeting: capabilities, version, limits"),
    _row("initialized", Any_, None, answers.nothing, "accepted from LSP clients"),
    _row("shutdown", Any_, None, answers.nothing, "accepted from LSP clients; exit follows"),
    _row("exit", Any_, None, answers.leave, "ends this connection, never the daemon"),
    _row("$/cancelRequest", Any_, None, answers.cancel_request, "ends a waiting call, not the job"),
)  # fmt: skip
BY_NAME = {method.name: method for method in TABLE}
LATER = {
    "job": "retry update move hold release archive execute export",
    "group": "create get list cancel",
    "reservation": "acquire release get",
    "worker": "register claim heartbeat complete fail leave list",
    "artifact": "list verify",
    "receipt": "get verify",
    "admin": "metrics maintenance backup",
}


def find(name: str) -> Method:
    method = BY_NAME.get(name)
    if method is not None:
        return method
    family, _, verb = name.partition(".")
    if verb and verb in LATER.get(family, "").split():
        raise NotSupported(f"{name} is not supported by this version", "a later version brings it")
    shown = name[:LONGEST_NAME]
    near = difflib.get_close_matches(shown, BY_NAME, 1)
    hint = f"did you mean {near[0]}?" if near else "rpc.discover lists the methods"
    raise UnknownMethod(f"no method {shown}", hint)
