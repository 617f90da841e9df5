"""Deletes the folders of archived jobs, in a thread. Runs after each archive and at start, so that a crash between the
commit and the deletion leaves no folder behind."""

import asyncio
import os
import shutil
from pathlib import Path

import structlog
from msgspec import Struct

from semantica_daemon.clock import Clock
from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.engine.readers import Readers
from semantica_daemon.store import reads
from semantica_daemon.store.writes.archive import forget_removals

log = structlog.get_logger()

MOST = 100  # folders that are deleted in one step


class Removals(Struct, frozen=True):
    readers: Readers
    commands: CommandQueue
    workspaces: Path
    clock: Clock

    async def step(self) -> int | None:
        """Returns now while there may be more, None when all folders are gone. A folder that cannot be deleted is
        logged and left."""
        job_ids = await self.readers.query(reads.removals, MOST)
        if not job_ids:
            return None
        failed = await asyncio.to_thread(self._remove_all, job_ids)
        for path, reason in failed.items():
            log.warning("workspace_not_deleted", path=path, reason=reason)
        await self.commands.run(forget_removals, job_ids)
        return self.clock.now()

    def _remove_all(self, job_ids: list[str]) -> dict[str, str]:
        """The folders that are left, and why."""
        failed = {}
        for job_id in job_ids:
            path = self.workspaces / job_id
            try:
                remove(path)
            except OSError as error:
                failed[str(path)] = str(error)
        return failed


def remove(path: Path) -> None:
    """Deletes the folder, or what a job has put in its place. Links are never followed."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return
    try:
        shutil.rmtree(path)
    except FileNotFoundError:
        pass
    except PermissionError:
        _make_writable(path)
        shutil.rmtree(path)


def _make_writable(path: Path) -> None:
    """A job may have made folders that not even their owner can change, as package caches have them."""
    path.chmod(0o700)
    for folder, names, _ in os.walk(path):
        for name in names:
            below = Path(folder, name)
            if not below.is_symlink():
                below.chmod(0o700)
