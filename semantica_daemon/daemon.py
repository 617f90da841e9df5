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
from semantica_daemon.engine.attempt import RunDependencies, SpawnSettings
from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.dispatcher import Dispatcher
from semantica_daemon.engine.explain import Explainer
from semantica_daemon.engine.feed import Feed
from semantica_daemon.engine.handlers import Handlers
from semantica_daemon.engine.lifecycle import Lifecycle
from semantica_daemon.engine.machine import Machine, Rules, Signals
from semantica_daemon.engine.output import Output
from semantica_daemon.engine.passes import Pass, Wake
from semantica_daemon.engine.probes import Sources
from semantica_daemon.engine.readers import Readers, open_readers
from semantica_daemon.engine.scheduler import Scheduler
from semantica_daemon.engine.secrets import Secrets
from semantica_daemon.engine.supervisors import Supervisors
from semantica_daemon.engine.waiting import Waiting
from semantica_daemon.engine.writer import Writer
from semantica_daemon.errors import StartRefused
from semantica_daemon.lock import Held, locked
from semantica_daemon.model.admission import Admission
from semantica_daemon.model.machine import CurrentFacts
from semantica_daemon.model.outcome import SHUT_DOWN
from semantica_daemon.model.queue import limits
from semantica_daemon.paths import Paths
from semantica_daemon.processes.orphans import Identity, end_orphans
from semantica_daemon.processes.table import boot_id
from semantica_daemon.rpc.answers import Rooms
from semantica_daemon.rpc.server import Server
from semantica_daemon.store import reads
from semantica_daemon.store.database import Command, Database, connect
from semantica_daemon.store.migrate import migrate
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.lifecycle import nothing, started, stopping
from semantica_daemon.store.writes.recover import recover

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


