"""The one table of methods: name, params, result, summary. `rpc` binds each row to the code behind it."""

from typing import Any

from msgspec import Struct

from semantica_daemon.wire import (
    admin,
    attach,
    editing,
    event,
    execute,
    graph,
    group,
    job,
    machine,
    protocol,
    queue,
    reservation,
    run,
    schedule,
    template,
    worker,
)
from semantica_daemon.wire.job_view import JobWithRuns
from semantica_daemon.wire.reason import Explanation
from semantica_daemon.wire.selection import ChangeResult, SelectionParams
from semantica_daemon.wire.types import Params


class Method(Struct, frozen=True):
    """`waits`: a call may take long without doing anything; it does not count when a connection is asked to slow
    down, and takes its turn only when it has something to answer."""

    name: str
    params: type[Struct]
    result: Any
    summary: str
    waits: bool = False


class Notification(Struct, frozen=True):
    """Sent by the daemon to a subscriber."""

    name: str
    params: type[Struct]
    summary: str


AnyParams = protocol.AnyParams
METHODS = (
    Method("job.enqueue", job.JobSpec, job.Ack, "store a job and start it when it may"),
    Method("job.enqueue_many", job.EnqueueManyParams, job.Acks, "store up to 1,000 jobs, all or none"),
    Method("job.plan", job.JobSpec, job.Forecast, "what an enqueue would do, without doing it"),
    Method("job.get", job.JobParams, JobWithRuns, "a job and its runs"),
    Method("job.list", job.ListParams, job.JobPage, "jobs by filters, a page at a time"),
    Method("job.wait", job.WaitParams, job.WaitResult, "wait for the end of a job", waits=True),
    Method("job.cancel", job.CancelParams, job.CancelResult, "end jobs, by id, tag, group ...", waits=True),
    Method("job.execute", execute.ExecuteParams, execute.ExecuteResult,
           "run a job at once under a reservation, and wait for its end", waits=True),
    Method("job.move", editing.MoveParams, editing.MoveResult, "give a QUEUED job another place in its queue"),
    Method("job.update", editing.UpdateParams, JobWithRuns, "change a waiting job"),
    Method("job.hold", SelectionParams, ChangeResult, "keep waiting jobs from starting until they are released"),
    Method("job.release", SelectionParams, ChangeResult, "let held jobs start"),
    Method("job.archive", SelectionParams, ChangeResult, "delete the files of ended jobs; their rows stay"),
    Method("job.retry", job.RetryParams, job.Ack, "enqueue a job that has ended once more, as a new job"),
    Method("job.explain", job.JobParams, Explanation, "why a job has not started, as reasons and as a sentence"),
    Method("job.graph", graph.GraphParams, graph.Graph, "jobs and the parents they need, as a graph"),
    Method("job.logs", job.LogsParams, job.LogChunk, "the output of a run, by byte offset", waits=True),
    Method("job.attach", attach.AttachParams, attach.Attached, "follow the job that is enqueued next, from its start"),
    Method("job.input", attach.InputParams, attach.InputResult, "send stdin to an attached job", waits=True),
    Method("run.progress", run.ProgressParams, run.RunAck, "report the progress of this run"),
    Method("run.log", run.LogLineParams, run.RunAck, "report a line of this run, as an event"),
    Method("run.result", run.ResultParams, run.RunAck, "report the result of this run: the job's result_summary"),
    Method("event.subscribe", event.SubscribeParams, event.Subscription, "be notified of events"),
    Method("event.unsubscribe", event.UnsubscribeParams, event.UnsubscribeResult, "end a subscription"),
    Method("event.list", event.EventListParams, event.EventPage, "events of the past, a page at a time"),
    Method("event.emit", event.EmitParams, event.EmitResult, "emit an event: jobs that wait for it may start"),
    Method("template.put", template.PutTemplateParams, template.TemplateAck, "store a job spec under a name"),
    Method("template.get", template.TemplateParams, template.TemplateView, "a template"),
    Method("template.list", Params, template.TemplateList, "all templates"),
    Method("template.delete", template.TemplateParams, template.DeleteTemplateResult,
           "delete a template that no schedule uses"),
    Method("schedule.put", schedule.PutScheduleParams, schedule.ScheduleAck, "make jobs from a template by cron"),
    Method("schedule.get", schedule.GetScheduleParams, schedule.ScheduleView, "a schedule and its next times"),
    Method("schedule.list", Params, schedule.ScheduleList, "all schedules"),
    Method("schedule.delete", schedule.ScheduleParams, schedule.DeleteScheduleResult,
           "delete a schedule; its jobs stay"),
    Method("schedule.enable", schedule.ScheduleParams, schedule.EnableResult, "let a schedule fire, from now on"),
    Method("schedule.disable", schedule.ScheduleParams, schedule.EnableResult, "stop a schedule until it is enabled"),
    Method("schedule.trigger", schedule.ScheduleParams, schedule.TriggerResult, "fire a schedule once, now"),
    Method("group.create", group.CreateGroupParams, group.GroupAck, "set the policy of the jobs with a group label"),
    Method("group.get", group.GetGroupParams, group.GroupView, "a group, its status and its jobs"),
    Method("group.list", group.ListGroupsParams, group.GroupPage, "the groups and their status, a page at a time"),
    Method("group.cancel", group.CancelGroupParams, job.CancelResult, "cancel all live jobs of a group", waits=True),
    Method("group.wait", group.WaitGroupParams, group.WaitGroupResult,
           "wait until every job of a group has ended", waits=True),
    Method("machine.get", Params, machine.MachineView, "whether the machine is idle and on mains, by source"),
    Method("machine.activity", machine.ActivityParams, machine.ActivityAck, "report that an editor's user is typing"),
    Method("queue.list", Params, queue.QueueList, "the queues, their slots and what they hold"),
    Method("queue.configure", queue.ConfigureParams, queue.QueueSettings, "set slots and limits of a queue"),
    Method("queue.pause", queue.PauseParams, queue.PauseState, "start no more jobs of a queue"),
    Method("queue.resume", queue.ResumeParams, queue.PauseState, "go on with a paused queue"),
    Method("queue.delete", queue.DeleteQueueParams, queue.DeleteQueueResult,
           "delete a queue without live jobs: its settings and its totals; its ended jobs stay"),
    Method("reservation.acquire", reservation.AcquireParams, reservation.Acquired,
           "let no job start until it is released or expires", waits=True),
    Method("reservation.release", reservation.ReleaseParams, reservation.ReservationView, "let jobs start again"),
    Method("reservation.get", reservation.GetReservationParams, reservation.ReservationFound,
           "the ACTIVE reservation, or one by its id"),
    Method("worker.register", worker.RegisterParams, worker.RegisterResult, "register an external worker"),
    Method("worker.claim", worker.ClaimParams, worker.ClaimResult, "begin the next EXTERNAL jobs", waits=True),
    Method("worker.heartbeat", worker.HeartbeatParams, worker.HeartbeatResult, "renew the leases of runs"),
    Method("worker.complete", worker.CompleteParams, worker.EndedRun, "end a run with success"),
    Method("worker.fail", worker.FailParams, worker.EndedRun, "end a run with a failure"),
    Method("worker.leave", worker.WorkerParams, worker.LeaveResult, "give all runs back, and end the worker"),
    Method("worker.list", Params, worker.WorkerList, "the workers, which of them are alive, and what they run"),
    Method("admin.health", Params, admin.Health, "whether the daemon is ready, and how each part is"),
    Method("admin.stats", Params, admin.Stats, "counts and times by queue, and of the system"),
    Method("admin.config", admin.ConfigParams, dict[str, Any], "the configuration in force; can read its file again"),
    Method("admin.shutdown", admin.ShutdownParams, admin.ShutdownAck, "stop the daemon, as SIGTERM does"),
    Method("rpc.discover", Params, dict[str, Any], "this table, as an OpenRPC document"),
    Method("initialize", AnyParams, protocol.InitializeResult, "optional greeting: capabilities, version, limits"),
    Method("initialized", AnyParams, None, "accepted from LSP clients"),
    Method("shutdown", AnyParams, None, "accepted from LSP clients; exit follows"),
    Method("exit", AnyParams, None, "close this connection, never the daemon"),
    Method("$/cancelRequest", protocol.CancelRequestParams, None, "end a waiting call, not the job"),
)  # fmt: skip

NOTIFICATIONS = (
    Notification("event", event.EventNotification, "the next events of a subscription"),
    Notification("stream.gap", event.GapNotification, "events that the subscriber will never see"),
    Notification("job.queue_heartbeat", event.QueueHeartbeat, "why the job of a subscription still waits"),
)

# Of the protocol, and refused as not supported until a later version brings them.
LATER = {
    "job": "export",
    "artifact": "list verify",
    "receipt": "get verify",
    "admin": "metrics maintenance backup",
}
