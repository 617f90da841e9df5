"""Folders for daemons under test. Each gets a copy of one database that is migrated once per test process."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from semantica_daemon.store.database import connect
from semantica_daemon.store.migrate import migrate

MIGRATED_AT = 1_800_000_000_000


@contextmanager
def empty_home() -> Iterator[Path]:
    """A folder with a short path, since a socket's path has at most 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="sem-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def migrated_home() -> Iterator[Path]:
    """An empty home with a database of the newest schema, as the migrations leave it."""
    with empty_home() as folder:
        copy_migrated_database(folder / "meta.db")
        yield folder


def copy_migrated_database(path: Path) -> None:
    path.touch(mode=0o600)
    path.write_bytes(migrated_database())


@cache
def migrated_database() -> bytes:
    """The whole database in one file: closing its only connection has written the WAL back into it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "meta.db"
        connection = connect(path)
        migrate(connection, MIGRATED_AT)
        connection.close()
        assert [file.name for file in Path(folder).iterdir()] == ["meta.db"]
        return path.read_bytes()


def files_in(home: Path) -> list[Path]:
    """Every file; folders that the supervisor removes meanwhile, because they are empty, are left out."""
    return [Path(folder, name) for folder, _, names in os.walk(home) for name in names if Path(folder, name).is_file()]
