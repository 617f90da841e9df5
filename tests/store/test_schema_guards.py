"""What the schema itself refuses, whoever asks: CHECKs that tie states to timestamps, runs written once."""

import sqlite3

import pytest

from semantica_daemon.model.state import LIVE, RUNNING, STATES, TERMINAL
from semantica_daemon.store.database import Command, FailedAfterWrite
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes.enqueue import enqueue
from tests.builders import Store, admitted
from tests.store.steps import BAD, GOOD, begin, end, make, put
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


def test_what_a_job_is_may_change_until_it_has_run(store: Store) -> None:
    job_id = put(store).job_id
    for assignment in EDITS:
        change(store, "jobs", job_id, assignment)


EDITS = ["payload = '{\"a\":1}'", "env_vars = '{}'", "job_type = 'other'", 'spec = \'{"template_id":"t"}\'']


@pytest.mark.parametrize("current", [RUNNING, "SCHEDULED", "DONE"])
@pytest.mark.parametrize("assignment", EDITS)
def test_what_a_job_is_never_changes_once_it_has_run(store: Store, current: str, assignment: str) -> None:
    """SCHEDULED: it waits for its second attempt."""
    claimed = begin(store, max_attempts=2)
    if current != RUNNING:
        end(store, claimed, BAD if current == "SCHEDULED" else GOOD)
    assert store.job(claimed.run.job_id)["state"] == current
    with pytest.raises(REFUSED, match="keeps its payload, variables, type and template"):
        change(store, "jobs", claimed.run.job_id, assignment)


def by_hand(to: str) -> list[str]:
    """Every way to write that state into a row: with or without the columns that are tied to it."""
    ended, finished = ("NULL", "NULL") if to in LIVE else (f"'{to}'", "5")
    whole = f"state = '{to}', ended = {ended}, finished_at = {finished}, queued_at = 1, run_id = 'r', started_at = 1"
    parts = [f"state = '{to}'", f"state = '{to}', finished_at = {finished}", f"state = '{to}', ended = {ended}"]
    return [whole, whole + ", superseded_by = 'x'", *parts]


@pytest.mark.parametrize("current", TERMINAL)
def test_there_is_no_way_out_of_a_terminal_state(store: Store, current: str) -> None:
    job_id = make(store, current).job_id
    before = store.job(job_id)
    for to in STATES:
        ways = by_hand(to) if to != current else ["finished_at = finished_at + 1"]
        for assignment in ways[: -1 if (current, to) == ("DONE", "FAILED") else None]:
            with pytest.raises(REFUSED):
                change(store, "jobs", job_id, assignment)
            assert store.job(job_id) == before


def test_only_a_missing_receipt_makes_a_job_that_was_done_fail(store: Store) -> None:
    """The exception of docs/semantics.md; its end stays when it was."""
    job_id = make(store, "DONE").job_id
    store.connection.execute("BEGIN")
    change(store, "jobs", job_id, "state = 'FAILED', ended = 'FAILED'")
    store.connection.execute("ROLLBACK")


@pytest.mark.parametrize("current", STATES)
def test_only_a_job_that_has_ended_is_archived(store: Store, current: str) -> None:
    job_id = make(store, current).job_id
    if current in TERMINAL:
        change(store, "jobs", job_id, "archived_at = 5")
    else:
        with pytest.raises(REFUSED, match="only a job that has ended is archived"):
            change(store, "jobs", job_id, "archived_at = 5")


def test_a_verb_that_breaks_a_guard_fails_alone(store: Store) -> None:
    """The trigger rolls the transaction back; the other commands of the batch run again without it."""
    ended_id = make(store, "DONE").job_id

    def revive(tx: Tx, request: None) -> None:
        tx.execute("UPDATE jobs SET state = 'FAILED', ended = 'FAILED', finished_at = 5 WHERE id = ?", (ended_id,))

    commands = [Command(enqueue, admitted()), Command(revive, None)]
    with pytest.raises(FailedAfterWrite):
        store.database.transact(commands, store.now, None)
    with pytest.raises(REFUSED, match="the end of a job is final"):
        store.run(revive, None)
    assert len(store.rows("SELECT id FROM jobs")) == 1
    put(store)
