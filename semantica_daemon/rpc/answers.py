"""The calls behind the table that are not a single verb: questions, waits, subscriptions, and the daemon itself."""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from semantica_daemon import PROTOCOL, VERSION
from semantica_daemon.clock import Clock
from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.explain import Explainer
from semantica_daemon.engine.feed import Feed
from semantica_daemon.engine.lifecycle import Lifecycle
from semantica_daemon.engine.machine import Machine
from semantica_daemon.engine.output import Output
from semantica_daemon.engine.passes import Pass
from semantica_daemon.engine.readers import Readers
from semantica_daemon.engine.waiting import Waiting
from semantica_daemon.engine.writer import Writer
from semantica_daemon.errors import InvalidParams, JobNotFound, Stopping, TooManySubscriptions
from semantica_daemon.model.admission import Admission
from semantica_daemon.model.event import Filter
from semantica_daemon.model.queue import Limits, QueueRules
from semantica_daemon.model.schedule import upcoming
from semantica_daemon.model.state import TERMINAL
from semantica_daemon.rpc.framing import MAX_HEADER, MAX_MESSAGE
from semantica_daemon.rpc.session import Session
from semantica_daemon.rpc.subscription import Heart, follow
from semantica_daemon.store import catalogue, reads
from semantica_daemon.store.counts import EVERY_QUEUE
from semantica_daemon.store.transition import Running
from semantica_daemon.store.writes.cancel import Cancel
from semantica_daemon.store.writes.emit import Emit
from semantica_daemon.wire.admin import Health, ShutdownAck, ShutdownParams, Stats
from semantica_daemon.wire.event import (
    EmitParams,
    EmitResult,
    Event,
    EventListParams,
    EventPage,
    SubscribeParams,
    Subscription,
    UnsubscribeParams,
    UnsubscribeResult,
)
from semantica_daemon.wire.job import (
    CancelParams,
    CancelResult,
    JobPage,
    JobParams,
    ListParams,
    LogChunk,
    LogsParams,
    WaitParams,
    WaitResult,
)
from semantica_daemon.wire.job_view import JobWithRuns
from semantica_daemon.wire.machine import ActivityAck, ActivityParams, MachineView
from semantica_daemon.wire.protocol import AnyParams, InitializeResult
from semantica_daemon.wire.queue import QueueList, QueueView
from semantica_daemon.wire.reason import Explanation
from semantica_daemon.wire.schedule import GetScheduleParams, ScheduleList, ScheduleView
from semantica_daemon.wire.template import TemplateList, TemplateParams, TemplateView
from semantica_daemon.wire.types import Params

MAX_IN_FLIGHT = 1000
MAX_BATCH = 1000
MAX_CONNECTIONS = 1000
MAX_SUBSCRIPTIONS = 100
MOST_PAGES = 50  # that one event.list looks through for what it wants


class Rooms(Struct):
    """What the methods reach."""

    commands: CommandQueue
    writer: Writer
    readers: Readers
    feed: Feed
    admission: Admission
    waiting: Waiting
    output: Output
    machine: Machine
    explainer: Explainer
    tokens: dict[str, Running]
    clock: Clock
    limits: Limits
    passes: list[Pass]
    running: Callable[[], int]
    lifecycle: Lifecycle
    database: Path
    config: dict[str, Any]
    started: float
    connections: set[Any]


async def get(rooms: Rooms, _: Session, asked: JobParams) -> JobWithRuns:
    return await rooms.readers.ask(reads.job, asked.job_id)


async def list_jobs(rooms: Rooms, _: Session, asked: ListParams) -> JobPage:
    names = (
        "state", "queue", "job_type", "user_tag", "chain_group_id",
        "subject_key", "subject_prefix", "created_after", "created_before",
    )  # fmt: skip
    filters = {name: getattr(asked, name) for name in names if getattr(asked, name) not in (None, [])}
    listing = reads.Listing(filters, asked.sort == "newest", asked.limit, _cursor(asked.cursor))
    items, cursor = await rooms.readers.ask(reads.jobs, listing)
    return JobPage(items, None if cursor is None else str(cursor))


async def wait(rooms: Rooms, session: Session, asked: WaitParams) -> WaitResult:
    job_id, ended = await rooms.waiting.until_ended(asked.job_id, asked.timeout_ms)
    await session.turn()
    job = await rooms.readers.ask(reads.job, job_id)
    return WaitResult(ended or job.state in TERMINAL, job)


async def logs(rooms: Rooms, session: Session, asked: LogsParams) -> LogChunk:
    chunk = await rooms.output.read(asked)
    await session.turn()
    return chunk


