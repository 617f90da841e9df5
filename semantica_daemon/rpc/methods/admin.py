"""The `admin` family: health, statistics, configuration and shutdown of the daemon."""

import os
from collections.abc import Awaitable, Callable, Sequence, Sized
from pathlib import Path
from typing import Any

from msgspec import Struct

from semantica_daemon import PROTOCOL, VERSION
from semantica_daemon.clock import Clock
from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.feed import Feed
from semantica_daemon.engine.lifecycle import Lifecycle
from semantica_daemon.engine.machine import Machine
from semantica_daemon.engine.passes import Wake
from semantica_daemon.engine.readers import Readers
from semantica_daemon.engine.writer import Writer
from semantica_daemon.model.queue import Limits
from semantica_daemon.processes.cgroups import CgroupRoot
from semantica_daemon.rpc.binding import Binding, Call
from semantica_daemon.store import reads
from semantica_daemon.wire.admin import ConfigParams, Health, ShutdownAck, ShutdownParams, Stats
from semantica_daemon.wire.types import Params


class AdminMethods(Struct, frozen=True, kw_only=True):
    """`running`: returns how many jobs run. `started`: by the monotonic clock."""

    wakes: Sequence[Wake]
    writer: Writer
    commands: CommandQueue
    feed: Feed
    machine: Machine
    running: Callable[[], int]
    limits: Limits
    connections: Sized
    readers: Readers
    database: Path
    get_config: Callable[[ConfigParams], Awaitable[dict[str, Any]]]
    cgroups: CgroupRoot
    lifecycle: Lifecycle
    clock: Clock
    started: float

    def bindings(self) -> dict[str, Binding]:
        return {
            "admin.health": Call(self._health),
            "admin.stats": Call(self._stats),
            "admin.config": Call(self.get_config),
            "admin.shutdown": Call(self._shutdown),
        }

    async def _health(self, _: Params) -> Health:
        writer = self.writer
        trouble = writer.trouble or writer.checkpoint_trouble
        written = {"last_commit_at": writer.last_commit_at, "batches": writer.batches}
        report: dict[str, Any] = {
            **{wake.name: wake.last for wake in self.wakes},
            "writer": {**written, "waiting": len(self.commands), "trouble": trouble},
            "dispatcher": {"running": self.running(), "slots": self.limits.max_slots},
            "feed": {"sequence": self.feed.newest, "epoch": self.feed.epoch},
            "processes": {
                "cgroup": self.cgroups.path or None,
                "controllers": sorted(self.cgroups.controllers),
                "problem": self.cgroups.problem or None,
            },
            "server": {"connections": len(self.connections)},
        }
        status: Any = self.lifecycle.status
        uptime_ms = int((self.clock.monotonic() - self.started) * 1000)
        return Health("degraded" if status == "ready" and trouble else status, VERSION, PROTOCOL, uptime_ms, report)

    async def _stats(self, _: Params) -> Stats:
        system = {
            "db_bytes": _size(self.database),
            "wal_bytes": _size(self.database.with_name(self.database.name + "-wal")),
            "rss_bytes": _rss(),
            "is_idle": self.machine.is_idle,
            "connections": len(self.connections),
            "running": self.running(),
            "slots": self.limits.max_slots,
            "sequence": self.feed.newest,
            "pid": os.getpid(),
            "reservation": await self.readers.query(reads.reservation, None),
        }
        return Stats(await self.readers.query(reads.stats), system)

    async def _shutdown(self, params: ShutdownParams) -> ShutdownAck:
        self.lifecycle.request_stop(params.reason)
        return ShutdownAck(True)


def _size(path: Path) -> int:
    """Uses stat only: opening and closing the file in this process would drop SQLite's locks."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _rss() -> int | None:
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None
