"""Migrates a database to this version's schema: numbered files with checksums, one transaction per file. Stops at the
first error."""

import hashlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from semantica_daemon import failpoints
from semantica_daemon.errors import StartRefused

PACKAGE = Path(__file__).resolve().parent.parent

CREATE_VERSION_TABLE = """
CREATE TABLE IF NOT EXISTS schema_version (
  version INTEGER PRIMARY KEY,
  applied_at INTEGER NOT NULL,
  description TEXT NOT NULL,
  checksum TEXT NOT NULL
)
"""
APPLIED = "SELECT version, checksum FROM schema_version ORDER BY version"
RECORD = "INSERT INTO schema_version (version, applied_at, description, checksum) VALUES (?, ?, ?, ?)"


class Migration(Struct, frozen=True):
    version: int
    description: str
    sql: str

    @property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()


def folder() -> Path:
    """The folder of the migrations: inside the wheel, or beside the package in an editable install or a checkout."""
    inside = PACKAGE / "migrations"
    return inside if inside.is_dir() else PACKAGE.parent / "migrations"


def released(source: Path) -> list[Migration]:
    files = sorted(source.glob("[0-9][0-9][0-9]_*.sql"))
    if not files:
        raise StartRefused(f"no migrations found in {source}: the installation is incomplete, install it again")
    return [Migration(int(file.name[:3]), file.stem[4:].replace("_", " "), file.read_text()) for file in files]


def statements(sql: str) -> Iterator[str]:
    """Splits the file into statements; `executescript` would commit the open transaction first."""
    pending = ""
    for line in sql.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip():
        raise sqlite3.OperationalError(f"the last statement is not complete: {pending.strip()[:60]}")


def migrate(connection: sqlite3.Connection, now: int, source: Path | None = None) -> list[int]:
    """Applies the missing migrations and returns their versions; refuses a database of a newer version or with altered
    migrations."""
    migrations = released(source or folder())
    applied = _applied(connection)
    _check_history(applied, migrations)
    missing = [migration for migration in migrations if migration.version not in applied]
    for migration in missing:
        _apply(connection, migration, now)
    return [migration.version for migration in missing]


def _applied(connection: sqlite3.Connection) -> dict[int, str]:
    exists = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_version'").fetchone()
    return dict(connection.execute(APPLIED).fetchall()) if exists else {}


def _check_history(applied: dict[int, str], migrations: list[Migration]) -> None:
    known = {migration.version: migration for migration in migrations}
    for version, checksum in applied.items():
        if version not in known:
            raise StartRefused(
                f"the database has schema {max(applied)}, this semanticad knows up to {max(known)}: "
                "install the newer version again, or point SEMANTICA_HOME elsewhere"
            )
        if checksum != known[version].checksum:
            raise StartRefused(
                f"migration {version:03} ({known[version].description}) was altered after it had been applied: "
                "restore the released file; nothing was changed"
            )


def _apply(connection: sqlite3.Connection, migration: Migration, now: int) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        connection.execute(CREATE_VERSION_TABLE)
        for statement in statements(migration.sql):
            connection.execute(statement)
            failpoints.hit("during_migration")
        connection.execute(RECORD, (migration.version, now, migration.description, migration.checksum))
        connection.execute("COMMIT")
    except sqlite3.Error as error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise StartRefused(
            f"migration {migration.version:03} ({migration.description}) failed: {error}; it was rolled back, "
            "the database is as it was"
        ) from error
