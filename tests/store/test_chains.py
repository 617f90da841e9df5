"""Chains: a job starts when its parents are DONE, and is cancelled with its descendants when one ends otherwise."""

import sqlite3
from collections.abc import Callable
from typing import Any

import aiosqlite
import pytest

from semantica_daemon.errors import InvalidParams, JobNotFound, NeverStarts, ParentEnded
from semantica_daemon.model.outcome import Outcome
from semantica_daemon.store import chains, parents
from semantica_daemon.store.database import Database
from semantica_daemon.store.run_transition import Claim
from semantica_daemon.store.writes.enqueue import enqueue, enqueue_many, forecast
from semantica_daemon.store.writes.retry import retry
from semantica_daemon.wire.job import Acks, RetryParams
from tests.builders import Store, admitted
from tests.cases import each_case
from tests.store.steps import BAD, GOOD, HOPELESS, begin, claimed_ids, claims, end, put, states, stop, tick


def put_many(store: Store, *specs: dict[str, Any]) -> list[str]:
    acks: Acks = store.run(enqueue_many, [admitted(**spec) for spec in specs])
    return [ack.job_id for ack in acks.jobs]


def parents_of(store: Store, job_id: str) -> list[str]:
    links = store.rows("SELECT parent_id FROM job_parents WHERE job_id = ? ORDER BY ordinal", job_id)
    return [link["parent_id"] for link in links]


def delete(store: Store, job_id: str) -> None:
    """What retention does to a job that has ended."""
    store.connection.execute(
        "DELETE FROM job_events WHERE job_number = (SELECT number FROM jobs WHERE id = ?)", (job_id,)
    )
    store.connection.execute("DELETE FROM jobs WHERE id = ?", (job_id,))


def reopened(store: Store) -> Database:
    """The store after a restart of the daemon."""
    store.database._load()
    return store.database


def test_a_child_starts_in_the_commit_that_ends_its_parent(store: Store) -> None:
    parent = begin(store)
    child = put(store, parent_job_id=parent.run.job_id).job_id
    assert states(store, child) == ["SCHEDULED"]
    assert claimed_ids(store) == []
    end(store, parent)
    assert states(store, child) == ["QUEUED"]
    assert claimed_ids(store) == [child]
    row = store.job(child)
    assert (row["parent_job_id"], row["parent_count"]) == (parent.run.job_id, 1)
    assert parents_of(store, child) == [parent.run.job_id]


def test_a_child_waits_for_all_of_its_parents(store: Store) -> None:
    first, second = begin(store), begin(store)
    child = put(store, parents=[first.run.job_id[:12], second.run.job_id]).job_id
    end(store, second)
    assert states(store, child) == ["SCHEDULED"]
    end(store, first)
    assert states(store, child) == ["QUEUED"]


def test_a_parent_that_is_done_already_holds_nothing_back(store: Store) -> None:
    parent = begin(store)
    end(store, parent)
    child = put(store, parents=[parent.run.job_id])
    assert (child.state, parents_of(store, child.job_id)) == ("QUEUED", [parent.run.job_id])


def test_a_child_waits_through_the_retries_of_its_parent(store: Store) -> None:
    parent = begin(store, max_attempts=2)
    child = put(store, parent_job_id=parent.run.job_id).job_id
    assert end(store, parent, BAD) == "SCHEDULED"
    assert states(store, child) == ["SCHEDULED"]
    tick(store, 5000)
    (again,) = claims(store)
    end(store, again)
    assert states(store, child) == ["QUEUED"]


@each_case(("outcome", "became"), [(HOPELESS, "FAILED"), (None, "CANCELLED")])
def test_any_other_end_of_a_parent_cancels_its_descendants(store: Store, outcome: Any, became: str) -> None:
    ids = put_many(store, {"schedule": {"type": "AFTER", "delay_ms": 5}}, {"parents": ["#0"]}, {"parents": ["#1"]})
    tick(store, 5)
    if outcome is None:
        stop(store, ids[0])
    else:
        (claimed,) = claims(store)
        end(store, claimed, outcome)
    assert states(store, *ids) == [became, "CANCELLED", "CANCELLED"]
    (_, cancelled) = (event for event in store.events() if event["job_id"] == ids[1])
    assert became in cancelled["message"]
    assert ids[0] in cancelled["payload"]


