"""The composition root, the only module that knows all parts: `running` opens them in order, `close` ends them."""

import asyncio
import os
import socket
import sqlite3
from collections.abc import AsyncIterator
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
from semantica_daemon.engine.attachments import Attachments
from semantica_daemon.engine.attempt import RunDependencies, SpawnSettings
from semantica_daemon.engine.claims import ClaimDependencies, WorkerClaims
from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.dispatcher import Dispatcher
from semantica_daemon.engine.explain import Explainer
from semantica_daemon.engine.feed import Feed
from semantica_daemon.engine.handlers import Handlers
from semantica_daemon.engine.lifecycle import Lifecycle
from semantica_daemon.engine.machine import Machine, Signals
from semantica_daemon.engine.output import Output
from semantica_daemon.engine.passes import Pass, Wake
from semantica_daemon.engine.probes import Sources
from semantica_daemon.engine.readers import Readers, open_readers
from semantica_daemon.engine.removals import Removals
from semantica_daemon.engine.reservations import ReservationCalls
from semantica_daemon.engine.scheduler import Scheduler
from semantica_daemon.engine.secrets import Secrets
from semantica_daemon.engine.selections import Selections
from semantica_daemon.engine.shutdown import end_runs
from semantica_daemon.engine.supervisors import Supervisors
from semantica_daemon.engine.waiting import Waiting
from semantica_daemon.engine.writer import Writer
from semantica_daemon.errors import StartRefused
from semantica_daemon.lock import HomeLock, locked
from semantica_daemon.model.admission import Admission
from semantica_daemon.model.machine import CurrentFacts
from semantica_daemon.model.queue import MOST_SLOTS, Limits, limits
from semantica_daemon.paths import Paths
from semantica_daemon.processes import orphans
from semantica_daemon.processes.cgroups import CgroupRoot
from semantica_daemon.processes.table import boot_id
from semantica_daemon.reload import Change, Reload
from semantica_daemon.rpc.binding import Method, bind
from semantica_daemon.rpc.calls import Services
from semantica_daemon.rpc.connection import OpenConnections
from semantica_daemon.rpc.methods import group, job, machine, protocol, queue, reservation, schedule, template
from semantica_daemon.rpc.methods.admin import AdminMethods
from semantica_daemon.rpc.methods.attach import AttachMethods
from semantica_daemon.rpc.methods.editing import EditingMethods
from semantica_daemon.rpc.methods.event import EventMethods
from semantica_daemon.rpc.methods.execute import ExecuteMethods
from semantica_daemon.rpc.methods.run import RunMethods
from semantica_daemon.rpc.methods.worker import WorkerMethods
from semantica_daemon.rpc.server import Server
from semantica_daemon.rpc.socket_file import SocketFile
from semantica_daemon.store import reads
from semantica_daemon.store.database import Database, connect
from semantica_daemon.store.epoch import mark_open
from semantica_daemon.store.migrate import migrate
from semantica_daemon.store.writes.environments import tidy_at_start
from semantica_daemon.store.writes.fire import fire_at_reboot
from semantica_daemon.store.writes.lifecycle import reloaded, started
from semantica_daemon.store.writes.queues import use_limits
from semantica_daemon.store.writes.recover import recover
from semantica_daemon.store.writes.reservations import recover_reservation
from semantica_daemon.systemd import Notifier
from semantica_daemon.wire.admin import ConfigParams

log = structlog.get_logger()

SUPERVISOR_LOCK = "supervisor.lock"
WORKSPACES = "workspaces"


class Setting(Struct, frozen=True):
    """What a daemon is made from; tests give their own clock and randomness. `open_files`: the limit of its jobs.
    `inherited`: the socket that systemd listens on."""

    paths: Paths
    config: Config
    clock: Clock
    random: Random
    open_files: int = 1024
    notifier: Notifier = Notifier()
    inherited: socket.socket | None = None
    cgroups: CgroupRoot = CgroupRoot()

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


