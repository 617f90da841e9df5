"""Ends the runs when the daemon stops: SIGTERM, the grace period, and a stored end for each."""

import asyncio
from collections.abc import Awaitable
from typing import Any

import structlog

from semantica_daemon.engine.attempt import RunDependencies
from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.dispatcher import Dispatcher
from semantica_daemon.engine.lifecycle import Lifecycle
from semantica_daemon.model.outcome import SHUT_DOWN
from semantica_daemon.store.database import Command
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.lifecycle import nothing, stopping

log = structlog.get_logger()

# Time after the grace period, for the ends of runs to be stored.
MARGIN_MS = 500


async def end_runs(lifecycle: Lifecycle, commands: CommandQueue, dispatcher: Dispatcher, runs: RunDependencies) -> None:
    """Takes at most the grace period and margins. The next start treats a run whose end was not stored by then as
    crashed. A second request to stop ends the grace period."""
    commands.submit(Command(stopping, lifecycle.reason), must_commit=True)
    dispatcher.stop_all()
    await _wait(runs.grace_ms + MARGIN_MS, dispatcher.until_idle(), lifecycle.stop_now.wait())
    await runs.supervisors.close()  # ends the processes that are left, before their runs are recorded as ended
    await _wait(MARGIN_MS, dispatcher.until_idle())
    left = dispatcher.unfinished()
    for attempt in left:
        log.warning("run_left_behind", job_id=attempt.claim.run.job_id)
    ends = [commands.run(finish, Finish(attempt.claim.run, SHUT_DOWN)) for attempt in left]
    await _wait(MARGIN_MS, asyncio.gather(*ends, commands.run(nothing, None)))


async def _wait(most_ms: int, *events: Awaitable[Any]) -> None:
    """Waits until one of the events, at most `most_ms`."""
    tasks = [asyncio.ensure_future(event) for event in events]
    await asyncio.wait(tasks, timeout=most_ms / 1000, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()