def test_a_waiting_job_that_is_superseded_cancels_its_children(store: Store) -> None:
    older = put(store, subject_key="s", schedule={"type": "AFTER", "delay_ms": 9}).job_id
    child = put(store, parents=[older]).job_id
    put(store, subject_key="s")
    assert states(store, older, child) == ["SUPERSEDED", "CANCELLED"]


def fan_out(store: Store, parent: str) -> None:
    """10,000 children of one parent."""
    for _ in range(10):
        put_many(store, *[{"parents": [parent]} for _ in range(1000)])


def in_a_row(store: Store, parent: str) -> None:
    """10,000 descendants, each the only child of the one before."""
    for _ in range(10):
        rest = [{"parents": [f"#{number}"]} for number in range(999)]
        parent = put_many(store, {"parents": [parent]}, *rest)[-1]


def commit_sizes(store: Store, ends: Claim, outcome: Outcome) -> list[int]:
    """How many rows each commit has changed, until all descendants are settled. The scheduler is woken for the rest."""
    before, sizes = store.connection.total_changes, []
    end(store, ends, outcome)
    while store.database.context.awaited.ended:
        sizes.append(store.connection.total_changes - before)
        before = store.connection.total_changes
        assert store.committed is not None
        assert store.committed.due == store.now
        tick(store)
    return sizes


def check_small_commits(store: Store, shape: Callable[[Store, str], None], outcome: Outcome, becomes: str) -> None:
    """Of each job its row changes (twice if it becomes QUEUED), its gate and its event; and those of the parent."""
    parent = begin(store)
    shape(store, parent.run.job_id)
    sizes = commit_sizes(store, parent, outcome)
    assert len(sizes) >= 10_000 / chains.MOST
    assert max(sizes) <= chains.MOST * 4 + 10
    found = store.rows("SELECT count(*) AS n FROM jobs WHERE state = ?", becomes)
    assert found == [{"n": 10_000}]


def test_ten_thousand_children_are_cancelled_in_small_commits(forged: Store) -> None:
    check_small_commits(forged, fan_out, HOPELESS, "CANCELLED")


def test_ten_thousand_jobs_in_a_row_are_cancelled_in_small_commits(forged: Store) -> None:
    check_small_commits(forged, in_a_row, HOPELESS, "CANCELLED")


def test_ten_thousand_children_become_queued_in_small_commits(forged: Store) -> None:
    check_small_commits(forged, fan_out, GOOD, "QUEUED")


def test_a_restart_between_two_passes_loses_no_descendant(store: Store) -> None:
    parent = begin(store)
    ids = put_many(store, *[{"parents": [parent.run.job_id]} for _ in range(chains.MOST + 5)])
    end(store, parent)
    assert states(store, *ids).count("SCHEDULED") == 5
    reopened(store)
    tick(store)
    assert set(states(store, *ids)) == {"QUEUED"}


def test_a_chain_is_stored_whole_or_not_at_all(store: Store) -> None:
    with pytest.raises(JobNotFound) as refused:
        put_many(store, {}, {"parents": ["#0", "deadbeef"]})
    assert refused.value.details["path"] == "$.jobs[1].parents[1]"
    assert store.rows("SELECT * FROM jobs") == []


@each_case(
    ("specs", "path"),
    [
        ([{"parents": ["#0"]}], "$.jobs[0].parents[0]"),
        ([{}, {"parent_job_id": "#2"}, {"parent_job_id": "#1"}], "$.jobs[1].parent_job_id"),
    ],
)
def test_a_cycle_cannot_be_written_down(store: Store, specs: list[dict[str, Any]], path: str) -> None:
    with pytest.raises(InvalidParams) as refused:
        put_many(store, *specs)
    assert refused.value.details["path"] == path


