"""A database as the release before conditions and schedules left it: its jobs go on where they were."""

import shutil
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.store.database import connect
from semantica_daemon.store.migrate import folder, migrate
from semantica_daemon.store.writes.clock import Reading, set_clock
from semantica_daemon.store.writes.recover import recover
from tests.builders import NOW, Store
from tests.store import invariants
from tests.store.schema import dump
from tests.store.steps import claimed_ids, emitted, needs, put, states, tick

DUMP = Path(__file__).parent / "schema_002.sql"
SOON = {"schedule_type": "AFTER", "schedule_delay_ms": 100, "scheduled_at": NOW + 100}
AT = {"schedule_type": "AT", "scheduled_at": NOW + 100}
ON_EVENT = {"schedule_type": "CONDITION", "wait_for_event": "e"}
RUN = {"run_id": "run", "started_at": NOW - 10, "attempts": 1, "run_count": 1}

# id: (state, what else its row says)
JOBS: dict[str, tuple[str, dict[str, Any]]] = {
    "after": ("SCHEDULED", SOON),
    "at": ("SCHEDULED", AT),
    "retry": ("SCHEDULED", {"scheduled_at": NOW + 100, "attempts": 1, "run_count": 1, "max_attempts": 2}),
    "retry of at": ("SCHEDULED", {**AT, "attempts": 1, "run_count": 1, "max_attempts": 2}),
    "event": ("SCHEDULED", ON_EVENT),
    "conditions": ("SCHEDULED", {**ON_EVENT, "scheduled_at": NOW + 100}),
    "retry of event": ("SCHEDULED", {**ON_EVENT, "scheduled_at": NOW + 100, "attempts": 1, "run_count": 1}),
    "idle": ("SCHEDULED", {"schedule_type": "CONDITION", "wait_for_idle": 1, "require_charging": None}),
    "queued": ("QUEUED", {"queued_at": NOW - 5, "wait_for_idle": None, "require_charging": None}),
    "queued after": ("QUEUED", {**SOON, "queued_at": NOW - 5, "scheduled_at": NOW - 5}),
    "running": ("RUNNING", {**RUN, "queued_at": NOW - 20}),
    "done": ("DONE", {"finished_at": NOW - 1, "started_at": NOW - 2, **ON_EVENT}),
}
CONDITIONS = [("conditions", "a", "1"), ("conditions", "b", "2"), ("done", "a", "1")]


def insert(connection: sqlite3.Connection, job_id: str, state: str, fields: dict[str, Any]) -> None:
    row: dict[str, Any] = {
        "id": job_id, "queue": "none", "job_type": "semantica.noop", "subject_key": "", "generation": 0,
        "state": state, "created_at": NOW - 50, "updated_at": NOW - 50, "payload": "{}", "position": 100,
        "execution_mode": "IN_PROCESS", "schedule_type": "IMMEDIATE", **fields,
    }  # fmt: skip
    sql = f"INSERT INTO jobs ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
    connection.execute(sql, tuple(row.values()))


COUNT = """
INSERT INTO queue_counts (queue, queued, scheduled, running, done, runs, wait_ms, ended_runs, run_ms)
SELECT queue, sum(state = 'QUEUED'), sum(state = 'SCHEDULED'), sum(state = 'RUNNING'), sum(state = 'DONE'),
  4, 40, 3, 3000
FROM jobs
"""


@pytest.fixture
def upgraded(tmp_path: Path) -> Iterator[Store]:
    source = tmp_path / "old"
    source.mkdir()
    for file in sorted(folder().glob("*.sql"))[:10]:
        shutil.copy(file, source)
    connection = connect(tmp_path / "meta.db")
    migrate(connection, NOW, source)
    assert dump(connection) == DUMP.read_text()
    for job_id, (state, fields) in JOBS.items():
        insert(connection, job_id, state, fields)
    connection.executemany("INSERT INTO job_conditions (job_id, key, value) VALUES (?, ?, ?)", CONDITIONS)
    columns = "run_id, job_id, attempt, params_snapshot, started_at"
    connection.execute(f"INSERT INTO job_runs ({columns}) VALUES ('run', 'running', 1, '{{}}', 5)")
    connection.execute(COUNT)
    connection.close()
    store = Store(tmp_path / "meta.db", slots=99)
    yield store
    store.close()


def test_every_row_is_still_there_and_sound(upgraded: Store) -> None:
    found = {row["id"]: row["state"] for row in upgraded.rows("SELECT id, state FROM jobs")}
    assert found == {job_id: state for job_id, (state, _) in JOBS.items()}
    assert upgraded.rows("PRAGMA integrity_check") == [{"integrity_check": "ok"}], "CHECKs are tried too"
    assert upgraded.rows("SELECT wait_for_idle FROM jobs WHERE wait_for_idle IS NULL OR require_charging IS NULL") == []
    invariants.check_waiting(upgraded)


def test_what_was_due_by_time_is_promoted_at_its_time(upgraded: Store) -> None:
    assert tick(upgraded) == NOW + 100
    timed = ("after", "at", "retry", "retry of at", "retry of event")
    assert set(states(upgraded, *timed)) == {"SCHEDULED"}
    tick(upgraded, 100)
    assert set(states(upgraded, *timed)) == {"QUEUED"}
    assert states(upgraded, "event", "conditions", "idle") == ["SCHEDULED"] * 3


def test_delays_and_backoffs_move_with_the_clock_and_times_do_not(upgraded: Store) -> None:
    upgraded.run(set_clock, Reading("boot", 0))
    upgraded.run(set_clock, Reading("boot", 5000))
    moved = {row["id"] for row in upgraded.rows("SELECT id FROM jobs WHERE scheduled_at = ?", NOW + 5100)}
    assert moved == {"after", "retry", "retry of at", "retry of event"}
    assert upgraded.job("queued after")["scheduled_at"] == NOW - 5


def test_who_waits_for_events_is_met_by_them_and_nobody_else(upgraded: Store) -> None:
    assert sorted(emitted(upgraded, "e")) == ["conditions", "event"]
    assert emitted(upgraded, "a", "1") == ["conditions"]
    assert emitted(upgraded, "b", "2") == ["conditions"]
    tick(upgraded, 100)
    assert states(upgraded, "event", "conditions", "done") == ["QUEUED", "QUEUED", "DONE"]


def test_who_waits_for_the_machine_is_seen(upgraded: Store) -> None:
    assert needs(upgraded).idle_at == 0
    upgraded.machine(idle=True)
    tick(upgraded)
    assert states(upgraded, "idle") == ["QUEUED"]


def test_what_ran_is_recovered_and_what_was_queued_is_claimed(upgraded: Store) -> None:
    assert upgraded.run(recover, frozenset()).jobs == {"running": "FAILED"}
    assert sorted(claimed_ids(upgraded)) == ["queued", "queued after"]


def test_how_long_runs_take_of_late_begins_with_the_mean(upgraded: Store) -> None:
    assert upgraded.rows("SELECT recent_run_ms FROM queue_counts") == [{"recent_run_ms": 1000}]


def test_new_jobs_of_every_kind_are_taken(upgraded: Store) -> None:
    fresh = [
        put(upgraded, queue="none", schedule={"type": "CONDITION", "wait_for_event": "e"}).job_id,
        put(upgraded, queue="none", subject_key="s", debounce_ms=5).job_id,
    ]
    assert set(emitted(upgraded, "e")) >= {fresh[0]}
    tick(upgraded, 5)
    assert states(upgraded, *fresh) == ["QUEUED", "QUEUED"]
