"""The `admin` family: health, statistics, configuration and shutdown of the daemon."""

import os
from collections.abc import Callable, Sequence, Sized
from pathlib import Path
from typing import Any, NamedTuple

from semantica_daemon import PROTOCOL, VERSION
from semantica_daemon.clock import Clock
from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.feed import Feed
from semantica_daemon.engine.lifecycle import Lifecycle
from semantica_daemon.engine.machine import Machine
from semantica_daemon.engine.passes import Wake
from semantica_daemon.engine.readers import Readers
from semantica_daemon.engine.writer import Writer
from semantica_daemon.rpc.binding import Binding, Call
from semantica_daemon.store import reads
from semantica_daemon.wire.admin import Health, ShutdownAck, ShutdownParams, Stats
from semantica_daemon.wire.types import Params


class HealthSources(NamedTuple):
    """The parts that health and statistics read."""

    wakes: Sequence[Wake]
    writer: Writer
    commands: CommandQueue
    feed: Feed
    machine: Machine
    running: Callable[[], int]
    max_slots: int
    connections: Sized


class AdminMethods:
    def __init__(
        self,
        parts: HealthSources,
        readers: Readers,
        database: Path,
        config: dict[str, Any],
        lifecycle: Lifecycle,
        clock: Clock,
    ) -> None:
        self._parts = parts
        self._readers = readers
        self._database = database
        self._config = config
        self._lifecycle = lifecycle
        self._clock = clock
        self._started = clock.monotonic()

    def bindings(self) -> dict[str, Binding]:
        return {
            "admin.health": Call(self._health),
            "admin.stats": Call(self._stats),
            "admin.config": Call(self._get_config),
            "admin.shutdown": Call(self._shutdown),
        }

    async def _health(self, _: Params) -> Health:
        parts = self._parts
        trouble = parts.writer.trouble
        report: dict[str, Any] = {wake.name: wake.last for wake in parts.wakes}
        report["writer"] = {
            "last_commit_at": parts.writer.last_commit_at, "batches": parts.writer.batches,
            "waiting": len(parts.commands), "trouble": trouble,
        }  # fmt: skip
        report["dispatcher"] = {"running": parts.running(), "slots": parts.max_slots}
        report["feed"] = {"sequence": parts.feed.newest, "epoch": parts.feed.epoch}
        report["server"] = {"connections": len(parts.connections)}
        status: Any = self._lifecycle.status
        uptime_ms = int((self._clock.monotonic() - self._started) * 1000)
        return Health("degraded" if status == "ready" and trouble else status, VERSION, PROTOCOL, uptime_ms, report)

    async def _stats(self, _: Params) -> Stats:
        parts = self._parts
        system = {
            "db_bytes": _size(self._database),
            "wal_bytes": _size(self._database.with_name(self._database.name + "-wal")),
            "rss_bytes": _rss(),
            "is_idle": parts.machine.is_idle,
            "connections": len(parts.connections),
            "running": parts.running(),
            "slots": parts.max_slots,
            "sequence": parts.feed.newest,
            "pid": os.getpid(),
        }
        return Stats(await self._readers.query(reads.stats), system)

    async def _get_config(self, _: Params) -> dict[str, Any]:
        return self._config

    async def _shutdown(self, params: ShutdownParams) -> ShutdownAck:
        self._lifecycle.request_stop(params.reason)
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