def test_a_reference_outside_of_enqueue_many_is_refused(store: Store) -> None:
    with pytest.raises(InvalidParams) as refused:
        put(store, parent_job_id="#0")
    assert refused.value.details["path"] == "$.parent_job_id"


def test_a_parent_that_has_failed_is_refused(store: Store) -> None:
    parent = begin(store)
    end(store, parent, HOPELESS)
    with pytest.raises(ParentEnded) as refused:
        put(store, parents=[parent.run.job_id])
    assert (refused.value.number, refused.value.code) == (4002, "E_PARENT_ENDED")


def test_a_retry_follows_its_parent_to_the_retry_of_that(store: Store) -> None:
    parent = begin(store)
    child = put(store, parents=[parent.run.job_id]).job_id
    end(store, parent, HOPELESS)
    with pytest.raises(ParentEnded):
        store.run(retry, RetryParams(job_id=child))
    again = store.run(retry, RetryParams(job_id=parent.run.job_id)).job_id
    repeated = store.run(retry, RetryParams(job_id=child))
    assert (repeated.state, parents_of(store, repeated.job_id)) == ("SCHEDULED", [again])
    (claimed,) = claims(store)
    end(store, claimed)
    assert states(store, repeated.job_id) == ["QUEUED"]


def test_the_end_of_a_job_can_be_waited_for_like_an_event(store: Store) -> None:
    other = begin(store)
    any_end = put(store, schedule={"type": "CONDITION", "wait_for_event": f"job:{other.run.job_id[:8]}"}).job_id
    on_failure = put(store, schedule={"type": "CONDITION", "conditions": {f"job:{other.run.job_id}": "FAILED"}}).job_id
    on_success = put(store, schedule={"type": "CONDITION", "conditions": {f"job:{other.run.job_id}": "DONE"}}).job_id
    end(store, other, HOPELESS)
    assert states(store, any_end, on_failure, on_success) == ["QUEUED", "QUEUED", "CANCELLED"]
    assert store.job(any_end)["event_met_at"] == store.now


def test_an_end_that_has_come_already_holds_nothing_back(store: Store) -> None:
    other = begin(store)
    end(store, other)
    assert put(store, schedule={"type": "CONDITION", "wait_for_event": f"job:{other.run.job_id}"}).state == "QUEUED"
    with pytest.raises(NeverStarts):
        put(store, schedule={"type": "CONDITION", "conditions": {f"job:{other.run.job_id}": "FAILED"}})


def test_a_job_cannot_have_to_end_in_two_states(store: Store) -> None:
    other = begin(store).run.job_id
    with pytest.raises(InvalidParams):
        put(store, parents=[other], schedule={"type": "CONDITION", "conditions": {f"job:{other}": "FAILED"}})


def test_a_plan_names_the_parents_it_would_wait_for(store: Store) -> None:
    parent = begin(store).run.job_id
    planned = store.run(forecast, admitted(parents=[parent]))
    assert planned.state == "SCHEDULED"
    assert [reason.job_id for reason in planned.reasons if reason.kind == "parent"] == [parent]
    assert store.rows("SELECT * FROM job_parents") == []


def test_a_job_that_would_supersede_its_own_parent_is_refused(store: Store) -> None:
    older = put(store, subject_key="s", schedule={"type": "AFTER", "delay_ms": 9}).job_id
    for verb in (forecast, enqueue):
        with pytest.raises(NeverStarts) as refused:
            store.run(verb, admitted(subject_key="s", parents=[older]))
        assert refused.value.details["path"] == "$.parents[0]"
    assert states(store, older) == ["SCHEDULED"], "nothing was changed"


def test_a_job_that_would_interrupt_its_own_parent_is_refused(store: Store) -> None:
    older = begin(store, subject_key="s").run.job_id
    with pytest.raises(NeverStarts):
        put(store, subject_key="s", parents=[older], on_running="cancel")
    child = put(store, subject_key="s", parents=[older])
    assert child.state == "SCHEDULED", "with finish it is an ordinary parent"


