"""gather: a job has the payloads of the jobs that it stands for, oldest first, and none is lost on the way."""

from typing import Any

import msgspec
import pytest

from semantica_daemon.errors import InvalidParams
from semantica_daemon.model.gather import MOST_PAYLOADS
from semantica_daemon.store.writes.enqueue import forecast
from semantica_daemon.store.writes.retry import retry
from semantica_daemon.store.writes.update import update
from semantica_daemon.wire.editing import UpdateParams
from semantica_daemon.wire.job import Ack, RetryParams
from tests.builders import Store, admitted
from tests.store.steps import BAD, COMMAND, GOOD, HOPELESS, begin, claims, end, put, stop, tick


def save(store: Store, file: str, **spec: Any) -> Ack:
    return put(store, **{"subject_key": "s", "gather": True, "payload": {"file": file}, **spec})


def payload(store: Store, job_id: str) -> Any:
    return msgspec.json.decode(store.job(job_id)["payload"])


def files(store: Store, job_id: str) -> list[str]:
    """What the job has gathered, and its own."""
    found = payload(store, job_id)
    return [one["file"] for one in (*found.get("gathered", []), found)]


def test_a_job_that_supersedes_nothing_has_gathered_nothing(store: Store) -> None:
    assert payload(store, save(store, "a").job_id) == {"file": "a"}


def test_the_payloads_of_the_superseded_come_along_oldest_first(store: Store) -> None:
    acks = [save(store, file) for file in "abcd"]
    assert payload(store, acks[-1].job_id) == {
        "file": "d", "gathered": [{"file": "a"}, {"file": "b"}, {"file": "c"}]
    }  # fmt: skip
    assert payload(store, acks[1].job_id) == {"file": "b", "gathered": [{"file": "a"}]}, "as it was when it ended"


def test_debounced_saves_make_one_run_that_knows_them_all(store: Store) -> None:
    for file in "abc":
        save(store, file, debounce_ms=100)
        store.now += 50
    tick(store, 100)
    (claimed,) = claims(store)
    assert files(store, claimed.run.job_id) == ["a", "b", "c"]
    assert claimed.payload == store.job(claimed.run.job_id)["payload"]


def test_what_a_job_without_gather_replaces_is_lost_as_it_asked(store: Store) -> None:
    save(store, "a")
    plain = save(store, "b", gather=False)
    assert payload(store, plain.job_id) == {"file": "b"}
    assert files(store, save(store, "c").job_id) == ["b", "c"]


def test_a_payload_with_a_field_of_that_name_is_gathered_as_it_is(store: Store) -> None:
    save(store, "a", gather=False, payload={"file": "a", "gathered": 7})
    newest = save(store, "b")
    assert payload(store, newest.job_id)["gathered"] == [{"file": "a", "gathered": 7}]


def test_superseding_the_subject_gathers_from_all_its_types(store: Store) -> None:
    save(store, "a", job_type="semantica.echo")
    assert files(store, save(store, "b", supersede="subject").job_id) == ["a", "b"]


def test_a_kept_job_takes_the_new_payload_over(store: Store) -> None:
    kept, _, _ = (save(store, file, supersede="keep") for file in "abc")
    assert [kept.existing, payload(store, kept.job_id)] == [
        False, {"file": "a", "gathered": [{"file": "b"}, {"file": "c"}]}
    ]  # fmt: skip
    assert [event["event_type"] for event in store.events()] == ["job.queued", "job.updated", "job.updated"]


def test_a_repeated_call_with_one_key_is_gathered_once(store: Store) -> None:
    first = save(store, "a", supersede="keep")
    for _ in range(3):
        assert save(store, "b", supersede="keep", idempotency_key="k").job_id == first.job_id
    assert payload(store, first.job_id)["gathered"] == [{"file": "b"}]


def test_a_job_that_has_run_gathers_nothing_more_so_a_new_one_waits_behind_it(store: Store) -> None:
    claimed = begin(store, subject_key="s", supersede="keep", gather=True, payload={"file": "a"}, max_attempts=2)
    end(store, claimed, BAD)
    behind = save(store, "b", supersede="keep")
    assert (behind.existing, files(store, behind.job_id)) == (False, ["b"])
    assert files(store, claimed.run.job_id) == ["a"]


def test_a_waiting_job_that_does_not_gather_is_not_changed(store: Store) -> None:
    plain = save(store, "a", gather=False, supersede="keep")
    new = save(store, "b", supersede="keep")
    assert (new.existing, payload(store, plain.job_id)) == (False, {"file": "a"})


def test_a_run_that_fails_and_is_no_longer_the_newest_hands_its_payload_on(store: Store) -> None:
    claimed = begin(store, subject_key="s", gather=True, payload={"file": "a"}, max_attempts=3)
    save(store, "b")
    newest = save(store, "c")
    assert end(store, claimed, BAD) == "SUPERSEDED"
    assert files(store, newest.job_id) == ["a", "b", "c"]


