"""The migrated schema against ADR-010 (docs/decisions.md): every column, CHECK and index, phase by phase."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from semantica_daemon.model.state import STATES
from semantica_daemon.store.migrate import folder, migrate
from tests.cases import each_case
from tests.store import adr010
from tests.store.schema import columns, definitions, index_columns, indexes, migrated


@pytest.fixture(scope="module")
def adr() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute(adr010.JOBS)
    connection.execute(adr010.JOB_CONDITIONS)
    for name, (table, over) in adr010.INDEXES.items():
        connection.execute(f"CREATE INDEX {name} ON {table} ({over})")
    return connection


@pytest.fixture(scope="module")
def whole() -> sqlite3.Connection:
    return migrated()


def phase(number: int, home: Path) -> sqlite3.Connection:
    """As a daemon of that phase would have left it."""
    for name in adr010.FILES[:number]:
        shutil.copy(folder() / f"{name}.sql", home)
    return migrated(source=home)


ADR_COLUMNS = [name for names in adr010.PHASES.values() for name in names.split()]


def test_the_copy_of_the_adr_is_whole(adr: sqlite3.Connection) -> None:
    assert sorted(columns(adr, "jobs")) == sorted(ADR_COLUMNS)
    assert len(ADR_COLUMNS) == 32


def test_the_columns_of_jobs_are_as_written(adr: sqlite3.Connection, whole: sqlite3.Connection) -> None:
    """Name, type, NOT NULL and default; migration 005 says why these five differ."""
    stricter = {
        "id": ("id", "TEXT", 1, None, 0),  # unique, but the number is the primary key
        "schedule_type": ("schedule_type", "TEXT", 0, "'IMMEDIATE'", 0),
        "wait_for_idle": ("wait_for_idle", "INTEGER", 1, "0", 0),
        "require_charging": ("require_charging", "INTEGER", 1, "0", 0),
    }
    expected = {name: stricter.get(name, columns(adr, "jobs")[name]) for name in ADR_COLUMNS}
    assert {name: columns(whole, "jobs")[name] for name in ADR_COLUMNS} == expected


INSERT = """
INSERT INTO jobs (id, queue, job_type, subject_key, generation, state, created_at, payload, {column})
VALUES ('x', 'q', 't', '', 0, 'SCHEDULED', 5, '{{}}', ?)
"""
VALUES = {
    "execution_mode": ["IN_PROCESS", "SUBPROCESS", None, "EXTERNAL", ""],
    "schedule_type": ["IMMEDIATE", "AT", "AFTER", "CONDITION", None, "CRON", ""],
}


@each_case("column", VALUES)
def test_a_chain_of_ors_checks_what_the_adr_s_list_checks(
    adr: sqlite3.Connection, whole: sqlite3.Connection, column: str
) -> None:
    def takes(connection: sqlite3.Connection, value: str | None) -> bool:
        try:
            connection.execute(INSERT.format(column=column), (value,))
            connection.execute("DELETE FROM jobs")
        except sqlite3.IntegrityError:
            return False
        return True

    assert [takes(whole, value) for value in VALUES[column]] == [takes(adr, value) for value in VALUES[column]]


def test_job_conditions_is_as_written(adr: sqlite3.Connection, whole: sqlite3.Connection) -> None:
    found = columns(whole, "job_conditions")
    assert {name: found[name] for name in columns(adr, "job_conditions")} == columns(adr, "job_conditions")
    for name, definition in definitions(adr, "job_conditions").items():
        assert definitions(whole, "job_conditions")[name] == definition
    pragma = "PRAGMA foreign_key_list(job_conditions)"
    assert whole.execute(pragma).fetchall() == adr.execute(pragma).fetchall()


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_a_phase_has_its_columns_and_no_others(tmp_path: Path, number: int) -> None:
    found = phase(number, tmp_path)
    expected = {name for upto in range(1, number + 1) for name in adr010.PHASES[upto].split()}
    assert set(columns(found, "jobs")) == expected
    conditions = found.execute("SELECT 1 FROM sqlite_master WHERE name = 'job_conditions'").fetchone()
    assert (conditions is not None) == (number >= 3)


def test_after_the_four_phases_the_schema_is_the_adr_s(tmp_path: Path, adr: sqlite3.Connection) -> None:
    found = phase(4, tmp_path)
    assert columns(found, "jobs") == columns(adr, "jobs")
    assert definitions(found, "jobs") == definitions(adr, "jobs")
    assert indexes(found) == set(adr010.INDEXES) == indexes(adr)
    for name in adr010.INDEXES:
        assert index_columns(found, name) == index_columns(adr, name)
    tables = {row[0] for row in found.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert tables == {"jobs", "job_conditions", "schema_version"}


@each_case("name", [name for name in adr010.INDEXES if name != "idx_jobs_pop"])
def test_an_index_is_there_by_name_with_its_columns(
    adr: sqlite3.Connection, whole: sqlite3.Connection, name: str
) -> None:
    assert index_columns(whole, name) == index_columns(adr, name)


def test_the_pop_index_gained_the_position_and_lost_the_history(whole: sqlite3.Connection) -> None:
    assert index_columns(whole, "idx_jobs_pop") == (
        "queue, claim_class, concurrency_key, chain_group_id, priority DESC, position, created_at, id"
    )
    (sql,) = whole.execute("SELECT sql FROM sqlite_master WHERE name = 'idx_jobs_pop'").fetchone()
    assert "WHERE state = 'QUEUED'" in " ".join(sql.split())


@each_case("table", ["jobs", "job_conditions"])
def test_what_came_after_the_adr_only_adds(adr: sqlite3.Connection, whole: sqlite3.Connection, table: str) -> None:
    """A row written by a daemon of phase 4 is still a row: every new column is nullable or has a default."""
    added = columns(whole, table).keys() - columns(adr, table).keys()
    found = [columns(whole, table)[name] for name in added]
    assert added
    assert [name for name, _, not_null, default, _ in found if not_null and default is None] == []


PHASE_FOUR_ROW = """
INSERT INTO jobs (id, queue, job_type, subject_key, generation, state, created_at, finished_at, payload)
VALUES (:state, 'q', 't', :state, 1, :state, 5, :finished_at, '{}')
"""


def test_rows_of_phase_four_survive_the_upgrade(tmp_path: Path) -> None:
    """Though they know nothing of queued_at, run_id and what else the later CHECKs ask for."""
    connection = phase(4, tmp_path)
    for state in STATES:
        finished_at = 6 if state in ("DONE", "FAILED") else None
        connection.execute(PHASE_FOUR_ROW, {"state": state, "finished_at": finished_at})
    before = connection.execute("SELECT id, state, payload FROM jobs").fetchall()
    migrate(connection, 7)
    assert connection.execute("SELECT id, state, payload FROM jobs ORDER BY number").fetchall() == before
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "CHECKs are tried too"
    counts = connection.execute("SELECT done, failed, cancelled, superseded, skipped FROM queue_counts")
    assert counts.fetchall() == [(1, 1, 1, 1, 2)]
    runs = connection.execute("SELECT id FROM jobs JOIN job_runs USING (run_id) WHERE job_number = jobs.number")
    assert runs.fetchall() == [("RUNNING",)]


LANE_ROW = """
INSERT INTO jobs (
  id, queue, job_type, subject_key, generation, state, created_at, finished_at, payload, priority, execution_mode,
  wait_for_idle, ttl_ms
)
VALUES (:id, 'q', 't', :subject, :generation, :state, 5, :finished_at, '{}', NULL, 'SUBPROCESS', 1, 9)
"""


def test_lanes_of_phase_four_hold_after_the_upgrade(tmp_path: Path) -> None:
    """Phase 4 enforced neither one job to a generation nor one waiting job to a lane."""
    connection = phase(4, tmp_path)
    rows = [("old", "s", 1, "QUEUED"), ("new", "s", 2, "QUEUED"), ("done", "u", 5, "DONE"), ("twin", "u", 5, "DONE")]
    rows += [("runs", "v", 1, "RUNNING"), ("waits", "v", 2, "QUEUED")]
    for job_id, subject, generation, state in rows:
        values = {"id": job_id, "subject": subject, "generation": generation, "state": state}
        connection.execute(LANE_ROW, {**values, "finished_at": 6 if state == "DONE" else None})
    migrate(connection, 7)
    found = connection.execute("SELECT id, state, supersede, claim_class, priority FROM jobs").fetchall()
    assert {row[0]: row[1:] for row in found} == {
        "old": ("SUPERSEDED", "lane", 1, 0), "new": ("QUEUED", "lane", 1, 0), "done": ("DONE", "none", 1, 0),
        "twin": ("DONE", "lane", 1, 0), "runs": ("RUNNING", "lane", 1, 0), "waits": ("QUEUED", "lane", 4, 0),
    }  # fmt: skip
    lanes = connection.execute("SELECT subject_key, generation, job_id, ended FROM lanes ORDER BY 1").fetchall()
    assert lanes == [("s", 2, "new", None), ("u", 5, "twin", "DONE"), ("v", 2, "waits", None)]
    assert connection.execute("SELECT expires_at FROM jobs WHERE id = 'new'").fetchone() == (14,)