async def cancel(rooms: Rooms, _: Session, asked: CancelParams) -> CancelResult:
    _go_on(rooms)
    return await rooms.waiting.cancel(selection(asked), asked.wait_ms)


def selection(asked: CancelParams) -> Cancel:
    names = ("job_id", "job_ids", "user_tag", "chain_group_id", "subject_key", "queue")
    given = {name: value for name in names if (value := getattr(asked, name)) is not None}
    if len(given) != 1:
        raise InvalidParams(
            f"exactly one of {', '.join(names)} is needed, {len(given)} are given - at `$`", "name one", path="$"
        )
    ((field, value),) = given.items()
    if field in ("job_id", "job_ids"):
        return Cancel(job_ids=(value,) if field == "job_id" else tuple(value), reason=asked.reason)
    return Cancel(field=field, value=value, reason=asked.reason)


async def subscribe(rooms: Rooms, session: Session, asked: SubscribeParams) -> Subscription:
    if session.following >= MAX_SUBSCRIPTIONS:
        raise TooManySubscriptions(f"this connection has {MAX_SUBSCRIPTIONS} subscriptions", "event.unsubscribe some")
    start = await rooms.feed.start(asked.since, asked.epoch)
    wanted = Filter(
        await _whole_id(rooms, asked.job_id), asked.queue, asked.user_tag,
        tuple(asked.event_types or ()), tuple(asked.levels or ()),
    )  # fmt: skip
    subscription_id = os.urandom(8).hex()
    heart = Heart(rooms.explainer, rooms.clock) if wanted.job_id else None
    task = asyncio.get_running_loop().create_task(follow(session, rooms.feed, subscription_id, wanted, start, heart))
    session.follow(subscription_id, task)
    return Subscription(subscription_id, start[0], rooms.feed.epoch)


async def unsubscribe(rooms: Rooms, session: Session, asked: UnsubscribeParams) -> UnsubscribeResult:
    return UnsubscribeResult(session.unfollow(asked.subscription_id))


async def emit(rooms: Rooms, _: Session, asked: EmitParams) -> EmitResult:
    _go_on(rooms)
    return await rooms.waiting.emit(Emit(asked.key, asked.value))


async def explain(rooms: Rooms, _: Session, asked: JobParams) -> Explanation:
    return await rooms.explainer.explain(asked.job_id)


async def machine(rooms: Rooms, _: Session, asked: Params) -> MachineView:
    return await rooms.machine.view()


async def activity(rooms: Rooms, _: Session, asked: ActivityParams) -> ActivityAck:
    return await rooms.machine.activity(asked.source)


async def get_template(rooms: Rooms, _: Session, asked: TemplateParams) -> TemplateView:
    return await rooms.readers.ask(catalogue.template, asked.template_id)


async def list_templates(rooms: Rooms, _: Session, asked: Params) -> TemplateList:
    return TemplateList(await rooms.readers.ask(catalogue.templates))


async def get_schedule(rooms: Rooms, _: Session, asked: GetScheduleParams) -> ScheduleView:
    """Its next times are found out in a thread: of a rare one that takes a while."""
    found = await rooms.readers.ask(catalogue.schedule, asked.schedule_id)
    when = (found.cron_expression, found.timezone, found.next_trigger_at, asked.upcoming)
    return msgspec.structs.replace(found, upcoming=await asyncio.to_thread(upcoming, *when))


async def list_schedules(rooms: Rooms, _: Session, asked: Params) -> ScheduleList:
    return ScheduleList(await rooms.readers.ask(catalogue.schedules))


async def list_events(rooms: Rooms, _: Session, asked: EventListParams) -> EventPage:
    cursor, gap = await rooms.feed.start(asked.since, asked.epoch)
    wanted = Filter(job_id=await _whole_id(rooms, asked.job_id), event_types=tuple(asked.event_types or ()))
    found: list[Event] = []
    for _page in range(MOST_PAGES):
        page = await rooms.feed.page(cursor, wanted, asked.limit - len(found))
        found += page.events
        gap, moved, cursor = gap or page.gap, page.cursor > cursor, page.cursor
        if not moved or page.gap or len(found) == asked.limit:
            break
    return EventPage(found, cursor, rooms.feed.epoch, gap)


