"""The daemon as a foreground process: reads the configuration, sets signals and resource limits, and decides the exit
code. `daemon` constructs the parts."""

import asyncio
import gc
import os
import resource
import signal
from pathlib import Path
from random import Random
from typing import Any

import anyio
import structlog

from semantica_daemon import VERSION, config, environment, logs, paths, systemd
from semantica_daemon.clock import SystemClock
from semantica_daemon.daemon import Setting, running
from semantica_daemon.engine import handlers
from semantica_daemon.errors import StartRefused
from semantica_daemon.processes import cgroups
from semantica_daemon.processes.cgroups import CgroupRoot
from semantica_daemon.store import sqlite_library

log = structlog.get_logger()

# Beyond the grace period, for the ends of runs to be recorded; systemd kills the daemon only after that.
STOP_MARGIN_MS = 10_000


async def serve(setting: Setting) -> None:
    """Runs until a signal or admin.shutdown. A second signal ends the grace period of the runs.

    Exits by os._exit, with the lock still held: a handler's thread or task that does not end would otherwise keep the
    process alive for ever, and must not go on beside the next daemon.
    """
    async with running(setting) as daemon:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_log_loop_error)
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, daemon.lifecycle.request_stop, signal.Signals(number).name)
        loop.add_signal_handler(signal.SIGHUP, daemon.reload.reload_soon)
        gc.freeze()  # everything loaded so far stays; only the garbage of requests is worth collecting
        log.info("ready", version=VERSION, socket=paths.printable(setting.paths.socket), slots=setting.config.slots)
        logs.ready_pipe.send("ready")
        setting.notifier.send("READY=1", f"STATUS=ready, version {VERSION}")
        await daemon.lifecycle.stop.wait()
        longest_us = (daemon.run_dependencies.grace_ms + STOP_MARGIN_MS) * 1000
        setting.notifier.send("STOPPING=1", f"EXTEND_TIMEOUT_USEC={longest_us}", "STATUS=ending the running jobs")
        await daemon.close()
        log.info("stopped", left_behind=daemon.dispatcher.running)
        os._exit(0)


def _log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs what asyncio reports in one line each, such as no descriptor left to accept with."""
    log.error("loop_error", reason=context.get("message"), error=repr(context.get("exception")))


def main(config_path: Path | None, check: bool, log_file: Path | None, ready_fd: int | None) -> None:
    """Reads the configuration and runs the daemon; with `check` it reads it, imports the handlers, and returns."""
    environment.restore_locale(os.environ)
    where = paths.find(os.environ)
    if config_path is not None:
        where.config = str(config_path.absolute())
    os.umask(0o077)
    if ready_fd is not None:
        logs.ready_pipe.use(ready_fd)
    notifier = systemd.notifier(os.environ)
    try:
        refuse_foreign_folders(where, with_config=config_path is None)
        if log_file is not None:
            logs.to_file(log_file)
        settings = config.load(Path(where.config), must_exist=config_path is not None)
        if check:
            handlers.load(settings.handlers, settings.handler_path)
            exists = os.path.exists(where.config)
            print(f"{where.config} is valid" if exists else f"no {where.config}: the defaults are used")  # noqa: T201
            return
        sqlite_library.tune()
        open_files = raise_file_limit()
        logs.configure(settings.daemon.log_level, settings.daemon.log_format)
        inherited = systemd.inherited_socket(os.environ, where.socket)
        systemd.forget(os.environ)
        parts = (where, settings, SystemClock(), Random(), open_files, notifier, inherited)
        anyio.run(run_until_stopped, Setting(*parts, prepare_cgroups(settings.daemon.cgroup)))
    except StartRefused as refused:
        notifier.send(f"STATUS={refused}")
        logs.ready_pipe.send(str(refused))
        raise


def prepare_cgroups(configured: str) -> CgroupRoot:
    found = cgroups.prepare(configured)
    if configured and found.problem:
        log.warning("cgroup_not_used", reason=found.problem)
    return found


def refuse_foreign_folders(where: paths.Paths, with_config: bool) -> None:
    """Raises StartRefused if the data, state or config folder belongs to another user, who could then have this daemon
    run what is in it. A config file that was named may be anywhere."""
    config_folders = [os.path.dirname(where.config)] if with_config else []
    for folder in [where.data, os.path.dirname(where.log), *config_folders]:
        try:
            uid = os.stat(folder).st_uid
        except OSError:
            continue
        if uid != os.getuid():
            hint = "chown it, or set SEMANTICA_HOME to a folder of your own"
            owner = f"belongs to another user (uid {uid}; the daemon runs as {os.getuid()})"
            raise StartRefused(f"{paths.printable(folder)} {owner}: {hint}", 77)


async def run_until_stopped(setting: Setting) -> None:
    """Logs an error that stops the daemon, and exits; the next start recovers."""
    try:
        await serve(setting)
    except Exception as failed:
        error: BaseException = failed
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        if isinstance(error, StartRefused):
            raise error from None
        log.error("failed", exc_info=error)
        os._exit(70)


def raise_file_limit() -> int:
    """A thousand connections need more than the usual soft limit. Returns the previous soft limit; jobs run with it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = 65_536 if hard == resource.RLIM_INFINITY else min(hard, 65_536)
    if soft < target:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return soft
