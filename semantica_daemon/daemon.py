"""The composition root, the only module that knows all parts. Nesting is lifecycle: opened last, closed first."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple

import anyio
import msgspec
import structlog
from msgspec import Struct

from semantica_daemon import VERSION, environment, logs, paths
from semantica_daemon.clock import Clock
from semantica_daemon.config import Config
from semantica_daemon.engine import handlers, supervisors
from semantica_daemon.engine.attempt import Housing, Workshop
from semantica_daemon.engine.dispatcher import Dispatcher
from semantica_daemon.engine.explain import Explainer
from semantica_daemon.engine.feed import Feed
from semantica_daemon.engine.handlers import Handlers
from semantica_daemon.engine.intake import Intake
from semantica_daemon.engine.machine import Machine, Rules
from semantica_daemon.engine.output import Output
from semantica_daemon.engine.passes import Pass
from semantica_daemon.engine.probes import Sources
from semantica_daemon.engine.readers import Readers, open_readers
from semantica_daemon.engine.scheduler import Scheduler
from semantica_daemon.engine.secrets import Secrets
from semantica_daemon.engine.supervisors import Supervisors
from semantica_daemon.engine.waiting import Waiting
from semantica_daemon.engine.writer import Writer
from semantica_daemon.errors import StartRefused
from semantica_daemon.lock import Held, locked
from semantica_daemon.model.machine import Facts
from semantica_daemon.model.outcome import SHUT_DOWN
from semantica_daemon.model.queue import limits
from semantica_daemon.paths import Paths
from semantica_daemon.rpc.answers import Rooms
from semantica_daemon.rpc.server import Server
from semantica_daemon.store import reads
from semantica_daemon.store.database import Command, Committed, Database, connect
from semantica_daemon.store.migrate import migrate
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.lifecycle import nothing, started, stopping
from semantica_daemon.store.writes.recover import recover
from semantica_daemon.supervisor import processes
from semantica_daemon.supervisor.processes import Identity

log = structlog.get_logger()

# Past the grace period, for the ends of runs to be written.
MARGIN_MS = 500
SUPERVISOR_LOCK = "supervisor.lock"
WORKSPACES = "workspaces"


class Setting(Struct, frozen=True):
    """What a daemon is made from; tests give their own clock and randomness. `open_files` is for what it runs."""

    paths: Paths
    config: Config
    clock: Clock
    random: Random
    open_files: int = 1024


class Daemon:
    """A running daemon: `rooms` to talk to, `stop` to end it (a second time: at once)."""

    def __init__(self, rooms: Rooms, dispatcher: Dispatcher, server: Server, shop: Workshop) -> None:
        self.rooms = rooms
        self._dispatcher = dispatcher
        self._server = server
        self._shop = shop
        self._reason = "stopping"
        self._stop = asyncio.Event()
        self._now = asyncio.Event()

    async def open(self) -> None:
        """Listen, claim, and say that it is ready."""
        await self._server.open()
        self.rooms.writer.claiming = True
        await self.rooms.writer.run(started, VERSION)
        self.rooms.status = "ready"

    def stop(self, reason: str) -> None:
        if self._stop.is_set():
            self._now.set()
            return
        log.info("stopping", reason=reason)
        self._reason = reason
        self._stop.set()

    @property
    def left_behind(self) -> int:
        return self._dispatcher.running

    async def until_stopped(self) -> None:
        await self._stop.wait()

    async def close(self) -> None:
        """Wind down and close the database; a second call does nothing."""
        if self.rooms.status == "stopping":
            return
        await self._wind_down()
        await self.rooms.writer.close()

    async def _wind_down(self) -> None:
        """Refuse, stop claiming, ask the runs to end, give them their grace, write how each has ended. When the
        writer itself has failed there is nothing to write with: the next start recovers."""
        self.rooms.status = "stopping"
        self.rooms.writer.claiming = False
        self._server.close()
        if not self.rooms.writer.failed:
            await self._end_runs()
        self._server.hang_up()

    async def _end_runs(self) -> None:
        """Never waits longer than grace and margin: what could not be written by then is a crash to the next start."""
        writer = self.rooms.writer
        writer.submit(Command(stopping, self._reason), ours=True)
        self._dispatcher.stop_all()
        await self._wait_for({asyncio.create_task(self._dispatcher.until_idle())}, self._shop.grace_ms + MARGIN_MS)
        await self._shop.supervisors.close()  # which ends what is left, before it is written that it has ended
        await self._wait_for({asyncio.create_task(self._dispatcher.until_idle())}, MARGIN_MS, True)
        left = self._dispatcher.left()
        for attempt in left:
            log.warning("run_left_behind", job_id=attempt.claim.run.job_id)
        ends = [writer.run(finish, Finish(attempt.claim.run, SHUT_DOWN)) for attempt in left]
        await self._wait_for({asyncio.create_task(end) for end in [*ends, writer.run(nothing, None)]}, MARGIN_MS, True)

    async def _wait_for(self, tasks: "set[asyncio.Task[Any]]", most_ms: int, even_now: bool = False) -> None:
        """For all of the tasks, for a time, or until a second signal says now."""
        everything = asyncio.create_task(_all(tasks))
        now = asyncio.create_task(asyncio.Event().wait() if even_now else self._now.wait())
        await asyncio.wait({everything, now}, timeout=most_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
        for task in (everything, now, *tasks):
            task.cancel()


async def _all(tasks: "set[asyncio.Task[Any]]") -> None:
    for task in tasks:
        await task


@asynccontextmanager
async def running(setting: Setting) -> AsyncIterator[Daemon]:
    """lock → migrate → database → writer → recovery → scheduler, dispatcher → server → ready, and back."""
    found = handlers.load(setting.config.handlers, setting.config.handler_path)
    with locked(setting.paths) as held:
        intake = Intake(found, environment.allowed(os.environ))
        database = open_database(setting, intake)
        held.note(setting.paths.database)
        async with open_readers(setting.paths.database) as readers, anyio.create_task_group() as tasks:
            writer = Writer(database, setting.clock, processes.boot_id())
            tasks.start_soon(writer.work)
            await writer.look_at_clock()
            data = setting.paths.data
            minder = Supervisors(data / SUPERVISOR_LOCK, data / WORKSPACES, setting.open_files)
            recovered = await writer.run(recover, await orphans_ended(setting, readers))
            if recovered.jobs:
                log.warning("recovered", jobs=len(recovered.jobs))
            daemon = assemble(setting, Parts(database, writer, readers, found, held, minder, intake))
            for part in daemon.rooms.passes:
                tasks.start_soon(part.run)
            try:
                await daemon.open()
                yield daemon
            finally:
                with anyio.CancelScope(shield=True):
                    await daemon.close()
                    await minder.close()
                    tasks.cancel_scope.cancel()


async def orphans_ended(setting: Setting, readers: Readers) -> frozenset[str]:
    """What runs of an earlier daemon have left is ended before anything is retried; the runs that will not end."""
    await asyncio.to_thread(supervisors.until_alone, setting.paths.data / SUPERVISOR_LOCK)
    left = [Identity(*row) for row in await readers.ask(reads.orphans)]
    escaped = await asyncio.to_thread(processes.end_orphans, left) if left else set()
    if escaped:
        log.error("runs_cannot_be_ended", runs=sorted(escaped))
    return frozenset(escaped)


class Parts(NamedTuple):
    """What was opened before the rest can be put together."""

    database: Database
    writer: Writer
    readers: Readers
    handlers: Handlers
    held: Held
    supervisors: Supervisors
    intake: Intake


def assemble(setting: Setting, parts: Parts) -> Daemon:
    database, writer, readers, _, held, _, intake = parts
    feed = Feed(readers, database.epoch, database.sequence)
    shop = workshop(setting, parts, feed)
    dispatcher = Dispatcher(shop)
    time = timekeeping(setting, parts, dispatcher)
    allowed = limits(setting.config.slots, setting.config.queues)
    rooms = Rooms(
        writer=writer,
        readers=readers,
        feed=feed,
        intake=intake,
        waiting=Waiting(readers, writer, feed),
        output=Output(readers, feed, dispatcher.watch),
        machine=time.machine,
        explainer=Explainer(readers, time.machine, allowed, setting.clock),
        tokens=shop.tokens,
        clock=setting.clock,
        limits=allowed,
        passes=[time.scheduler, time.watch],
        running=lambda: dispatcher.running,
        shutdown=lambda reason: daemon.stop(reason),
        database=setting.paths.database,
        config=in_force(setting),
        started=setting.clock.monotonic(),
        connections=set(),
    )
    server = Server(setting.paths.socket, rooms, held)
    rooms.passes.append(Pass("socket", beat(server, writer, [dispatcher, *rooms.passes]), setting.clock))
    daemon = Daemon(rooms, dispatcher, server, shop)

    told = logs.EventLog(setting.config.daemon.log_level)
    writer.on_commit += [feed.committed, dispatcher.committed, time.committed, told.committed]
    return daemon


class Timekeeping(NamedTuple):
    """What happens by itself: when something is due, and when the machine is as somebody needs it."""

    machine: Machine
    scheduler: Pass
    watch: Pass

    def committed(self, committed: Committed) -> None:
        if committed.due is not None:
            self.scheduler.wake_by(committed.due)


def timekeeping(setting: Setting, parts: Parts, dispatcher: Dispatcher) -> Timekeeping:
    """Who waits for the machine wakes its watch; what that finds reaches the claims, and wakes the scheduler."""
    clock, machine = setting.clock, setting.config.machine
    rules = Rules(machine.idle, machine.power, machine.idle_ms)
    found = Machine(rules, Sources(clock, lambda: dispatcher.running), clock, parts.readers, parts.writer)
    scheduler = Pass("scheduler", Scheduler(parts.writer, clock, found.needed).step, clock)
    watch = Pass("machine", found.step, clock)

    def publish(facts: Facts) -> None:
        parts.database.given.facts = facts

    publish(found.facts)
    found.publish, found.gained, found.wake_by = publish, scheduler.wake, watch.wake_by
    return Timekeeping(found, scheduler, watch)


def beat(server: Server, writer: Writer, others: list[Dispatcher | Pass]) -> Callable[[], Awaitable[int]]:
    """The one thing that goes on while nothing happens, every few seconds: the socket is looked after, and whether the
    machine slept or its clock was set. So nobody else has to wake up for that."""

    async def step() -> int:
        writer.notice_step()
        for part in others:
            part.look_at_clock()
        return await server.check()

    return step


def in_force(setting: Setting) -> dict[str, Any]:
    """What admin.config shows."""
    where = {name: paths.shown(path) for name, path in setting.paths._asdict().items()}
    return {"paths": where, **msgspec.to_builtins(setting.config)}


def workshop(setting: Setting, parts: Parts, feed: Feed) -> Workshop:
    housing = Housing(
        home=os.path.expanduser("~"),
        workspaces=str(setting.paths.data / WORKSPACES),
        socket=str(setting.paths.socket),
        environment=environment.allowed(os.environ),
        boot_id=processes.boot_id(),
        log_bytes=setting.config.limits.log_bytes,
    )
    return Workshop(
        handlers=parts.handlers,
        writer=parts.writer,
        clock=setting.clock,
        threads=ThreadPoolExecutor(setting.config.slots, "handler"),
        grace_ms=setting.config.daemon.grace_ms,
        supervisors=parts.supervisors,
        secrets=Secrets(),
        housing=housing,
        tokens={},
        nudge=feed.nudge,
    )


def open_database(setting: Setting, intake: Intake) -> Database:
    try:
        connection = connect(setting.paths.database)
        applied = migrate(connection, setting.clock.now())
    except sqlite3.Error as error:
        held = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
        hint = "another process holds it; try again" if held else str(error)
        raise StartRefused(f"{setting.paths.database} cannot be opened: {hint}", 75 if held else 78) from error
    if applied:
        log.info("migrated", versions=applied)
    rules = limits(setting.config.slots, setting.config.queues)
    return Database(connection, rules, setting.random, intake.admit, setting.config.daemon.durability == "full")
