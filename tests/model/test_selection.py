"""One selection for every method that changes many jobs: exactly one field, and what becomes of each job."""

import pytest

from semantica_daemon.errors import InvalidParams
from semantica_daemon.model.selection import (
    FIELDS,
    Hit,
    Selection,
    selection,
    sorted_hits,
    to_archive,
    to_cancel,
    to_hold,
    to_release,
)
from semantica_daemon.model.state import STATES, TERMINAL
from semantica_daemon.wire.selection import SelectionParams
from tests.cases import each_case


def test_a_selection_is_by_ids_or_by_one_field() -> None:
    assert selection(SelectionParams(job_id="abcd")) == Selection(("abcd",))
    assert selection(SelectionParams(job_ids=["abcd", "ef01"])) == Selection(("abcd", "ef01"))
    assert selection(SelectionParams(schedule_id="s")) == Selection(field="schedule_id", value="s")


def test_every_field_but_dry_run_selects() -> None:
    assert set(FIELDS) == set(SelectionParams.__struct_fields__) - {"dry_run"}


@each_case("params", [SelectionParams(), SelectionParams(queue="q", user_tag="t"), SelectionParams(dry_run=True)])
def test_nothing_or_two_fields_are_refused(params: SelectionParams) -> None:
    with pytest.raises(InvalidParams) as refused:
        selection(params)
    assert refused.value.details["path"] == "$"


def test_what_each_method_does_to_a_job() -> None:
    for state in STATES:
        waits, over = state in ("QUEUED", "SCHEDULED"), state in TERMINAL
        hit = Hit(1, "a", state)
        assert to_cancel(hit) == ("unchanged" if over else "cancelled" if waits else "cancelling")
        assert to_hold(hit) == ("changed" if waits else "unchanged")
        assert to_release(hit) == "unchanged"
        assert to_archive(hit) == ("changed" if over else "unchanged")
    held, archived = Hit(1, "a", "SCHEDULED", is_held=1), Hit(1, "a", "DONE", is_archived=1)
    assert (to_hold(held), to_release(held)) == ("unchanged", "changed")
    assert to_archive(archived) == "unchanged"


def test_hits_are_listed_by_what_becomes_of_them() -> None:
    hits = [Hit(1, "a", "DONE"), Hit(2, "b", "QUEUED"), Hit(3, "c", "RUNNING"), Hit(4, "d", "QUEUED")]
    assert sorted_hits(to_cancel, hits) == {"unchanged": ["a"], "cancelled": ["b", "d"], "cancelling": ["c"]}
