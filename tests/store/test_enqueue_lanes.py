"""Newest wins inside a lane; subjects, types and `none` keep jobs apart; what is known is returned, never doubled."""

import msgspec
import pytest

from semantica_daemon.wire.job import Ack
from tests.builders import Store
from tests.store.steps import BAD, GOOD, LATER, begin, claimed_ids, claims, end, event_types, put, states, stop, tick

ECHO = "semantica.echo"


def lane(store: Store, subject: str = "s", job_type: str = "semantica.noop") -> dict[str, object]:
    (row,) = store.rows("SELECT * FROM lanes WHERE subject_key = ? AND job_type = ?", subject, job_type)
    return row


def test_a_newer_job_supersedes_what_is_queued_and_names_itself(store: Store) -> None:
    older = put(store, subject_key="s")
    newer = put(store, subject_key="s")
    assert newer == Ack(newer.job_id, "default", "QUEUED", 2, (older.job_id,))
    row = store.job(older.job_id)
    assert (row["state"], row["superseded_by"], row["finished_at"]) == ("SUPERSEDED", newer.job_id, store.now)
    (event,) = [event for event in store.events() if event["event_type"] == "job.superseded"]
    assert msgspec.json.decode(event["payload"]) == {"superseded_by": newer.job_id}
    assert claimed_ids(store) == [newer.job_id]


def test_a_newer_job_supersedes_what_is_scheduled(store: Store) -> None:
    older = put(store, subject_key="s", schedule=LATER)
    assert put(store, subject_key="s").superseded == (older.job_id,)
    tick(store, 5000)
    assert states(store, older.job_id) == ["SUPERSEDED"]


def test_a_newer_job_supersedes_a_retry_that_waits(store: Store) -> None:
    claimed = begin(store, subject_key="s", max_attempts=3)
    end(store, claimed, BAD)
    assert put(store, subject_key="s").superseded == (claimed.run.job_id,)


def test_a_lane_may_span_queues(store: Store) -> None:
    older = put(store, subject_key="s", queue="one")
    assert put(store, subject_key="s", queue="default").superseded == (older.job_id,)


def test_another_type_or_subject_is_another_lane(store: Store) -> None:
    acks = [put(store, subject_key="s"), put(store, ECHO, subject_key="s"), put(store, subject_key="t")]
    assert [ack.generation for ack in acks] == [1, 1, 1]
    assert states(store, *(ack.job_id for ack in acks)) == ["QUEUED"] * 3


def test_jobs_without_a_subject_never_meet(store: Store) -> None:
    first, second = put(store), put(store)
    assert (first.generation, second.generation) == (None, None)
    assert states(store, first.job_id, second.job_id) == ["QUEUED", "QUEUED"]
    assert store.rows("SELECT * FROM lanes") == []


def test_supersede_none_keeps_a_job_outside_its_lane(store: Store) -> None:
    first = put(store, subject_key="s")
    outside = [put(store, subject_key="s", supersede="none") for _ in range(2)]
    newest = put(store, subject_key="s")
    assert newest.superseded == (first.job_id,)
    assert states(store, *(ack.job_id for ack in outside)) == ["QUEUED", "QUEUED"]
    assert lane(store)["generation"] == 2
    assert len(claims(store)) == 2, "nor does the lane's one-at-a-time hold them back"


def test_a_job_outside_the_lane_does_not_hold_the_lane_back(store: Store) -> None:
    begin(store, subject_key="s", supersede="none")
    begin(store, subject_key="s")


def test_supersede_subject_ends_the_waiting_jobs_of_every_type(store: Store) -> None:
    noop = put(store, subject_key="s")
    echo = put(store, ECHO, subject_key="s", schedule=LATER)
    other = put(store, ECHO, subject_key="t")
    outside = put(store, ECHO, subject_key="s", supersede="none")
    newest = put(store, subject_key="s", supersede="subject")
    assert set(newest.superseded) == {noop.job_id, echo.job_id}
    assert states(store, other.job_id, outside.job_id) == ["QUEUED", "QUEUED"]
    assert (lane(store, "s", ECHO)["ended"], lane(store, "s", ECHO)["job_id"]) == ("SUPERSEDED", echo.job_id)


def test_supersede_subject_outdates_what_runs_under_another_type(store: Store) -> None:
    runs = begin(store, job_type=ECHO, subject_key="s", max_attempts=5)
    newest = put(store, subject_key="s", supersede="subject")
    row = store.job(runs.run.job_id)
    assert (row["state"], row["stale"], row["superseded_by"]) == ("RUNNING", 1, newest.job_id)
    assert claimed_ids(store) == [newest.job_id], "another type is another lane: both may run"
    assert end(store, runs, BAD) == "SUPERSEDED"


