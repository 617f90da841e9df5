"""Reads config.toml again while the daemon runs: on SIGHUP, and for `semantica config reload`. A file with a mistake
changes nothing. `config` parses the file; `daemon` gives its parts the settings that may change."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import structlog
from msgspec import Struct

from semantica_daemon import config
from semantica_daemon.config import Config
from semantica_daemon.errors import StartRefused
from semantica_daemon.wire.admin import ConfigFile

log = structlog.get_logger()

# Settings that a running daemon can change, besides all of `queues`; the others need a restart.
LIVE = {
    "daemon": ("max_slots", "grace_ms", "durability", "log_level"),
    "machine": ("idle", "power", "idle_ms"),
    "limits": ("log_bytes",),
}


class Change(Struct, frozen=True):
    """The configuration to put into force, and the dotted names of the settings that differ: those that it changes, and
    those that the file has and that need a restart."""

    config: Config
    changed: list[str]
    needs_restart: list[str]


Apply = Callable[[Change], Awaitable[None]]


class Reload:
    """`in_force`: the configuration that the daemon uses."""

    def __init__(self, path: Path, in_force: Config, apply: Apply) -> None:
        self.in_force = in_force
        self._path = path
        self._apply = apply
        self._needs_restart: list[str] = []
        self._problem: str | None = None
        self._text = self._read()
        self._one_at_a_time = asyncio.Lock()
        self._tasks: set[asyncio.Task[list[str]]] = set()

    def reload_soon(self) -> None:
        task = asyncio.get_running_loop().create_task(self.reload())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def reload(self) -> list[str]:
        """Returns the names of the settings that have changed."""
        async with self._one_at_a_time:
            text = self._read()
            try:
                found = config.load(self._path)
            except StartRefused as refused:
                self._problem = str(refused)
                log.warning("config_refused", problem=self._problem, effect="the settings stay as they are")
                return []
            change = change_to(self.in_force, found)
            await self._apply(change)
            self.in_force, self._needs_restart = change.config, change.needs_restart
            self._text, self._problem = text, None
            return change.changed

    def file(self, changed: list[str]) -> ConfigFile:
        """Compares the file with the settings in force. `changed`: the settings that this call's reload changed."""
        newer = self._read() != self._text
        return ConfigFile(newer, self._problem if newer else None, changed, self._needs_restart)

    def _read(self) -> str | None:
        """None without a file that can be read."""
        try:
            return self._path.read_text()
        except (OSError, UnicodeDecodeError):
            return None


def change_to(old: Config, new: Config) -> Change:
    live: dict[str, Any] = {"queues": new.queues}
    for section, keys in LIVE.items():
        values = {key: getattr(getattr(new, section), key) for key in keys}
        live[section] = msgspec.structs.replace(getattr(old, section), **values)
    merged = msgspec.structs.replace(old, **live)
    return Change(merged, differences(old, merged), differences(merged, new))


def differences(old: Config, new: Config) -> list[str]:
    """The dotted names of the settings that differ; of queues and handlers one name for each."""
    before, after = _flat(old), _flat(new)
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _flat(found: Config) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, section in msgspec.to_builtins(found).items():
        values |= {f"{name}.{key}": section[key] for key in section} if isinstance(section, dict) else {name: section}
    return values
