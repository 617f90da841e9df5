"""The composition root: the only module that knows all parts. Nesting is lifecycle: opened last, closed first."""

import asyncio
import os
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
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
from semantica_daemon.engine.shutdown import end_runs
from semantica_daemon.engine.supervisors import Supervisors
from semantica_daemon.engine.waiting import Waiting
from semantica_daemon.engine.writer import Writer
from semantica_daemon.errors import StartRefused
from semantica_daemon.lock import HomeLock, locked
from semantica_daemon.model.admission import Admission
from semantica_daemon.model.machine import CurrentFacts
from semantica_daemon.model.queue import Limits, limits
from semantica_daemon.paths import Paths
from semantica_daemon.processes import orphans
from semantica_daemon.processes.table import boot_id
from semantica_daemon.rpc.binding import MethodTable
from semantica_daemon.rpc.calls import Services
from semantica_daemon.rpc.connection import OpenConnections
from semantica_daemon.rpc.connections import Connections
from semantica_daemon.rpc.methods.admin import AdminMethods, HealthSources
from semantica_daemon.rpc.methods.event import EventMethods
from semantica_daemon.rpc.methods.job import JobMethods
from semantica_daemon.rpc.methods.machine import MachineMethods
from semantica_daemon.rpc.methods.protocol import ProtocolMethods
from semantica_daemon.rpc.methods.queue import QueueMethods
from semantica_daemon.rpc.methods.run import RunMethods
from semantica_daemon.rpc.methods.schedule import ScheduleMethods
from semantica_daemon.rpc.methods.template import TemplateMethods
from semantica_daemon.rpc.server import Server
from semantica_daemon.rpc.socket_file import SocketFile
from semantica_daemon.store import reads
from semantica_daemon.store.database import Database, connect
from semantica_daemon.store.migrate import migrate
from semantica_daemon.store.writes.lifecycle import started
from semantica_daemon.store.writes.recover import recover

log = structlog.get_logger()

SUPERVISOR_LOCK = "supervisor.lock"
WORKSPACES = "workspaces"


class Setting(Struct, frozen=True):
    """What a daemon is made from; tests give their own clock and randomness. `open_files`: the limit of its jobs."""

    paths: Paths
    config: Config
    clock: Clock
    random: Random
    open_files: int = 1024

    @property
    def limits(self) -> Limits:
        return limits(self.config.slots, self.config.queues)


class OpenResources(NamedTuple):
    """What is opened before the parts are constructed."""

    lock: HomeLock
    handlers: Handlers
    admission: Admission
    current: CurrentFacts
    database: Database
    readers: Readers


class Wakes(NamedTuple):
    scheduler: Wake
    machine: Wake
    socket: Wake


class Engine(NamedTuple):
    """The parts below the server."""

    lifecycle: Lifecycle
    commands: CommandQueue
    wakes: Wakes
    feed: Feed
    run_dependencies: RunDependencies
    dispatcher: Dispatcher
    machine: Machine
    scheduler: Scheduler
    writer: Writer


class Daemon(NamedTuple):
    """A running daemon."""

    lifecycle: Lifecycle
    commands: CommandQueue
    feed: Feed
    run_dependencies: RunDependencies
    dispatcher: Dispatcher
    machine: Machine
    writer: Writer
    server: Server
    passes: list[Pass]

    async def open(self) -> None:
        """Opens the socket, enables claims, emits daemon.started."""
        await self.server.open()
        self.writer.claiming = True
        await self.commands.run(started, VERSION)
        self.lifecycle.status = "ready"

    async def close(self) -> None:
        """Ends the runs, records their ends and closes the database; a second call does nothing. When the writer has
        failed nothing can be recorded: the next start recovers."""
        if self.lifecycle.status == "stopping":
            return
        self.lifecycle.status = "stopping"
        self.writer.claiming = False
        self.server.close()
        if not self.writer.failed:
            await end_runs(self.lifecycle, self.commands, self.dispatcher, self.run_dependencies)
        self.server.hang_up()
        await self.writer.close()


@asynccontextmanager
async def running(setting: Setting) -> AsyncIterator[Daemon]:
    """Starts in this order, and closes in the reverse one: lock, database, readers, parts, writer, recovery, passes,
    server."""
    found = handlers.load(setting.config.handlers, setting.config.handler_path)
    with locked(setting.paths) as lock:
        inherited, arg_max = environment.allowed(os.environ), os.sysconf("SC_ARG_MAX")
        admission, current = Admission(found.payload_decoders(), inherited, arg_max), CurrentFacts()
        database = open_database(setting, admission, current)
        lock.watch(Path(setting.paths.database))
        async with open_readers(Path(setting.paths.database)) as readers, anyio.create_task_group() as tasks:
            daemon = assemble(setting, OpenResources(lock, found, admission, current, database, readers))
            tasks.start_soon(daemon.writer.work)
            await daemon.writer.check_clock_at_start()
            recovered = await daemon.commands.run(recover, await end_orphans(setting, readers))
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


async def end_orphans(setting: Setting, readers: Readers) -> frozenset[str]:
    """Ends the processes of an earlier daemon's runs, before anything is retried. Returns the runs that do not end."""
    await asyncio.to_thread(supervisors.wait_until_alone, Path(setting.paths.data, SUPERVISOR_LOCK))
    left = [orphans.Identity(*row) for row in await readers.query(reads.orphans)]
    escaped = await asyncio.to_thread(orphans.end_orphans, left) if left else set()
    if escaped:
        log.error("runs_cannot_be_ended", runs=sorted(escaped))
    return frozenset(escaped)


