"""The end of a run that has lost the machine (`stop_when_lost`): its attempt is given back, and the job waits again."""

from typing import Any

import msgspec

from semantica_daemon.model.outcome import LOST
from semantica_daemon.store.run_transition import Claim
from tests.builders import NOW, Store
from tests.store.steps import BAD, GOOD, WHEN_IDLE, claims, end, put, runs, states, stop, tick


def begin_when_idle(store: Store, **spec: Any) -> Claim:
    store.machine(idle=True)
    put(store, schedule=WHEN_IDLE, stop_when_lost=True, **spec)
    tick(store)
    (claimed,) = claims(store)
    store.machine()
    return claimed


def test_what_has_lost_the_machine_gives_its_attempt_back_and_waits_again(store: Store) -> None:
    claimed = begin_when_idle(store, ttl_ms=50, deadline=NOW + 500)
    store.now += 40
    assert end(store, claimed, LOST) == "SCHEDULED"
    job, (run,) = store.job(claimed.run.job_id), runs(store, claimed.run.job_id)
    assert (job["attempts"], job["run_count"], job["finished_at"], job["error_code"]) == (0, 1, None, None)
    assert (run["status"], run["finished_at"]) == ("INTERRUPTED", NOW + 40)
    assert msgspec.json.decode(run["error"])["code"] == "E_CONDITION_LOST"
    event = store.events()[-1]
    assert (event["event_type"], event["level"]) == ("job.scheduled", "warn")
    assert msgspec.json.decode(event["payload"]) == {"run_id": claimed.run.run_id, "given_back": True}
    assert store.committed is not None
    assert store.committed.due == NOW + 40, "the machine may be idle again"
    assert tick(store, 50) == NOW + 500, "only its deadline is left to look at"
    assert states(store, job["id"]) == ["SCHEDULED"]


def test_it_runs_again_when_the_machine_is_as_it_needs_it_however_often(store: Store) -> None:
    claimed = begin_when_idle(store, max_attempts=1)
    for _ in range(3):
        assert end(store, claimed, LOST) == "SCHEDULED"
        tick(store)
        assert claims(store) == []
        store.machine(idle=True)
        tick(store)
        (claimed,) = claims(store)
        assert claimed.run.attempt == 1
        store.machine()
    assert end(store, claimed, BAD) == "FAILED"
    job = store.job(claimed.run.job_id)
    assert (job["attempts"], job["run_count"]) == (1, 4)


def test_a_retry_that_loses_the_machine_is_not_forgiven_its_failure(store: Store) -> None:
    claimed = begin_when_idle(store, max_attempts=2)
    end(store, claimed, BAD)
    store.machine(idle=True)
    tick(store, 2000)
    (again,) = claims(store)
    assert end(store, again, LOST) == "SCHEDULED"
    job = store.job(claimed.run.job_id)
    assert (job["attempts"], job["error_code"]) == (1, "E_HANDLER")
    tick(store)
    (last,) = claims(store)
    assert (last.run.attempt, end(store, last, BAD)) == (2, "FAILED")


def test_a_stale_run_that_has_lost_the_machine_is_superseded(store: Store) -> None:
    claimed = begin_when_idle(store, subject_key="s")
    newer = put(store, subject_key="s")
    assert end(store, claimed, LOST) == "SUPERSEDED"
    job = store.job(claimed.run.job_id)
    assert (job["superseded_by"], job["attempts"]) == (newer.job_id, 0)
    assert [run["status"] for run in runs(store, job["id"])] == ["INTERRUPTED"]


def test_a_cancel_holds_also_against_a_machine_that_was_lost(store: Store) -> None:
    claimed = begin_when_idle(store)
    stop(store, claimed.run.job_id)
    assert end(store, claimed, LOST) == "CANCELLED"
    assert [run["status"] for run in runs(store, claimed.run.job_id)] == ["CANCELLED"]


def test_a_run_that_ended_well_before_it_was_stopped_is_done(store: Store) -> None:
    assert end(store, begin_when_idle(store), GOOD) == "DONE"
