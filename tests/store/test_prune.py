"""Pruning: an ended job goes with everything that is only about it, and leaves what others rely on."""

from typing import Any

import pytest

from semantica_daemon.model.state import LIVE, TERMINAL
from semantica_daemon.store.database import Database
from semantica_daemon.store.writes.archive import archive, forget_removals
from semantica_daemon.store.writes.prune import Pruned, prune
from semantica_daemon.store.writes.retry import retry
from semantica_daemon.wire.job import RetryParams
from tests.builders import Store
from tests.store.steps import BAD, begin, end, make, portion, put

OF_A_JOB = ("jobs", "job_runs", "job_events", "job_conditions", "job_parents", "job_retries", "artifacts")


def pruned(store: Store, *job_ids: str) -> Pruned:
    found: Pruned = store.run(prune, tuple(store.job(job_id)["number"] for job_id in job_ids))
    return found


def counts(store: Store) -> dict[str, int]:
    return {table: store.rows(f"SELECT count(*) AS n FROM {table}")[0]["n"] for table in OF_A_JOB}


def ended(store: Store, **spec: Any) -> str:
    claimed = begin(store, **spec)
    end(store, claimed)
    return claimed.run.job_id


@pytest.mark.parametrize("state", TERMINAL)
def test_an_ended_job_goes_with_its_events_and_leaves_a_summary(forged: Store, state: str) -> None:
    before = counts(forged)
    job = forged.job(make(forged, state).job_id)
    others = [one["id"] for one in forged.rows("SELECT id FROM jobs WHERE id <> ?", job["id"])]
    told = len(forged.rows("SELECT 1 FROM job_events WHERE job_number = ?", job["number"]))
    forged.now += 7
    assert pruned(forged, job["id"]) == Pruned(1, told, [])
    assert forged.rows("SELECT 1 FROM job_events WHERE job_number = ?", job["number"]) == []
    if not others:
        assert counts(forged) == before
    (summary,) = forged.rows("SELECT * FROM job_summaries")
    same = ("id", "job_type", "queue", "subject_key", "generation", "state", "created_at", "finished_at", "exit_code")
    assert {name: summary[name] for name in same} == {name: job[name] for name in same}
    assert (summary["pruned_at"], summary["error_code"]) == (forged.now, job["error_code"])


@pytest.mark.parametrize("state", LIVE)
def test_a_live_job_is_never_pruned(forged: Store, state: str) -> None:
    job_id = make(forged, state).job_id
    assert pruned(forged, job_id) == Pruned(0, 0, [])
    assert forged.job(job_id)["state"] == state


def test_a_job_that_a_live_job_refers_to_is_kept(forged: Store) -> None:
    parent = ended(forged)
    put(forged, parents=[parent], queue="none")
    tried = begin(forged)
    end(forged, tried, BAD)
    member = ended(forged, chain_group_id="g")
    put(forged, chain_group_id="g", queue="none")
    forged.run(retry, RetryParams(tried.run.job_id))
    needed = [parent, tried.run.job_id, member]
    assert pruned(forged, *needed) == Pruned(0, 0, needed)


def test_a_job_is_kept_until_its_folder_is_gone(forged: Store) -> None:
    job_id = ended(forged)
    forged.run(archive, portion(forged, job_id, among="ended"))
    assert pruned(forged, job_id).kept == [job_id]
    forged.run(forget_removals, [job_id])
    assert pruned(forged, job_id).jobs == 1


def test_a_key_and_a_lane_outlive_the_pruned_job(forged: Store) -> None:
    first = ended(forged, idempotency_key="k", subject_key="s", generation=10)
    pruned(forged, first)
    assert forged.rows("SELECT ended FROM idempotency") == [{"ended": "DONE"}]
    again = put(forged, idempotency_key="k", subject_key="s", generation=10)
    assert (again.job_id, again.existing, again.state) == (first, True, "DONE")
    assert put(forged, subject_key="s", generation=9).state == "SUPERSEDED"


def test_no_sequence_number_is_given_twice(forged: Store) -> None:
    pruned(forged, ended(forged))
    newest = forged.database.sequence
    assert forged.rows("SELECT 1 FROM job_events") == []
    database = forged.database
    reopened = Database(
        forged.connection, forged.limits, database.context.ids.random, database.context.admission, forged.current
    )
    assert reopened.sequence == newest == 3
    put(forged)
    assert forged.events()[0]["sequence"] == newest + 1


def test_the_events_are_counted_by_day_queue_and_type(forged: Store) -> None:
    for _ in range(2):
        claimed = begin(forged)
        forged.now += 40
        end(forged, claimed)
        pruned(forged, claimed.run.job_id)
    rows = forged.rows("SELECT * FROM event_aggregates WHERE event_type = 'job.done'")
    day = {"day": "2027-01-15", "queue": "default", "job_type": "semantica.noop", "event_type": "job.done"}
    assert rows == [{**day, "events": 2, "duration_ms": 80}]
    assert len(forged.rows("SELECT 1 FROM event_aggregates")) == 3
