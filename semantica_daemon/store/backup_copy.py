"""Makes one backup: SQLite's own online backup from a read-only connection, in steps, into a temporary file that is
synced, verified and renamed. Runs in a thread of its own beside the writer."""

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

from semantica_daemon import failpoints
from semantica_daemon.store.backup import VERSION, address, file_name, schema_version

STEP_PAGES = 128
PAUSE_S = 0.002  # after each step, so that the writer gets the disk and the processor
SYNC_EVERY_STEPS = 32  # the disk gets the copy in parts: one sync of all of it would delay the writer's syncs
PREFIX, SUFFIX = ".meta-backup-", ".tmp"
NOTE = "backup.unfinished"


class BackupStopped(Exception):
    """The daemon stops; what was copied so far is deleted."""


class CopyDamaged(Exception):
    """The finished copy is not intact."""


class Source:
    """`data`: the folder that has the note about an unfinished copy. `is_stopped`: asked between steps."""

    def __init__(self, database: Path, data: Path, is_stopped: Callable[[], bool] = lambda: False) -> None:
        self.database = database
        self.data = data
        self.is_stopped = is_stopped

    def copy_to(self, target: Path) -> int:
        """Returns the size of the copy. Raises OSError or sqlite3.Error when it cannot be made, and leaves no file."""
        handle, name = tempfile.mkstemp(SUFFIX, PREFIX, target.parent)
        temporary, note = Path(name), self.data / NOTE
        try:
            note.write_bytes(os.fsencode(temporary.absolute()))
            version = self._copy(temporary, handle)
            self._verify(temporary, version)
            if target.exists():
                raise FileExistsError(f"{target} exists")
            os.rename(temporary, target)
            _sync_folder(target.parent)
            return target.stat().st_size
        finally:
            os.close(handle)
            temporary.unlink(missing_ok=True)
            note.unlink(missing_ok=True)

    def _copy(self, temporary: Path, handle: int) -> int | None:
        """All pages as they are at one instant; returns the version of the schema. The open transaction keeps the
        snapshot: without it, each commit of the writer would make SQLite begin the copy again."""
        with (
            closing(sqlite3.connect(address(self.database, "mode=ro"), uri=True, isolation_level=None)) as source,
            closing(sqlite3.connect(temporary, isolation_level=None)) as copy,
        ):
            for pragma in ("PRAGMA journal_mode = OFF", "PRAGMA synchronous = OFF"):
                copy.execute(pragma).fetchall()
            source.execute("BEGIN")
            version: int | None = source.execute(VERSION).fetchone()[0]
            source.backup(copy, pages=STEP_PAGES, progress=self._pace(handle))
            source.execute("ROLLBACK")
        os.fsync(handle)
        return version

    def _pace(self, handle: int) -> Callable[[int, int, int], None]:
        """Called after each step."""
        steps = 0

        def after_step(status: int, remaining: int, total: int) -> None:
            nonlocal steps
            steps += 1
            failpoints.hit("during_backup")
            if self.is_stopped():
                raise BackupStopped
            if remaining:
                if steps % SYNC_EVERY_STEPS == 0:
                    os.fdatasync(handle) if hasattr(os, "fdatasync") else os.fsync(handle)
                time.sleep(PAUSE_S)

        return after_step

    def _verify(self, temporary: Path, version: int | None) -> None:
        try:
            found = schema_version(temporary, self.is_stopped)
        except sqlite3.Error as error:
            if self.is_stopped():
                raise BackupStopped from None
            raise CopyDamaged(f"the copy is damaged: {error}") from error
        if found != version:
            raise CopyDamaged(f"the copy has schema {found}, the database {version}")


def free_name(folder: Path, at: int, before_version: int | None = None) -> Path:
    """A name for a backup that no file in the folder has."""
    number = 1
    while (path := folder / file_name(at, before_version, number)).exists():
        number += 1
    return path


def make_folder(folder: Path) -> None:
    """For this user alone if it does not exist yet; the mode of an existing one is left."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)


def remove_unfinished(data: Path) -> Path | None:
    """At start: deletes the file of a backup during which the daemon was killed, and returns its path."""
    note = data / NOTE
    try:
        temporary = Path(os.fsdecode(note.read_bytes()))
    except OSError:
        return None
    if temporary.name.startswith(PREFIX) and temporary.name.endswith(SUFFIX):
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    note.unlink(missing_ok=True)
    return temporary


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
