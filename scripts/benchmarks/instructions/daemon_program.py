"""The program that valgrind runs for the daemon's figures: semanticad on a clock that stands still and with seeded ids,
so that no timer fires by the machine's time. Everything else is as the real one starts it."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random

import anyio

from semantica_daemon import config, logs, paths
from semantica_daemon.daemon import Setting
from semantica_daemon.engine import supervisors
from semantica_daemon.serving import run_until_stopped
from semantica_daemon.store import sqlite_library

NOW = 1_800_000_000_000
# The supervisor waits 30 ms for the end of a command before it reports its start; valgrind slows it down 50 times.
SLOW_SUPERVISOR = "from semantica_daemon.supervisor import channel; channel.SPAWNED_DELAY_MS = 60_000; main()"


class NoTimer:
    def cancel(self) -> None:
        pass


class StandingClock:
    """Syncs and checkpoints go by timers, so there are none: neither is part of a job's instructions."""

    def now(self) -> int:
        return NOW

    def monotonic(self) -> float:
        return NOW / 1000

    def elapsed(self) -> int:
        return NOW

    def after(self, delay_ms: float, callback: Callable[[], object]) -> NoTimer:
        return NoTimer()


def main() -> None:
    where = paths.find(os.environ)
    settings = config.load(Path(where.config))
    supervisors.PROGRAM = supervisors.PROGRAM.replace("main()", SLOW_SUPERVISOR)
    sqlite_library.tune()
    logs.configure(settings.daemon.log_level, settings.daemon.log_format)
    anyio.run(run_until_stopped, Setting(where, settings, StandingClock(), Random(0)))


if __name__ == "__main__":
    sys.exit(main())