async def list_queues(rooms: Rooms, _: Session, asked: Params) -> QueueList:
    counts = {stats.queue: stats for stats in await rooms.readers.ask(reads.stats)}
    rows = {row[0]: row for row in await rooms.readers.ask(reads.queue_rows)}
    paused = rows.pop(EVERY_QUEUE, None)
    queues = []
    for queue in sorted({"default", *counts, *rows, *rooms.limits.named}):
        _, paused_at, resume_at, *given = rows.get(queue, (queue, None, None, None, None, None))
        everywhere = paused is not None and paused[1] is not None
        stopped = paused_at is not None or everywhere
        resume_at = max(filter(None, (resume_at, paused[2])), default=None) if everywhere and paused else resume_at
        rules = rooms.limits.of(queue, QueueRules(*given))
        held = counts.get(queue)
        numbers = (held.queued, held.scheduled, held.running) if held else (0, 0, 0)
        queues.append(
            QueueView(
                queue, *numbers, rules.slots or 0, stopped, resume_at, rules.max_queued or 0, str(rules.on_running)
            )
        )
    return QueueList(queues)


async def health(rooms: Rooms, _: Session, asked: Params) -> Health:
    writer = rooms.writer
    parts: dict[str, Any] = {part.name: part.last for part in rooms.passes}
    parts["writer"] = {
        "last_commit_at": writer.last_commit_at, "batches": writer.batches,
        "waiting": len(rooms.commands), "trouble": writer.trouble,
    }  # fmt: skip
    parts["dispatcher"] = {"running": rooms.running(), "slots": rooms.limits.max_slots}
    parts["feed"] = {"sequence": rooms.feed.newest, "epoch": rooms.feed.epoch}
    parts["server"] = {"connections": len(rooms.connections)}
    status: Any = "degraded" if rooms.lifecycle.status == "ready" and writer.trouble else rooms.lifecycle.status
    uptime = int((rooms.clock.monotonic() - rooms.started) * 1000)
    return Health(status, VERSION, PROTOCOL, uptime, parts)


async def stats(rooms: Rooms, _: Session, asked: Params) -> Stats:
    wal = rooms.database.with_name(rooms.database.name + "-wal")
    system = {
        "db_bytes": _size(rooms.database),
        "wal_bytes": _size(wal),
        "rss_bytes": _rss(),
        "is_idle": rooms.machine.is_idle,
        "connections": len(rooms.connections),
        "running": rooms.running(),
        "slots": rooms.limits.max_slots,
        "sequence": rooms.feed.newest,
        "pid": os.getpid(),
    }
    return Stats(await rooms.readers.ask(reads.stats), system)


async def config(rooms: Rooms, _: Session, asked: Params) -> dict[str, Any]:
    return rooms.config


async def shutdown(rooms: Rooms, _: Session, asked: ShutdownParams) -> ShutdownAck:
    rooms.lifecycle.request_stop(asked.reason)
    return ShutdownAck(True)


async def initialize(rooms: Rooms, _: Session, asked: AnyParams) -> InitializeResult:
    limits = {
        "message_bytes": MAX_MESSAGE, "header_bytes": MAX_HEADER, "batch": MAX_BATCH,
        "in_flight": MAX_IN_FLIGHT, "connections": MAX_CONNECTIONS,
    }  # fmt: skip
    info = {"name": "semanticad", "version": VERSION}
    return InitializeResult({}, info, VERSION, PROTOCOL, rooms.feed.epoch, limits)


async def nothing(rooms: Rooms, _: Session, asked: AnyParams) -> None:
    return None


async def leave(rooms: Rooms, session: Session, asked: AnyParams) -> None:
    """Ends this connection, never the daemon."""
    session.close()


async def cancel_request(rooms: Rooms, session: Session, asked: AnyParams) -> None:
    session.cancel_request(asked.id)


def _go_on(rooms: Rooms) -> None:
    """For what writes and is not a single verb; those the connection refuses by itself."""
    if rooms.lifecycle.status == "stopping":
        raise Stopping("the daemon is stopping", "call again when it is back")


def _cursor(text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise InvalidParams("not a cursor of job.list - at `$.cursor`", "pass next_cursor as it came", path="$.cursor")
    return int(text)


async def _whole_id(rooms: Rooms, prefix: str | None) -> str | None:
    """The id a prefix stands for. Of a job that is pruned the events may still be kept, under its whole id."""
    if prefix is None:
        return None
    try:
        job_id, _ = await rooms.readers.ask(reads.state, prefix)
        return job_id
    except JobNotFound:
        whole = prefix.lower()
        kept = await rooms.readers.ask(reads.events, 0, Filter(job_id=whole), 1)
        if kept and len(whole) == 36:
            return whole
        raise


def _size(path: Path) -> int:
    """By stat alone: opening and closing the file in this process would drop SQLite's locks."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _rss() -> int | None:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
