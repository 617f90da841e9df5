"""A lane is numbered by one party; the owner may change while nothing of the lane is live."""

import pytest

from semantica_daemon.errors import GenerationOwner
from semantica_daemon.store.writes.enqueue import enqueue, forecast
from tests.builders import Store, admitted
from tests.store.steps import begin, end, make, put, stop


def owner(store: Store) -> str:
    (row,) = store.rows("SELECT numbered_by FROM lanes")
    return str(row["numbered_by"])


@pytest.mark.parametrize("live", ["QUEUED", "SCHEDULED", "RUNNING"])
def test_a_number_is_refused_while_the_server_s_job_is_live(store: Store, live: str) -> None:
    make(store, live, subject_key="s")
    with pytest.raises(GenerationOwner) as refused:
        put(store, subject_key="s", generation=100)
    assert (refused.value.number, refused.value.code) == (4002, "E_GENERATION_OWNER")
    assert refused.value.details == {"newest_generation": 1}
    assert "leave generation out" in refused.value.hint


@pytest.mark.parametrize("live", ["QUEUED", "SCHEDULED", "RUNNING"])
def test_no_number_is_refused_while_the_client_s_job_is_live(store: Store, live: str) -> None:
    make(store, live, subject_key="s", generation=100)
    with pytest.raises(GenerationOwner) as refused:
        put(store, subject_key="s")
    assert refused.value.details == {"newest_generation": 100}
    assert "give a generation" in refused.value.hint


def test_a_client_takes_over_an_idle_lane_with_a_higher_number(store: Store) -> None:
    end(store, begin(store, subject_key="s"))
    assert put(store, subject_key="s", generation=1000).generation == 1000
    assert owner(store) == "client"


@pytest.mark.parametrize("generation", [0, 1])
def test_a_client_does_not_take_over_with_a_number_that_is_not_higher(store: Store, generation: int) -> None:
    end(store, begin(store, subject_key="s"))
    with pytest.raises(GenerationOwner):
        put(store, subject_key="s", generation=generation)
    assert owner(store) == "server"


def test_the_server_takes_over_an_idle_lane_from_its_newest_on(store: Store) -> None:
    stop(store, put(store, subject_key="s", generation=1000).job_id)
    assert put(store, subject_key="s").generation == 1001
    assert owner(store) == "server"


def test_a_job_outside_the_lane_does_not_keep_its_owner(store: Store) -> None:
    stop(store, put(store, subject_key="s").job_id)
    put(store, subject_key="s", supersede="none")
    put(store, "semantica.echo", subject_key="s")
    assert put(store, subject_key="s", generation=50).generation == 50


def test_a_refusal_changes_nothing_and_the_plan_says_the_same(store: Store) -> None:
    put(store, subject_key="s")
    before = len(store.events())
    for verb in (enqueue, forecast):
        with pytest.raises(GenerationOwner):
            store.run(verb, admitted(subject_key="s", generation=9))
    assert len(store.events()) == before
    assert len(store.rows("SELECT id FROM jobs")) == 1
