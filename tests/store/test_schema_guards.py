"""What the schema itself refuses, whoever asks: CHECKs that tie states to timestamps, runs written once."""

import sqlite3

import pytest

from semantica_daemon.model.state import RUNNING, STATES, TERMINAL
from tests.builders import Store
from tests.store.steps import begin, end, make, put
from tests.store.timetable import schedule, template

REFUSED = sqlite3.IntegrityError


def change(store: Store, table: str, key: str, assignment: str) -> None:
    column = "run_id" if table == "job_runs" else "id"
    store.connection.execute(f"UPDATE {table} SET {assignment} WHERE {column} = ?", (key,))


@pytest.mark.parametrize("current", STATES)
def test_finished_at_is_set_exactly_in_the_terminal_states(store: Store, current: str) -> None:
    job_id = make(store, current).job_id
    other = "NULL" if current in TERMINAL else "5"
    with pytest.raises(REFUSED):
        change(store, "jobs", job_id, f"finished_at = {other}")


@pytest.mark.parametrize("assignment", ["run_id = NULL", "started_at = NULL"])
def test_running_has_a_run_and_a_start(store: Store, assignment: str) -> None:
    with pytest.raises(REFUSED):
        change(store, "jobs", begin(store).run.job_id, assignment)


def test_queued_has_its_instant(store: Store) -> None:
    with pytest.raises(REFUSED):
        change(store, "jobs", put(store).job_id, "queued_at = NULL")


def test_superseded_names_the_winner(store: Store) -> None:
    with pytest.raises(REFUSED):
        change(store, "jobs", make(store, "SUPERSEDED").job_id, "superseded_by = NULL")


@pytest.mark.parametrize(
    "assignment",
    [
        "state = 'PENDING'",
        "execution_mode = 'EXTERNAL'",
        "schedule_type = 'CRON'",
        "supersede = 'all'",
        "claim_class = 3, blocked_by = 'lane'",
        "stop_state = 'DONE', cancel_requested_at = 5",
        "stop_state = 'CANCELLED', cancel_requested_at = NULL",
    ],
)
def test_a_value_out_of_its_set_is_refused(store: Store, assignment: str) -> None:
    with pytest.raises(REFUSED):
        change(store, "jobs", put(store).job_id, assignment)


FIXED = [
    "run_id = 'x'",
    "job_number = 9",
    "number = 9",
    "attempt = 9",
    "params_snapshot = '[]'",
    "started_at = 1",
    "worker_id = 'w'",
]
FIXED += ["template_id = 't'"]


@pytest.mark.parametrize("assignment", FIXED)
def test_what_a_run_began_with_never_changes(store: Store, assignment: str) -> None:
    claimed = begin(store)
    with pytest.raises(REFUSED, match="written once"):
        change(store, "job_runs", claimed.run.run_id, assignment)


@pytest.mark.parametrize("column", ["pid", "pid_started_at", "boot_id", "log_path"])
def test_a_run_s_identity_is_set_once(store: Store, column: str) -> None:
    run_id = begin(store).run.run_id
    change(store, "job_runs", run_id, f"{column} = 1")
    for again in ("2", "NULL"):
        with pytest.raises(REFUSED, match="named once"):
            change(store, "job_runs", run_id, f"{column} = {again}")


@pytest.mark.parametrize(
    "assignment",
    [*FIXED, "status = 'RUNNING', finished_at = NULL", "status = 'FAILED'", "error = '{}'", "exit_code = 1", "pid = 1"],
)
def test_a_run_is_ended_once(store: Store, assignment: str) -> None:
    claimed = begin(store)
    end(store, claimed)
    with pytest.raises(REFUSED, match=r"(written|named|ended) once"):
        change(store, "job_runs", claimed.run.run_id, assignment)


@pytest.mark.parametrize("assignment", ["status = 'DONE'", "finished_at = 5", "status = 'SKIPPED', finished_at = 5"])
def test_a_run_is_over_exactly_when_it_has_an_end(store: Store, assignment: str) -> None:
    with pytest.raises(REFUSED):
        change(store, "job_runs", begin(store).run.run_id, assignment)


def test_runs_go_with_their_job_and_never_without_one(forged: Store) -> None:
    claimed = begin(forged)
    values = (999, 1, "x", 1, 5)
    with pytest.raises(REFUSED, match="FOREIGN KEY"):
        forged.connection.execute(
            "INSERT INTO job_runs (job_number, number, run_id, attempt, started_at) VALUES (?, ?, ?, ?, ?)", values
        )
    forged.connection.execute("DELETE FROM jobs WHERE id = ?", (claimed.run.job_id,))
    assert forged.rows("SELECT * FROM job_runs") == []


def test_a_generation_is_in_its_lane_once(store: Store) -> None:
    put(store, subject_key="s", generation=5)
    other = put(store, subject_key="s", generation=6)
    with pytest.raises(REFUSED, match="UNIQUE"):
        change(store, "jobs", other.job_id, "generation = 5")


def test_outside_the_lanes_a_generation_may_repeat(store: Store) -> None:
    for spec in ({}, {"subject_key": "s", "supersede": "none"}):
        put(store, **spec)
        put(store, **spec)
    assert len(store.rows("SELECT id FROM jobs")) == 4


def test_a_job_of_a_state_nobody_may_write_cannot_be_made_running_by_hand(store: Store) -> None:
    with pytest.raises(REFUSED):
        change(store, "jobs", make(store, "DONE").job_id, f"state = '{RUNNING}'")


@pytest.mark.parametrize(
    "assignment",
    ["unmet = -1", "wait_for_idle = NULL"],
)
def test_what_a_job_waits_for_is_well_formed(store: Store, assignment: str) -> None:
    with pytest.raises(REFUSED):
        change(store, "jobs", put(store).job_id, assignment)


@pytest.mark.parametrize("assignment", ["waiting = 2", "waiting = NULL", "met_at = 5"])
def test_a_condition_that_is_met_is_not_waited_for(store: Store, assignment: str) -> None:
    put(store, schedule={"type": "CONDITION", "conditions": {"a": "1"}})
    with pytest.raises(REFUSED):
        store.connection.execute(f"UPDATE job_conditions SET {assignment}")


@pytest.mark.parametrize(
    "assignment",
    [
        "misfire = 'never'",
        "overlap = 'twice'",
        "enabled = 2",
        "enabled = 0",
        "template_id = 'nobody'",
        "param_overrides = '{'",
        "name = NULL",
    ],
)
def test_a_schedule_is_well_formed(store: Store, assignment: str) -> None:
    """One that is disabled has no next time, and every one a template."""
    template(store)
    schedule(store)
    with pytest.raises(REFUSED):
        store.connection.execute(f"UPDATE schedules SET {assignment}")


def test_a_template_that_a_schedule_uses_stays(store: Store) -> None:
    template(store)
    schedule(store)
    with pytest.raises(REFUSED, match="FOREIGN KEY"):
        store.connection.execute("DELETE FROM templates")


@pytest.mark.parametrize("table", ["templates", "schedules"])
def test_a_name_is_given_once(store: Store, table: str) -> None:
    for name in ("t", "u"):
        template(store, name)
        schedule(store, name)
    with pytest.raises(REFUSED, match="UNIQUE"):
        store.connection.execute(f"UPDATE {table} SET name = 'u'")
