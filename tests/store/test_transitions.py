"""Every transition of the table, and the refusal of every other: each change, tried from each of the nine states."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from semantica_daemon.model import state
from semantica_daemon.model.outcome import LOST, Outcome
from semantica_daemon.model.retry import Verdict
from semantica_daemon.store import run_transition, transition
from semantica_daemon.store.run_transition import Running
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes.claim import claim
from tests.builders import Store
from tests.store.invariants import STATE_AFTER
from tests.store.steps import BAD, GOOD, LATER, begin, end, make, put

Change = Callable[[Tx, Running], Any]

OUTCOME_OF_END = {state.FAILED: BAD}
RUN_ENDS = (state.DONE, state.FAILED, state.CANCELLED, state.SUPERSEDED)


def start(tx: Tx, run: Running) -> bool:
    return run.job_id in [claimed.run.job_id for claimed in claim(tx)]


def ending(verdict: Verdict, outcome: Outcome) -> Change:
    def change(tx: Tx, run: Running) -> bool:
        job = run_transition.read_run(tx, run)
        if job is not None:
            run_transition.end_run(tx, run, job, verdict, outcome)
        return job is not None

    return change


def ending_waiting(to: str) -> Change:
    by = "winner" if to == state.SUPERSEDED else None
    return lambda tx, run: transition.end_waiting(tx, tx.read(run.job_number), to, by)


# name: (the change, the states it may start from, the state it leads to)
CHANGES: dict[str, tuple[Change, set[str], str]] = {
    "start": (start, {state.QUEUED}, state.RUNNING),
    "promote": (lambda tx, run: transition.promote(tx, tx.read(run.job_number)), {state.SCHEDULED}, state.QUEUED),
    "withdraw": (lambda tx, run: transition.withdraw(tx, tx.read(run.job_number)), {state.QUEUED}, state.SCHEDULED),
    "retry": (ending(Verdict(state.SCHEDULED, "FAILED", 5), BAD), {state.RUNNING}, state.SCHEDULED),
    "wait again": (ending(Verdict(state.SCHEDULED, "INTERRUPTED"), LOST), {state.RUNNING}, state.SCHEDULED),
    "put back": (ending(Verdict(state.QUEUED, "INTERRUPTED"), BAD), {state.RUNNING}, state.QUEUED),
}
for to in state.TERMINAL:
    if to in RUN_ENDS:
        verdict = msgspec.convert({"state": to, "run_status": to}, Verdict)
        CHANGES[f"end {to}"] = (ending(verdict, OUTCOME_OF_END.get(to, Outcome())), {state.RUNNING}, to)
    may_start = {origin for origin in (state.QUEUED, state.SCHEDULED) if to in state.TRANSITIONS[origin]}
    CHANGES[f"end_waiting {to}"] = (ending_waiting(to), may_start, to)

PAIRS = [(name, current) for name in CHANGES for current in state.STATES]
ALLOWED = [(name, current) for name, current in PAIRS if current in CHANGES[name][1]]
REFUSED: dict[str, list[str]] = {}
for name, current in PAIRS:
    if (name, current) not in ALLOWED:
        REFUSED.setdefault(current, []).append(name)


def everything(store: Store) -> list[Any]:
    tables = ("jobs", "job_runs", "job_events", "lanes", "queue_counts")
    return [store.rows(f"SELECT * FROM {table}") for table in tables]


def attempt(store: Store, change: Change, run: Running) -> Any:
    """What the change answers; a verb that raises has been rolled back and answers None."""
    try:
        return store.run(change, run)
    except Exception:
        return None


AGAIN = "SCHEDULED again"


def made(store: Store, current: str) -> Running:
    """Among others in every live state, so that no count stands at zero and hides a wrong change. For a job
    interrupted by a newer one, SUPERSEDED needs the winner's name."""
    begin(store)
    if current == AGAIN:
        claimed = begin(store, max_attempts=3)
        end(store, claimed, BAD)
        run = claimed.run
    else:
        run = make(store, current, max_attempts=3)
    put(store, queue="none"), put(store, schedule=LATER)
    if current == state.RUNNING:
        store.connection.execute("UPDATE jobs SET superseded_by = 'winner' WHERE id = ?", (run.job_id,))
    return run


@pytest.mark.parametrize(("name", "current"), ALLOWED)
def test_an_allowed_change_is_made_and_told_once(store: Store, name: str, current: str) -> None:
    change, _, to = CHANGES[name]
    run = made(store, current)
    before = len(store.events())
    assert attempt(store, change, run)
    job = store.job(run.job_id)
    assert job["state"] == to
    assert to in state.TRANSITIONS[current]
    (event,) = store.events()[before:]
    assert STATE_AFTER[event["event_type"]] == to


REFUSED[AGAIN] = REFUSED[state.SCHEDULED]


@pytest.mark.parametrize("current", REFUSED)
def test_every_other_change_is_refused_and_nothing_is_changed(store: Store, current: str) -> None:
    run = made(store, current)
    before = everything(store)
    for name in REFUSED[current]:
        assert not attempt(store, CHANGES[name][0], run), name
        assert everything(store) == before, name


def test_the_changes_make_up_the_whole_table() -> None:
    reached = {(current, CHANGES[name][2]) for name, current in ALLOWED}
    table = {(origin, to) for origin, targets in state.TRANSITIONS.items() for to in targets if origin != state.NEW}
    assert reached == table


@pytest.mark.parametrize("waits", [{"wait_for_event": "e"}, {"conditions": {"a": "1"}}])
def test_what_still_has_to_happen_once_is_never_promoted(store: Store, waits: dict[str, Any]) -> None:
    """Whoever asks: the guard is in the change itself."""
    job_id = put(store, schedule={"type": "CONDITION", **waits}).job_id
    before = everything(store)
    assert not attempt(store, CHANGES["promote"][0], Running(job_id, "", 0, 0, store.job(job_id)["number"], 0))
    assert everything(store) == before


@pytest.mark.parametrize("name", [name for name, current in ALLOWED if current == state.RUNNING])
def test_a_running_job_changes_only_by_its_own_run(store: Store, name: str) -> None:
    run = made(store, state.RUNNING)
    before = everything(store)
    other = msgspec.structs.replace(run, run_id="00000000-0000-7000-8000-000000000000")
    assert not attempt(store, CHANGES[name][0], other)
    assert everything(store) == before


def test_a_change_of_a_job_nobody_knows_does_nothing(store: Store) -> None:
    put(store, queue="none")
    before = everything(store)
    nobody = Running("nobody", "no run", 1, store.now, 99, 1)
    assert not any(attempt(store, change, nobody) for change, _, _ in CHANGES.values())
    assert everything(store) == before


def test_a_run_ends_with_its_job_in_one_commit(store: Store) -> None:
    claimed = begin(store)
    end(store, claimed, GOOD)
    (row,) = store.rows(
        "SELECT j.finished_at = r.finished_at AS same FROM jobs j JOIN job_runs r ON job_number = j.number"
    )
    assert row == {"same": 1}