def test_a_job_may_wait_for_the_end_of_a_job_that_it_supersedes(store: Store) -> None:
    older = put(store, subject_key="s", schedule={"type": "AFTER", "delay_ms": 9}).job_id
    waits = {"type": "CONDITION", "conditions": {f"job:{older}": "SUPERSEDED"}, "wait_for_event": f"job:{older}"}
    newer = put(store, subject_key="s", schedule=waits)
    assert (newer.state, states(store, older)) == ("QUEUED", ["SUPERSEDED"])


def test_a_refusal_names_the_parent_that_it_is_about(store: Store) -> None:
    known = put(store).job_id
    with pytest.raises(JobNotFound) as refused:
        put(store, parent_job_id=known, parents=[known, known[:8], "deadbeef"])
    assert (refused.value.number, refused.value.details["path"]) == (4001, "$.parents[2]")


def test_parents_are_kept_once_and_in_order(store: Store) -> None:
    first, second = put(store).job_id, put(store).job_id
    child = put(store, parent_job_id=second, parents=[first[:10], second, first]).job_id
    assert parents_of(store, child) == [second, first]
    assert store.job(child)["parent_job_id"] == second


def test_a_parent_that_is_deleted_takes_its_links_along(forged: Store) -> None:
    parent = begin(forged)
    end(forged, parent)
    child = put(forged, parents=[parent.run.job_id]).job_id
    delete(forged, parent.run.job_id)
    assert parents_of(forged, child) == []
    assert forged.job(child)["state"] == "QUEUED"


def test_a_child_that_is_deleted_takes_its_links_along(forged: Store) -> None:
    parent = begin(forged)
    child = put(forged, parents=[parent.run.job_id]).job_id
    stop(forged, child)
    delete(forged, child)
    assert forged.rows("SELECT * FROM job_parents") == []
    assert end(forged, parent) == "DONE"


def test_a_retry_of_a_job_that_has_run_does_without_parents_that_are_no_longer_stored(forged: Store) -> None:
    parent = begin(forged)
    end(forged, parent)
    child = begin(forged, parents=[parent.run.job_id])
    end(forged, child, HOPELESS)
    delete(forged, parent.run.job_id)
    assert forged.run(retry, RetryParams(job_id=child.run.job_id)).state == "QUEUED"


def test_a_retry_of_a_job_that_has_not_run_is_refused_when_a_parent_is_no_longer_stored(forged: Store) -> None:
    parent = begin(forged)
    child = put(forged, parents=[parent.run.job_id]).job_id
    end(forged, parent, HOPELESS)
    delete(forged, parent.run.job_id)
    with pytest.raises(ParentEnded):
        forged.run(retry, RetryParams(job_id=child))


def test_a_job_cannot_be_its_own_parent_whatever_writes_it(store: Store) -> None:
    job_id = put(store).job_id
    with pytest.raises(sqlite3.IntegrityError):
        store.connection.execute(chains.LINK, (job_id, 0, job_id))


async def test_the_results_of_parents_are_bounded_together(store: Store) -> None:
    ids = []
    for number in range(3):
        parent = begin(store)
        end(store, parent, Outcome(result=f'"{number}{"x" * 97}"'))
        ids.append(parent.run.job_id)
    child = put(store, parents=ids).job_id
    async with aiosqlite.connect(store.path) as db:
        found = await parents.results(db, child, most=250)
        everything = await parents.results(db, child)
    assert [one.job_id for one in found] == ids
    assert [(len(bytes(one.result)), one.truncated) for one in found] == [(100, False), (100, False), (4, True)]
    assert not any(one.truncated for one in everything)


def test_a_job_cannot_supersede_what_its_parent_waits_for(store: Store) -> None:
    grandparent = put(store, subject_key="s", schedule={"type": "AFTER", "delay_ms": 9}).job_id
    parent = put(store, parents=[grandparent]).job_id
    with pytest.raises(NeverStarts) as refused:
        put(store, subject_key="s", parents=[parent])
    assert (refused.value.details["job_id"], refused.value.details["path"]) == (grandparent, "$.parents[0]")
    assert states(store, grandparent, parent) == ["SCHEDULED", "SCHEDULED"]
