"""The backups in a folder: their names, which there are, whether one is intact, and which are too many.

`store/backup_copy` makes them; recovery and `semantica restore` use them.
"""

import os
import re
import sqlite3
import stat
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from msgspec import Struct

FOLDER = "backups"
NAME = re.compile(r"meta-(?:before-v(\d+)-)?(\d{8}T\d{6}Z)(?:-(\d+))?\.db")
TIME = "%Y%m%dT%H%M%SZ"
CHECK = "PRAGMA quick_check(1)"
VERSION = "SELECT max(version) FROM schema_version"
STEPS_BETWEEN_LOOKS = 100_000  # of SQLite's virtual machine; a look at whether to stop costs nothing at this rate


class Backup(Struct, frozen=True):
    """`at`: when it was made. `before_version`: the schema to which the database was upgraded right after it; None for
    one that was made by the calendar or by a person."""

    path: Path
    at: int
    bytes: int
    before_version: int | None = None


def file_name(at: int, before_version: int | None = None, number: int = 1) -> str:
    """`number`: from the second on, for several backups in one second."""
    upgrade = "" if before_version is None else f"before-v{before_version}-"
    time = datetime.fromtimestamp(at // 1000, UTC).strftime(TIME)
    return f"meta-{upgrade}{time}{'' if number == 1 else f'-{number}'}.db"


def list_backups(folder: Path) -> list[Backup]:
    """The newest first, those from before an upgrade among them. Files of other users and other names are left out."""
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    found = [entry for entry in map(lambda name: _read(folder / name), names) if entry is not None]
    return [backup for _, backup in sorted(found, key=lambda entry: entry[0], reverse=True)]


def _read(path: Path) -> tuple[tuple[int, int, str], Backup] | None:
    """With the key of its order; None for a file that is no backup."""
    match = NAME.fullmatch(path.name)
    if match is None:
        return None
    try:
        at = int(datetime.strptime(match[2], TIME).replace(tzinfo=UTC).timestamp() * 1000)
        found = path.lstat()
    except (ValueError, OSError):
        return None
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
        return None
    before_version = int(match[1]) if match[1] else None
    return (at, int(match[3] or 1), path.name), Backup(path, at, found.st_size, before_version)


def is_intact(path: Path) -> bool:
    return problem_of(path) is None


def problem_of(path: Path, is_stopped: Callable[[], bool] = lambda: False) -> str | None:
    """Reads the whole file, and only it: None if it is an intact database with a schema of ours, else what is wrong
    with it. Takes seconds for a large one; raises sqlite3.OperationalError (interrupted) once `is_stopped`."""
    try:
        version = schema_version(path, is_stopped)
    except sqlite3.Error as error:
        if is_stopped():
            raise
        return f"{path} is damaged or no database of Semantica: {error}"
    return None if version is not None else f"{path} is an empty database"


def schema_version(path: Path, is_stopped: Callable[[], bool] = lambda: False) -> int | None:
    """The newest migration of a file that is intact; raises sqlite3.Error for any other file."""
    connection = sqlite3.connect(address(path, "mode=ro&immutable=1"), uri=True, isolation_level=None)
    try:
        connection.set_progress_handler(lambda: int(is_stopped()), STEPS_BETWEEN_LOOKS)
        (found,) = connection.execute(CHECK).fetchone()
        if found != "ok":
            raise sqlite3.DatabaseError(found)
        version: int | None = connection.execute(VERSION).fetchone()[0]
        return version
    finally:
        connection.close()


def address(path: Path, options: str) -> str:
    """Of a database, as SQLite's URI."""
    return f"file://{quote(os.fsencode(path.absolute()))}?{options}"


def prune(folder: Path, keep: int) -> list[Path]:
    """Deletes all but the newest `keep` daily backups, and all but the newest `keep` from before upgrades. Deletes only
    files that have the name of a backup and belong to this user. Returns what it deleted."""
    found = list_backups(folder)
    daily = [backup.path for backup in found if backup.before_version is None]
    upgrades = [backup.path for backup in found if backup.before_version is not None]
    surplus = [*daily[keep:], *upgrades[keep:]]
    for path in surplus:
        path.unlink(missing_ok=True)
    return surplus