def assemble(setting: Setting, opened: OpenResources) -> Daemon:
    """Each part is given the parts before it by its constructor; nothing is wired afterwards."""
    clock, engine = setting.clock, build_engine(setting, opened)
    open_connections: OpenConnections = set()
    services = Services(bind_methods(setting, opened, engine, open_connections), engine.commands, engine.lifecycle)
    connections = Connections(services, open_connections)
    server = Server(SocketFile(Path(setting.paths.socket)), connections, opened.lock, clock)
    scheduler = Pass(engine.scheduler.step, engine.wakes.scheduler, clock)
    machine = Pass(engine.machine.step, engine.wakes.machine, clock)
    check = check_every_few_seconds(server, engine.writer, [engine.dispatcher, scheduler, machine])
    passes = [scheduler, machine, Pass(check, engine.wakes.socket, clock)]
    return Daemon(
        engine.lifecycle, engine.commands, engine.feed, engine.run_dependencies, engine.dispatcher, engine.machine,
        engine.writer, server, passes,
    )  # fmt: skip


def build_engine(setting: Setting, opened: OpenResources) -> Engine:
    """The writer comes last, because it calls the others after each commit."""
    clock, readers, config = setting.clock, opened.readers, setting.config
    lifecycle, commands = Lifecycle(), CommandQueue()
    wakes = Wakes(Wake("scheduler", clock), Wake("machine", clock), Wake("socket", clock))
    feed = Feed(readers, opened.database.epoch, opened.database.sequence)
    runs = run_dependencies(setting, opened, commands, feed)
    dispatcher = Dispatcher(runs)
    rules = Rules(config.machine.idle, config.machine.power, config.machine.idle_ms)
    sources = Sources(clock, lambda: dispatcher.running)
    signals = Signals(opened.current, wakes.machine, wakes.scheduler)
    machine = Machine(rules, sources, readers, commands, signals, clock)
    scheduler = Scheduler(commands, clock, machine, wakes.scheduler)
    event_log = logs.EventLog(config.daemon.log_level)
    listeners = [feed.committed, dispatcher.committed, scheduler.committed, event_log.committed]
    writer = Writer(commands, opened.database, clock, boot_id(), listeners)
    return Engine(lifecycle, commands, wakes, feed, runs, dispatcher, machine, scheduler, writer)


def bind_methods(
    setting: Setting, opened: OpenResources, engine: Engine, open_connections: OpenConnections
) -> MethodTable:
    clock, readers, feed, machine = setting.clock, opened.readers, engine.feed, engine.machine
    waiting = Waiting(readers, engine.commands, feed)
    output = Output(readers, feed, engine.dispatcher.watch_log)
    explainer = Explainer(readers, machine, setting.limits, clock)
    observed = HealthSources(
        engine.wakes, engine.writer, engine.commands, feed, machine, lambda: engine.dispatcher.running,
        setting.limits.max_slots, open_connections,
    )  # fmt: skip
    families = (
        JobMethods(opened.admission, readers, waiting, output, explainer),
        RunMethods(engine.run_dependencies.run_tokens),
        EventMethods(feed, readers, waiting, explainer, clock),
        TemplateMethods(readers),
        ScheduleMethods(readers),
        MachineMethods(machine),
        QueueMethods(readers, setting.limits),
        AdminMethods(observed, readers, Path(setting.paths.database), shown_config(setting), engine.lifecycle, clock),
        ProtocolMethods(feed.epoch),
    )
    return MethodTable({name: binding for family in families for name, binding in family.bindings().items()})


def check_every_few_seconds(
    server: Server, writer: Writer, parts: list[Dispatcher | Pass]
) -> Callable[[], Awaitable[int]]:
    """The one step that runs while nothing happens: it checks the socket, and whether the machine slept or its clock
    was set, so that no other part has to wake up for that."""

    async def step() -> int:
        writer.check_clock()
        for part in parts:
            part.check_clock()
        return await server.check()

    return step


def shown_config(setting: Setting) -> dict[str, Any]:
    """The result of admin.config."""
    where = {name: paths.printable(path) for name, path in setting.paths.as_dict().items()}
    return {"paths": where, **msgspec.to_builtins(setting.config)}


def run_dependencies(setting: Setting, opened: OpenResources, commands: CommandQueue, feed: Feed) -> RunDependencies:
    data, clock = Path(setting.paths.data), setting.clock
    settings = SpawnSettings(
        home=os.path.expanduser("~"),
        workspaces=str(data / WORKSPACES),
        socket=setting.paths.socket,
        environment={os.fsencode(k): os.fsencode(v) for k, v in environment.allowed(os.environ).items()},
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
        connection = connect(Path(setting.paths.database))
        applied = migrate(connection, setting.clock.now())
    except sqlite3.Error as error:
        is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
        hint = "another process holds it; try again" if is_busy else str(error)
        raise StartRefused(f"{setting.paths.database} cannot be opened: {hint}", 75 if is_busy else 78) from error
    if applied:
        log.info("migrated", versions=applied)
    always_synced = setting.config.daemon.durability == "full"
    return Database(connection, setting.limits, setting.random, admission, current, always_synced)