class Daemon(NamedTuple):
    """A running daemon and the parts of it that its own end needs."""

    lifecycle: Lifecycle
    commands: CommandQueue
    writer: Writer
    feed: Feed
    machine: Machine
    dispatcher: Dispatcher
    run_dependencies: RunDependencies
    passes: list[Pass]
    server: Server

    async def open(self) -> None:
        """Listen, claim, and be ready."""
        await self.server.open()
        self.writer.claiming = True
        await self.commands.run(started, VERSION)
        self.lifecycle.status = "ready"

    @property
    def left_behind(self) -> int:
        return self.dispatcher.running

    async def close(self) -> None:
        """Stop claiming, end the runs, record their ends and close the database; a second call does nothing. When
        the writer has failed nothing can be recorded: the next start recovers."""
        if self.lifecycle.status == "stopping":
            return
        self.lifecycle.status = "stopping"
        self.writer.claiming = False
        self.server.close()
        if not self.writer.failed:
            await self._end_runs()
        self.server.hang_up()
        await self.writer.close()

    async def _end_runs(self) -> None:
        """Never waits longer than grace and margin: what could not be written by then is a crash to the next start."""
        commands = self.commands
        commands.submit(Command(stopping, self.lifecycle.reason), must_commit=True)
        grace_ms = self.run_dependencies.grace_ms
        self.dispatcher.stop_all()
        await self._wait_for({asyncio.create_task(self.dispatcher.until_idle())}, grace_ms + MARGIN_MS)
        await self.run_dependencies.supervisors.close()  # ends the rest, before their ends are recorded
        await self._wait_for({asyncio.create_task(self.dispatcher.until_idle())}, MARGIN_MS, True)
        left = self.dispatcher.unfinished()
        for attempt in left:
            log.warning("run_left_behind", job_id=attempt.claim.run.job_id)
        ends = [commands.run(finish, Finish(attempt.claim.run, SHUT_DOWN)) for attempt in left]
        ends.append(commands.run(nothing, None))
        await self._wait_for({asyncio.create_task(end) for end in ends}, MARGIN_MS, True)

    async def _wait_for(self, tasks: "set[asyncio.Task[Any]]", most_ms: int, even_now: bool = False) -> None:
        """For all of the tasks, for a time, or until a second request says now."""
        everything = asyncio.create_task(_all(tasks))
        now = asyncio.create_task(asyncio.Event().wait() if even_now else self.lifecycle.stop_now_requested())
        await asyncio.wait({everything, now}, timeout=most_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
        for task in (everything, now, *tasks):
            task.cancel()


async def _all(tasks: "set[asyncio.Task[Any]]") -> None:
    for task in tasks:
        await task


class Opened(NamedTuple):
    """What is opened before the parts are constructed."""

    lock: Held
    handlers: Handlers
    admission: Admission
    current: CurrentFacts
    database: Database
    readers: Readers


@asynccontextmanager
async def running(setting: Setting) -> AsyncIterator[Daemon]:
    """lock → database → readers → parts → writer → recovery → passes → server → ready, and back."""
    found = handlers.load(setting.config.handlers, setting.config.handler_path)
    with locked(setting.paths) as lock:
        arg_max = os.sysconf("SC_ARG_MAX")
        admission = Admission(found.payload_decoders(), environment.allowed(os.environ), arg_max)
        current = CurrentFacts()
        database = open_database(setting, admission, current)
        lock.note(setting.paths.database)
        async with open_readers(setting.paths.database) as readers, anyio.create_task_group() as tasks:
            daemon = assemble(setting, Opened(lock, found, admission, current, database, readers))
            tasks.start_soon(daemon.writer.work)
            await daemon.writer.look_at_clock()
            recovered = await daemon.commands.run(recover, await orphans_ended(setting, readers))
            if recovered.jobs:
                log.warning("recovered", jobs=len(recovered.jobs))
            for part in daemon.passes:
                tasks.start_soon(part.run)
            try:
                await daemon.open()
                yield daemon
            finally:
                with anyio.CancelScope(shield=True):
                    await daemon.close()
                    await daemon.run_dependencies.supervisors.close()
                    tasks.cancel_scope.cancel()


async def orphans_ended(setting: Setting, readers: Readers) -> frozenset[str]:
    """What runs of an earlier daemon have left is ended before anything is retried; the runs that will not end."""
    await asyncio.to_thread(supervisors.wait_until_alone, setting.paths.data / SUPERVISOR_LOCK)
    left = [Identity(*row) for row in await readers.ask(reads.orphans)]
    escaped = await asyncio.to_thread(end_orphans, left) if left else set()
    if escaped:
        log.error("runs_cannot_be_ended", runs=sorted(escaped))
    return frozenset(escaped)


def assemble(setting: Setting, opened: Opened) -> Daemon:
    """Each part is given the ones before it; the writer, which calls most of them, comes last but the server."""
    clock, readers = setting.clock, opened.readers
    commands, lifecycle = CommandQueue(), Lifecycle()
    feed = Feed(readers, opened.database.epoch, opened.database.sequence)
    dependencies = run_dependencies(setting, opened, commands, feed)
    dispatcher = Dispatcher(dependencies)
    machine, scheduler, passes = background(setting, opened, commands, dispatcher)
    event_log = logs.EventLog(setting.config.daemon.log_level)
    listeners = [feed.committed, dispatcher.committed, scheduler.committed, event_log.committed]
    writer = Writer(commands, opened.database, clock, boot_id(), listeners)
    allowed = limits(setting.config.slots, setting.config.queues)
    rooms = Rooms(
        commands=commands,
        writer=writer,
        readers=readers,
        feed=feed,
        admission=opened.admission,
        waiting=Waiting(readers, commands, feed),
        output=Output(readers, feed, dispatcher.watch_log),
        machine=machine,
        explainer=Explainer(readers, machine, allowed, clock),
        tokens=dependencies.run_tokens,
        clock=clock,
        limits=allowed,
        passes=passes,
        running=lambda: dispatcher.running,
        lifecycle=lifecycle,
        database=setting.paths.database,
        config=in_force(setting),
        started=clock.monotonic(),
        connections=set(),
    )
    server = Server(setting.paths.socket, rooms, opened.lock)
    passes.append(Pass("socket", heartbeat(server, writer, [dispatcher, *passes]), Wake(clock), clock))
    return Daemon(lifecycle, commands, writer, feed, machine, dispatcher, dependencies, passes, server)


def background(
    setting: Setting, opened: Opened, commands: CommandQueue, dispatcher: Dispatcher
) -> tuple[Machine, Scheduler, list[Pass]]:
    """The parts that act by themselves. Each wakes the other, so their wakes are constructed first."""
    clock, config = setting.clock, setting.config.machine
    scheduler_wake, machine_wake = Wake(clock), Wake(clock)
    rules = Rules(config.idle, config.power, config.idle_ms)
    sources = Sources(clock, lambda: dispatcher.running)
    signals = Signals(opened.current, machine_wake, scheduler_wake)
    machine = Machine(rules, sources, opened.readers, commands, signals, clock)
    scheduler = Scheduler(commands, clock, machine, scheduler_wake)
    passes = [
        Pass("scheduler", scheduler.step, scheduler_wake, clock),
        Pass("machine", machine.step, machine_wake, clock),
    ]
    return machine, scheduler, passes


def heartbeat(server: Server, writer: Writer, others: list[Dispatcher | Pass]) -> Callable[[], Awaitable[int]]:
    """The one step that runs every few seconds while nothing happens: it checks the socket, and whether the machine
    slept or its clock was set. So no other part has to wake up for that."""

    async def step() -> int:
        writer.notice_step()
        for part in others:
            part.check_clock()
        return await server.check()

    return step


def in_force(setting: Setting) -> dict[str, Any]:
    """What admin.config shows."""
    where = {name: paths.shown(path) for name, path in setting.paths._asdict().items()}
    return {"paths": where, **msgspec.to_builtins(setting.config)}


def run_dependencies(setting: Setting, opened: Opened, commands: CommandQueue, feed: Feed) -> RunDependencies:
    data, clock = setting.paths.data, setting.clock
    settings = SpawnSettings(
        home=os.path.expanduser("~"),
        workspaces=str(data / WORKSPACES),
        socket=str(setting.paths.socket),
        environment=environment.allowed(os.environ),
        boot_id=boot_id(),
        log_bytes=setting.config.limits.log_bytes,
    )
    return RunDependencies(
        handlers=opened.handlers,
        commands=commands,
        clock=clock,
        threads=ThreadPoolExecutor(setting.config.slots, "handler"),
        grace_ms=setting.config.daemon.grace_ms,
        supervisors=Supervisors(data / SUPERVISOR_LOCK, setting.open_files, clock, feed.nudge),
        secrets=Secrets(),
        spawn_settings=settings,
        run_tokens={},
    )


def open_database(setting: Setting, admission: Admission, current: CurrentFacts) -> Database:
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
    full = setting.config.daemon.durability == "full"
    return Database(connection, rules, setting.random, admission, current, full)
