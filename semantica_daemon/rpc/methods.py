"""Binds each method of the wire's table to the code behind it."""

import difflib
from collections.abc import Awaitable, Callable
from functools import cache
from typing import Any, NamedTuple

import msgspec

from semantica_daemon.errors import NotSupported, UnknownMethod
from semantica_daemon.model.admission import Admitted
from semantica_daemon.rpc import answers, runs
from semantica_daemon.rpc.answers import Rooms
from semantica_daemon.rpc.discover import openrpc
from semantica_daemon.rpc.protocol import LONGEST_NAME
from semantica_daemon.rpc.session import Session
from semantica_daemon.store.database import Verb
from semantica_daemon.store.writes import enqueue, queues, report, schedules, templates
from semantica_daemon.wire import methods as wire
from semantica_daemon.wire.job import (
    EnqueueManyParams,
    JobSpec,
)
from semantica_daemon.wire.methods import LATER, METHODS
from semantica_daemon.wire.types import Params

Call = Callable[[Rooms, Session, Any], Awaitable[Any]]


class Write(NamedTuple):
    """Straight into the command queue, without a task of its own: `prepare` makes the verb's request."""

    verb: Verb
    prepare: Callable[[Rooms, Any], Any]


class Method(NamedTuple):
    """A row of the wire's table, bound to the code behind it."""

    wire: wire.Method
    call: Write | Call
    decoder: "msgspec.json.Decoder[Any]"


def _admit(rooms: Rooms, spec: JobSpec) -> Admitted:
    return rooms.admission.admit(spec)


def _admit_all(rooms: Rooms, many: EnqueueManyParams) -> list[Admitted]:
    return rooms.admission.admit_all(many.jobs)


def _as_it_is(rooms: Rooms, request: Any) -> Any:
    return request


@cache
def _document() -> dict[str, Any]:
    return openrpc(METHODS)


async def _discover(rooms: Rooms, session: Session, asked: Params) -> dict[str, Any]:
    return _document()


CALLS: dict[str, Write | Call] = {
    "job.enqueue": Write(enqueue.enqueue, _admit),
    "job.enqueue_many": Write(enqueue.enqueue_many, _admit_all),
    "job.plan": Write(enqueue.forecast, _admit),
    "job.get": answers.get,
    "job.list": answers.list_jobs,
    "job.wait": answers.wait,
    "job.cancel": answers.cancel,
    "job.explain": answers.explain,
    "job.logs": answers.logs,
    "run.progress": Write(report.told, runs.progress),
    "run.log": Write(report.told, runs.line),
    "run.result": Write(report.keep_result, runs.result),
    "event.subscribe": answers.subscribe,
    "event.unsubscribe": answers.unsubscribe,
    "event.list": answers.list_events,
    "event.emit": answers.emit,
    "template.put": Write(templates.put, _as_it_is),
    "template.get": answers.get_template,
    "template.list": answers.list_templates,
    "template.delete": Write(templates.delete, _as_it_is),
    "schedule.put": Write(schedules.put, _as_it_is),
    "schedule.get": answers.get_schedule,
    "schedule.list": answers.list_schedules,
    "schedule.delete": Write(schedules.delete, _as_it_is),
    "schedule.enable": Write(schedules.enable, _as_it_is),
    "schedule.disable": Write(schedules.disable, _as_it_is),
    "schedule.trigger": Write(schedules.trigger, _as_it_is),
    "machine.get": answers.machine,
    "machine.activity": answers.activity,
    "queue.list": answers.list_queues,
    "queue.configure": Write(queues.configure, _as_it_is),
    "queue.pause": Write(queues.pause, _as_it_is),
    "queue.resume": Write(queues.resume, _as_it_is),
    "admin.health": answers.health,
    "admin.stats": answers.stats,
    "admin.config": answers.config,
    "admin.shutdown": answers.shutdown,
    "rpc.discover": _discover,
    "initialize": answers.initialize,
    "initialized": answers.nothing,
    "shutdown": answers.nothing,
    "exit": answers.leave,
    "$/cancelRequest": answers.cancel_request,
}
BY_NAME = {row.name: Method(row, CALLS[row.name], msgspec.json.Decoder(row.params)) for row in METHODS}


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
