"""The migrations' runner: in order, one transaction a file, fail-stop with 78; and every released schema upgrades."""

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from semantica_daemon.errors import StartRefused
from semantica_daemon.store.database import connect
from semantica_daemon.store.migrate import folder, migrate, released, statements
from tests.harness import PATIENCE_S
from tests.store.schema import dump, migrated

DUMPS = sorted(Path(__file__).parent.glob("schema_*.sql"))
LAST = max(migration.version for migration in released(folder()))
NEXT = f"{LAST + 1:03}"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A copy of the migrations that a test may spoil."""
    return shutil.copytree(folder(), tmp_path / "migrations")


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    opened = connect(tmp_path / "meta.db")
    yield opened
    opened.close()


def versions(connection: sqlite3.Connection) -> list[int]:
    return [row[0] for row in connection.execute("SELECT version FROM schema_version ORDER BY version")]


def refused(connection: sqlite3.Connection, source: Path) -> str:
    """The one clear sentence; the schema is as it was, and no transaction is left open."""
    before = connection.execute("SELECT * FROM sqlite_master").fetchall()
    with pytest.raises(StartRefused) as found:
        migrate(connection, 5, source)
    assert found.value.exit_code == 78
    assert not connection.in_transaction
    assert connection.execute("SELECT * FROM sqlite_master").fetchall() == before
    return str(found.value)


def test_the_migrated_schema_is_the_newest_dump() -> None:
    """A change to a released file shows up here; before its release: python -m tests.store.schema."""
    assert dump(migrated()) == DUMPS[-1].read_text()


@pytest.mark.parametrize("path", DUMPS, ids=lambda path: path.stem)
def test_a_database_of_every_schema_there_was_upgrades(connection: sqlite3.Connection, path: Path) -> None:
    for statement in statements(path.read_text()):
        connection.execute(statement)
    missing = range(versions(connection)[-1] + 1, LAST + 1)
    assert migrate(connection, 5) == list(missing)
    assert (dump(connection), bool(missing)) == (dump(migrated()), path != DUMPS[-1])


def test_versions_are_recorded_in_order_with_their_checksums(connection: sqlite3.Connection) -> None:
    assert migrate(connection, 5) == list(range(1, LAST + 1))
    rows = connection.execute("SELECT version, applied_at, description, checksum FROM schema_version").fetchall()
    assert [(row[0], row[1]) for row in rows] == [(version, 5) for version in range(1, LAST + 1)]
    assert [row[3] for row in rows] == [migration.checksum for migration in released(folder())]
    assert (rows[0][2], len(rows[0][3])) == ("initial schema", 64)


def test_migrating_again_does_nothing(connection: sqlite3.Connection) -> None:
    migrate(connection, 5)
    before = list(connection.iterdump())
    assert migrate(connection, 99) == []
    assert list(connection.iterdump()) == before


def test_only_what_is_missing_is_applied(connection: sqlite3.Connection, source: Path) -> None:
    newest = max(source.iterdir())
    newest.rename(source.parent / newest.name)
    assert migrate(connection, 5, source) == list(range(1, LAST))
    assert migrate(connection, 6) == [LAST]
    assert dump(connection) == dump(migrated())


def test_files_have_consecutive_numbers_and_no_version_twice() -> None:
    assert [migration.version for migration in released(folder())] == list(range(1, LAST + 1))


def test_an_altered_released_file_stops_the_start(connection: sqlite3.Connection, source: Path) -> None:
    migrate(connection, 5, source)
    with open(source / "003_add_conditions.sql", "a") as file:
        file.write("-- only a comment\n")
    (source / f"{NEXT}_more.sql").write_text("CREATE TABLE more (a);\n")
    said = refused(connection, source)
    assert "003" in said
    assert "altered" in said


def test_a_schema_newer_than_the_daemon_stops_the_start(connection: sqlite3.Connection, source: Path) -> None:
    (source / f"{NEXT}_more.sql").write_text("CREATE TABLE more (a);\n")
    migrate(connection, 5, source)
    said = refused(connection, folder())
    assert f"schema {LAST + 1}" in said
    assert f"knows up to {LAST}" in said


@pytest.mark.parametrize(
    "spoilt",
    [
        "CREATE TABLE more (a);\nCREATE TABLE jobs (a);\n",
        "CREATE TABLE more (a);\nINSERT INTO nowhere VALUES (1);\n",
        "CREATE TABLE more (a);\nNOT SQL AT ALL;\n",
        "CREATE TABLE more (a);\nCREATE TABLE half (a",
        "ALTER TABLE jobs ADD COLUMN extra;\nDROP INDEX idx_jobs_gc;\nINSERT INTO facts VALUES ('epoch', 'again');\n",
    ],
)
def test_a_file_that_fails_midway_is_rolled_back_whole(
    connection: sqlite3.Connection, source: Path, spoilt: str
) -> None:
    migrate(connection, 5, source)
    (source / f"{NEXT}_spoilt.sql").write_text(spoilt)
    said = refused(connection, source)
    assert NEXT in said
    assert "rolled back" in said
    assert versions(connection) == list(range(1, LAST + 1))


def test_the_files_before_a_failing_one_stay_applied(connection: sqlite3.Connection, source: Path) -> None:
    whole = (source / "006_add_runs.sql").read_text()
    (source / "006_add_runs.sql").write_text(whole + "SELECT nothing FROM nowhere;\n")
    with pytest.raises(StartRefused, match="006"):
        migrate(connection, 5, source)
    assert versions(connection) == [1, 2, 3, 4, 5]
    (source / "006_add_runs.sql").write_text(whole)
    assert migrate(connection, 6, source) == list(range(6, LAST + 1))
    assert dump(connection) == dump(migrated())


def test_two_files_with_one_number_are_refused(connection: sqlite3.Connection, source: Path) -> None:
    migrate(connection, 5, source)
    (source / f"{NEXT}_a.sql").write_text("CREATE TABLE a (a);\n")
    (source / f"{NEXT}_b.sql").write_text("CREATE TABLE b (b);\n")
    with pytest.raises(StartRefused) as found:
        migrate(connection, 5, source)
    assert found.value.exit_code == 78
    assert connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'b'").fetchone() is None


@pytest.mark.parametrize("exists", [True, False])
def test_an_installation_without_migrations_is_refused(
    connection: sqlite3.Connection, tmp_path: Path, exists: bool
) -> None:
    empty = tmp_path / "empty"
    if exists:
        empty.mkdir()
    assert "install" in refused(connection, empty)


def test_a_statement_may_hold_semicolons_and_comments() -> None:
    sql = "-- a; b\nCREATE TRIGGER t BEFORE UPDATE ON x\nBEGIN\n  SELECT 1;\n  SELECT 2;\nEND;\nSELECT ';';\n"
    assert len(list(statements(sql))) == 2


KILLED = "import sys; from pathlib import Path; from semantica_daemon.store import database, migrate; "
KILLED += "migrate.migrate(database.connect(Path(sys.argv[1])), 5)"
STATEMENTS = sum(len(list(statements(migration.sql))) for migration in released(folder()))


@pytest.mark.parametrize("passage", [1, 3, 17, STATEMENTS // 2, STATEMENTS])
def test_killed_midway_the_next_start_is_clean(tmp_path: Path, passage: int) -> None:
    path = tmp_path / "meta.db"
    env = {**os.environ, "SEMANTICA_FAILPOINT": f"during_migration:kill:{passage}"}
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], env=env, timeout=PATIENCE_S, check=False)
    assert ended.returncode == -signal.SIGKILL
    connection = connect(path)
    exists = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'schema_version'").fetchone()
    whole = versions(connection) if exists else []
    assert whole == list(range(1, len(whole) + 1))
    assert len(whole) < LAST
    assert migrate(connection, 6) == list(range(len(whole) + 1, LAST + 1))
    assert dump(connection) == dump(migrated())
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