def test_an_interrupted_run_hands_its_payload_on_to_the_newest_by_then(store: Store) -> None:
    claimed = begin(store, subject_key="s", gather=True, payload={"file": "a"})
    save(store, "b", on_running="cancel")
    save(store, "c", on_running="cancel")
    newest = save(store, "d", on_running="cancel")
    assert end(store, claimed, GOOD) == "SUPERSEDED"
    assert files(store, newest.job_id) == ["a", "b", "c", "d"]


def test_a_run_that_hands_on_gives_what_it_had_gathered_too(store: Store) -> None:
    save(store, "a")
    save(store, "b")
    (claimed,) = claims(store)
    newest = save(store, "c", on_running="cancel")
    end(store, claimed, BAD)
    assert files(store, newest.job_id) == ["a", "b", "c"]


@pytest.mark.parametrize("outcome", [GOOD, HOPELESS])
def test_a_run_that_ends_by_itself_hands_nothing_on(store: Store, outcome: Any) -> None:
    claimed = begin(store, subject_key="s", gather=True, payload={"file": "a"})
    newest = save(store, "b")
    end(store, claimed, outcome)
    assert files(store, newest.job_id) == ["b"]


def test_a_job_that_does_not_gather_is_handed_nothing(store: Store) -> None:
    claimed = begin(store, subject_key="s", gather=True, payload={"file": "a"})
    newest = save(store, "b", gather=False, on_running="cancel")
    end(store, claimed)
    assert payload(store, newest.job_id) == {"file": "b"}


def test_an_older_generation_that_comes_late_is_gathered_by_the_newest(store: Store) -> None:
    newest = save(store, "b", generation=2)
    late = save(store, "a", generation=1)
    assert (late.state, files(store, newest.job_id)) == ("SUPERSEDED", ["a", "b"])


def test_an_older_generation_that_comes_after_the_run_changes_nothing(store: Store) -> None:
    claimed = begin(store, subject_key="s", generation=2, gather=True, payload={"file": "b"})
    save(store, "a", generation=1)
    assert files(store, claimed.run.job_id) == ["b"]


def test_a_retry_has_what_the_job_had_gathered(store: Store) -> None:
    save(store, "a")
    job = save(store, "b")
    stop(store, job.job_id)
    again: Ack = store.run(retry, RetryParams(job_id=job.job_id))
    assert files(store, again.job_id) == ["a", "b"]
    assert store.job(again.job_id)["gather"]
    stop(store, again.job_id)
    other: Ack = store.run(retry, RetryParams(job_id=job.job_id, payload={"file": "x"}))
    assert payload(store, other.job_id) == {"file": "x"}


def test_an_edited_job_keeps_what_it_has_gathered(store: Store) -> None:
    save(store, "a", **COMMAND, job_type="T")
    job = save(store, "b", **COMMAND, job_type="T")
    store.run(update, UpdateParams(job_id=job.job_id, env_vars={"A": "1"}))
    store.run(update, UpdateParams(job_id=job.job_id, payload={"argv": ["false"]}))
    assert payload(store, job.job_id) == {"argv": ["false"], "gathered": [{"argv": ["true"]}]}
    with pytest.raises(InvalidParams):
        store.run(update, UpdateParams(job_id=job.job_id, payload={"argv": ["false"], "gathered": []}))


def test_beyond_the_limit_the_oldest_are_dropped_and_counted(store: Store) -> None:
    for number in range(MOST_PAYLOADS + 4):
        newest = save(store, str(number))
    found = payload(store, newest.job_id)
    assert (len(found["gathered"]), found["gathered_dropped"]) == (MOST_PAYLOADS, 3)
    assert [found["gathered"][0]["file"], found["gathered"][-1]["file"]] == ["3", str(MOST_PAYLOADS + 2)]
    assert payload(store, save(store, "last").job_id)["gathered_dropped"] == 4


def test_a_plan_gathers_nothing(store: Store) -> None:
    first = save(store, "a", supersede="keep")
    spec: dict[str, Any] = {"subject_key": "s", "supersede": "keep", "gather": True, "payload": {"file": "b"}}
    assert store.run(forecast, admitted(**spec)).existing == first.job_id
    assert payload(store, first.job_id) == {"file": "a"}


REFUSED: dict[str, dict[str, Any]] = {
    "$.gather": {"subject_key": None},
    "$.payload.gathered": {"payload": {"gathered": []}},
    "$.payload.gathered_dropped": {"payload": {"gathered_dropped": 1}},
}


@pytest.mark.parametrize("path", REFUSED)
def test_what_makes_no_sense_with_gather_is_refused(store: Store, path: str) -> None:
    with pytest.raises(InvalidParams) as refused:
        save(store, "a", **REFUSED[path])
    assert refused.value.details["path"] == path


@pytest.mark.parametrize("mode", ["none", "append"])
def test_a_mode_that_replaces_nothing_gathers_nothing(store: Store, mode: str) -> None:
    with pytest.raises(InvalidParams):
        save(store, "a", supersede=mode)