class Daemon:
    """Each part is given the parts before it by its constructor; nothing is wired afterwards."""

    def __init__(self, setting: Setting, opened: OpenResources) -> None:
        clock, config, readers = setting.clock, setting.config, opened.readers
        self.lifecycle, self.commands = Lifecycle(), CommandQueue()
        self.feed = Feed(readers, opened.database.epoch, opened.database.sequence)
        self.run_dependencies = run_dependencies(setting, opened, self.commands, self.feed)
        self.dispatcher = Dispatcher(self.run_dependencies)
        self._wakes = [Wake(name, clock) for name in ("scheduler", "machine", "removals", "socket")]
        wake_scheduler, wake_machine, wake_removals, wake_socket = self._wakes
        signals = Signals(opened.current, self.commands, wake_machine, wake_scheduler)
        sources = Sources(clock, self._running)
        self.machine = Machine(config.machine, sources, readers, signals, clock)
        scheduler = Scheduler(self.commands, clock, self.machine, wake_scheduler)
        self._event_log = logs.EventLog(config.daemon.log_level)
        claiming = ClaimDependencies(self.commands, readers, self.run_dependencies.secrets, self.lifecycle, clock)
        self.claims = WorkerClaims(claiming, opened.database.next_external_job, wake_scheduler)
        listeners = [self.feed.committed, self.dispatcher.committed, scheduler.committed, self._event_log.committed]
        listeners.append(self.claims.committed)
        self._database = opened.database
        self.writer = Writer(self.commands, opened.database, clock, boot_id(), listeners)
        self.reload = Reload(Path(setting.paths.config), config, self._use)
        self._connections: OpenConnections = set()
        services = Services(self._bind_methods(setting, opened), self.commands, self.writer, self.lifecycle)
        file = SocketFile(Path(setting.paths.socket), setting.inherited)
        self.server = Server(file, services, self._connections, opened.lock, clock)
        self._notifier, self._clock = setting.notifier, clock
        removals = Removals(readers, self.commands, Path(setting.paths.data, WORKSPACES), clock)
        self.passes = [
            Pass(scheduler.step, wake_scheduler, clock),
            Pass(self.machine.step, wake_machine, clock),
            Pass(removals.step, wake_removals, clock),
            Pass(self._check, wake_socket, clock),
        ]

    def _bind_methods(self, setting: Setting, opened: OpenResources) -> dict[str, Method]:
        clock, readers, limits = setting.clock, opened.readers, opened.database.limits
        waiting = Waiting(readers, self.commands, self.feed)
        reservations = ReservationCalls(readers, self.commands, self.feed)
        log_root = self.run_dependencies.spawn_settings.log_root
        output = Output(readers, self.feed, self.dispatcher.command, log_root)
        explainer = Explainer(readers, self.machine, limits, clock, self.claims)
        attachments = self.run_dependencies.attachments
        enqueuing = job.Enqueuing(opened.admission, attachments)
        where = {name: paths.printable(path) for name, path in setting.paths.as_dict().items()}

        async def get_config(params: ConfigParams) -> dict[str, Any]:
            changed = await self.reload.reload() if params.reload else []
            return {"paths": where, **msgspec.to_builtins(self.reload.in_force), "file": self.reload.file(changed)}

        about = AdminMethods(
            wakes=self._wakes, writer=self.writer, commands=self.commands, feed=self.feed, machine=self.machine,
            running=self._running, limits=limits, connections=self._connections, readers=readers,
            database=Path(setting.paths.database), get_config=get_config, cgroups=setting.cgroups,
            lifecycle=self.lifecycle, clock=clock, started=clock.monotonic(),
        )  # fmt: skip
        return bind(
            {
                **job.bindings(enqueuing, readers, waiting, output, explainer),
                **ExecuteMethods(enqueuing, reservations, waiting, readers).bindings(),
                **EditingMethods(Selections(readers, self.commands), self._wakes[2]).bindings(),
                **AttachMethods(attachments).bindings(),
                **RunMethods(self.run_dependencies.run_tokens, self._grace_ms).bindings(),
                **WorkerMethods(self.claims, readers, clock, self._grace_ms).bindings(),
                **EventMethods(self.feed, readers, waiting, explainer, clock).bindings(),
                **template.bindings(readers),
                **schedule.bindings(readers),
                **machine.bindings(self.machine),
                **queue.bindings(readers, limits),
                **group.bindings(readers, waiting),
                **reservation.bindings(reservations, readers),
                **about.bindings(),
                **protocol.bindings(self.feed.epoch),
            }
        )

    async def _use(self, change: Change) -> None:
        """Gives each part the settings that a running daemon can change (`reload.LIVE`)."""
        new, runs = change.config, self.run_dependencies
        runs.grace_ms = new.daemon.grace_ms
        runs.spawn_settings = msgspec.structs.replace(runs.spawn_settings, log_bytes=new.limits.log_bytes)
        logs.set_level(new.daemon.log_level)
        self._event_log.set_level(new.daemon.log_level)
        self._database.always_synced = new.daemon.durability == "full"
        self.machine.change_rules(new.machine)
        await self.commands.run(use_limits, limits(new.slots, new.queues))
        await self.commands.run(reloaded, {"changed": change.changed, "needs_restart": change.needs_restart})

    def _grace_ms(self) -> int:
        return self.run_dependencies.grace_ms

    def _running(self) -> int:
        return self.dispatcher.running

    async def _check(self) -> int:
        """The one step that runs while nothing happens: it checks the socket, and whether the machine slept or its
        clock was set, so that no other part has to wake up for that."""
        self.writer.check_clock()
        self.dispatcher.check_clock()
        for part in self.passes:
            part.check_clock()
        due = await self.server.check()
        self._notifier.alive(self._running())
        every_ms = self._notifier.every_ms
        return due if every_ms is None else min(due, self._clock.now() + every_ms)

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
        secret_words, current = setting.config.daemon.secret_words, CurrentFacts()
        controllers = setting.cgroups.controllers
        admission = Admission(found.payload_decoders(), inherited, arg_max, secret_words, controllers)
        database = open_database(setting, admission, current)
        lock.watch(Path(setting.paths.database))
        async with open_readers(Path(setting.paths.database)) as readers, anyio.create_task_group() as tasks:
            daemon = Daemon(setting, OpenResources(lock, found, admission, current, database, readers))
            tasks.start_soon(daemon.writer.work)
            await daemon.writer.check_clock_at_start()
            recovered = await daemon.commands.run(recover, await end_orphans(setting, readers))
            await daemon.commands.run(recover_reservation, None)
            await daemon.commands.run(tidy_at_start, None)
            await daemon.commands.run(fire_at_reboot, None)
            if recovered:
                log.warning("recovered", jobs=len(recovered))
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
    root = setting.cgroups.path
    escaped = await asyncio.to_thread(orphans.end_orphans, left, cgroup_root=root) if left else set()
    if escaped:
        log.error("runs_cannot_be_ended", runs=sorted(escaped))
    return frozenset(escaped)


