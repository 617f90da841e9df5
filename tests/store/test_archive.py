"""job.archive: ended jobs are marked, and their folders noted for deletion; live jobs are left alone."""

from typing import Any

import pytest

from semantica_daemon.model.selection import Lists
from semantica_daemon.model.state import LIVE, TERMINAL
from semantica_daemon.store.writes.archive import archive, forget_removals
from tests.builders import Store
from tests.store.steps import begin, end, event_types, make, portion, put, stop


def archived(store: Store, *job_ids: str, **fields: Any) -> Lists:
    found: Lists = store.run(archive, portion(store, *job_ids, among="ended", **fields))
    return found


def removals(store: Store) -> list[str]:
    return [row["job_id"] for row in store.rows("SELECT job_id FROM workspace_removals")]


@pytest.mark.parametrize("state", TERMINAL)
def test_an_ended_job_is_archived_once(store: Store, state: str) -> None:
    job_id = make(store, state).job_id
    before = store.job(job_id)
    store.now += 5
    assert archived(store, job_id) == {"changed": [job_id]}
    job = store.job(job_id)
    assert job["archived_at"] == store.now
    changed = {"archived_at", "updated_at", "event_count", "last_event"}
    assert {name for name in job if job[name] != before[name]} <= changed
    assert event_types(store, job_id)[-1] == "job.archived"
    assert archived(store, job_id) == {"unchanged": [job_id]}


@pytest.mark.parametrize("state", LIVE)
def test_a_live_job_is_not_archived(store: Store, state: str) -> None:
    job_id = make(store, state).job_id
    assert archived(store, job_id) == {"unchanged": [job_id]}
    assert store.job(job_id)["archived_at"] is None


def test_only_the_folder_of_a_job_that_has_run_is_deleted(store: Store) -> None:
    never, ran = make(store, "CANCELLED").job_id, make(store, "DONE").job_id
    archived(store, never, ran)
    assert removals(store) == [ran]
    store.run(forget_removals, [ran])
    assert removals(store) == []


@pytest.mark.parametrize("field", ["user_tag", "chain_group_id", "subject_key", "queue"])
def test_a_selection_takes_the_ended_jobs_and_no_others(store: Store, field: str) -> None:
    mine = {"user_tag": "x", "chain_group_id": "x", "subject_key": "x", "queue": "x"}
    done = begin(store, **mine)
    end(store, done)
    other = begin(store, **{name: "y" for name in mine})
    end(store, other)
    cancelled = put(store, **mine).job_id
    stop(store, cancelled)
    waiting = put(store, **mine).job_id
    assert archived(store, **{field: "x"}) == {"changed": [done.run.job_id, cancelled]}
    assert store.job(waiting)["archived_at"] is store.job(other.run.job_id)["archived_at"] is None
    assert archived(store, **{field: "x"}) == {}