def test_a_lower_generation_is_recorded_and_never_runs(store: Store) -> None:
    newest = put(store, subject_key="s", generation=10)
    stale = put(store, subject_key="s", generation=9, schedule=LATER)
    assert (stale.state, stale.generation, stale.existing, stale.superseded) == ("SUPERSEDED", 9, False, ())
    assert stale.warnings == (f"not run: job {newest.job_id[:8]} was added for a newer version of s",)
    row = store.job(stale.job_id)
    assert (row["superseded_by"], row["finished_at"]) == (newest.job_id, store.now)
    assert event_types(store, stale.job_id) == ["job.superseded"]
    assert lane(store)["job_id"] == newest.job_id
    assert states(store, newest.job_id) == ["QUEUED"]
    tick(store, 5000)
    assert claimed_ids(store) == [newest.job_id]


@pytest.mark.parametrize("generation", [9, 10])
def test_a_known_generation_is_returned_as_it_is_now(store: Store, generation: int) -> None:
    older = begin(store, subject_key="s", generation=9)
    put(store, subject_key="s", generation=10)
    end(store, older)
    again = put(store, subject_key="s", generation=generation, queue="one", priority=5)
    assert again.existing
    assert (again.queue, again.generation, again.superseded) == ("default", generation, ())
    assert again.state == ("DONE" if generation == 9 else "QUEUED")
    assert len(store.rows("SELECT id FROM jobs")) == 2
    assert store.committed is not None
    assert store.committed.events == []


def test_a_stale_generation_is_recorded_once(store: Store) -> None:
    put(store, subject_key="s", generation=10)
    first = put(store, subject_key="s", generation=9)
    again = put(store, subject_key="s", generation=9)
    assert (again.job_id, again.existing, again.state) == (first.job_id, True, "SUPERSEDED")


def test_zero_is_a_generation_like_any_other(store: Store) -> None:
    zero = put(store, subject_key="s", generation=0)
    assert zero.generation == 0
    assert put(store, subject_key="s", generation=0).existing
    assert put(store, subject_key="s", generation=1).superseded == (zero.job_id,)


def test_a_lane_at_the_largest_generation_goes_on(store: Store) -> None:
    largest = put(store, subject_key="s", generation=2**62)
    assert put(store, subject_key="s", generation=2**62).job_id == largest.job_id
    stop(store, largest.job_id)
    assert put(store, subject_key="s").generation == 2**62 + 1


def test_a_pruned_newest_generation_still_wins(forged: Store) -> None:
    """What a lane knows outlives its jobs: neither the same nor an older save runs again."""
    claimed = begin(forged, subject_key="s", generation=10)
    end(forged, claimed)
    forged.connection.execute("DELETE FROM jobs")
    again = put(forged, subject_key="s", generation=10)
    assert (again.job_id, again.existing, again.state, again.generation) == (claimed.run.job_id, True, "DONE", 10)
    older = put(forged, subject_key="s", generation=9)
    assert (older.state, older.existing) == ("SUPERSEDED", False)
    assert put(forged, subject_key="s", generation=11).state == "QUEUED"


def test_a_lane_remembers_how_its_newest_ended(store: Store) -> None:
    for outcome, ended in ((GOOD, "DONE"), (BAD, "FAILED")):
        claimed = begin(store, subject_key="s")
        assert lane(store)["ended"] is None
        end(store, claimed, outcome)
        assert lane(store)["ended"] == ended
    stop(store, put(store, subject_key="s").job_id)
    assert lane(store)["ended"] == "CANCELLED"
    put(store, subject_key="s", ttl_ms=5)
    tick(store, 5)
    assert lane(store)["ended"] == "SKIPPED_TTL"


def test_the_end_of_an_older_job_is_not_the_lane_s(store: Store) -> None:
    older = begin(store, subject_key="s")
    put(store, subject_key="s")
    end(store, older)
    assert lane(store)["ended"] is None


def test_one_job_of_a_lane_runs_at_a_time_and_blocks_nobody_else(store: Store) -> None:
    older = begin(store, subject_key="s")
    newer = put(store, subject_key="s", priority=100)
    other = put(store, priority=-100)
    assert claimed_ids(store) == [other.job_id]
    assert states(store, newer.job_id) == ["QUEUED"]
    end(store, older)
    assert claimed_ids(store) == [newer.job_id]


def test_one_at_a_time_holds_across_queues(store: Store) -> None:
    older = begin(store, subject_key="s", queue="one")
    newer = put(store, subject_key="s", queue="default")
    assert claims(store) == []
    end(store, older)
    assert claimed_ids(store) == [newer.job_id]


def test_lanes_whose_names_look_alike_are_apart(store: Store) -> None:
    """Type a:b with subject c, and type a with subject b:c: an end in one lane opens nothing in the other."""
    payload = {"argv": ["true"]}
    first = put(store, "a:b", subject_key="c", generation=1, payload=payload)
    other = put(store, "a", subject_key="b:c", generation=1, payload=payload)
    running = {claimed.run.job_id: claimed for claimed in claims(store)}
    assert set(running) == {first.job_id, other.job_id}
    put(store, "a:b", subject_key="c", generation=2, payload=payload)
    next_other = put(store, "a", subject_key="b:c", generation=2, payload=payload)
    end(store, running[other.job_id])
    assert claimed_ids(store) == [next_other.job_id]