def run_dependencies(setting: Setting, opened: OpenResources, commands: CommandQueue, feed: Feed) -> RunDependencies:
    data, clock = Path(setting.paths.data), setting.clock
    base, daemon_variables = environment.allowed(os.environ), setting.paths.job_variables()
    socket = {"SEMANTICA_SOCKET": setting.paths.socket}
    leads_here = paths.find(base | socket) == setting.paths  # the folders then need no variables: each costs every run
    settings = SpawnSettings(
        home=os.path.expanduser("~"),
        workspaces=str(data / WORKSPACES),
        environment=encoded(base | (socket if leads_here else daemon_variables)),
        daemon_variables=encoded(daemon_variables),
        boot_id=boot_id(),
        log_bytes=setting.config.limits.log_bytes,
        cgroups=setting.cgroups,
        log_root="" if environment.is_text(setting.paths.data) else f"{data}/",
    )
    return RunDependencies(
        handlers=opened.handlers,
        commands=commands,
        clock=clock,
        threads=ThreadPoolExecutor(MOST_SLOTS, "handler"),  # as many as there are slots are used
        grace_ms=setting.config.daemon.grace_ms,
        supervisors=Supervisors(data / SUPERVISOR_LOCK, setting.open_files, clock, feed.nudge),
        secrets=Secrets(),
        spawn_settings=settings,
        run_tokens={},
        attachments=Attachments(),
        readers=opened.readers,
    )


def encoded(variables: dict[str, str]) -> dict[bytes, bytes]:
    return {os.fsencode(name): os.fsencode(value) for name, value in variables.items()}


def open_database(setting: Setting, admission: Admission, current: CurrentFacts) -> Database:
    try:
        connection = connect(Path(setting.paths.database))
        applied = migrate(connection, setting.clock.now())
        may_have_lost = mark_open(connection, boot_id())
    except sqlite3.Error as error:
        is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
        hint = "another process holds it; try again" if is_busy else str(error)
        raise StartRefused(f"{setting.paths.database} cannot be opened: {hint}", 75 if is_busy else 78) from error
    if applied:
        log.info("migrated", versions=applied)
    if may_have_lost:
        log.warning("commits_may_be_lost", reason="the system ended while the daemon ran; the event stream begins anew")
    always_synced = setting.config.daemon.durability == "full"
    return Database(connection, setting.limits, setting.random, admission, current, always_synced)
