"""The status of a group follows from the states of its members."""

import pytest

from semantica_daemon.model.group import has_ended, status
from semantica_daemon.model.state import LIVE, TERMINAL


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({}, "PENDING"),
        ({"QUEUED": 2, "SCHEDULED": 1}, "PENDING"),
        ({"QUEUED": 2, "RUNNING": 1}, "RUNNING"),
        ({"QUEUED": 1, "DONE": 1}, "RUNNING"),
        ({"RUNNING": 1, "FAILED": 3}, "RUNNING"),
        ({"DONE": 3}, "DONE"),
        ({"DONE": 1, "SUPERSEDED": 4}, "DONE"),
        ({"DONE": 1, "FAILED": 1}, "PARTIAL"),
        ({"DONE": 1, "CANCELLED": 1}, "PARTIAL"),
        ({"DONE": 1, "SKIPPED_TTL": 1}, "PARTIAL"),
        ({"FAILED": 1, "CANCELLED": 5}, "FAILED"),
        ({"SKIPPED_DEADLINE": 1}, "FAILED"),
        ({"CANCELLED": 2}, "CANCELLED"),
        ({"SUPERSEDED": 2}, "CANCELLED"),
    ],
)
def test_the_status_is_derived_from_the_members(counts: dict[str, int], expected: str) -> None:
    assert status(counts) == expected


def test_a_group_has_ended_when_it_has_members_and_all_of_them_have() -> None:
    assert not has_ended({})
    for state in TERMINAL:
        assert has_ended({state: 1})
        assert all(not has_ended({state: 1, live: 1}) for live in LIVE)
