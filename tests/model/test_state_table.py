"""The table of transitions, held against the one of the design, row by row."""

from semantica_daemon.model.state import LIVE, STATES, TERMINAL, TRANSITIONS

# docs/semantics.md, "States": from (several), to.
DESIGN = """
new -> QUEUED
new -> SCHEDULED
new -> SUPERSEDED
SCHEDULED -> QUEUED
QUEUED -> SCHEDULED
QUEUED -> RUNNING
QUEUED, SCHEDULED -> SUPERSEDED
QUEUED -> SKIPPED_TTL
QUEUED, SCHEDULED -> SKIPPED_DEADLINE
RUNNING -> DONE
RUNNING -> FAILED
RUNNING -> SCHEDULED
RUNNING -> QUEUED
RUNNING -> SUPERSEDED
QUEUED, SCHEDULED, RUNNING -> CANCELLED
"""


def test_the_table_is_the_design_s() -> None:
    rows = [line.split(" -> ") for line in DESIGN.strip().splitlines()]
    designed = {(origin, to) for origins, to in rows for origin in origins.split(", ")}
    assert {(origin, to) for origin, targets in TRANSITIONS.items() for to in targets} == designed


def test_there_are_nine_states_and_a_terminal_one_never_changes() -> None:
    assert len(set(STATES)) == 9
    assert set(LIVE) | set(TERMINAL) == set(STATES)
    assert all(not TRANSITIONS[state] for state in TERMINAL)
    assert all(TRANSITIONS[state] for state in LIVE)
