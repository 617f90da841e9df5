"""job.move: front, back, before and after; the priority of its new neighbours; renumbering, a few jobs at a time."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from semantica_daemon.errors import InvalidParams, JobNotFound, NotQueued, OtherQueue
from semantica_daemon.model.order import WINDOWS, raised
from semantica_daemon.model.state import TERMINAL
from semantica_daemon.store import order
from semantica_daemon.store.order import BEHIND, QueuedJob
from semantica_daemon.store.writes.enqueue import enqueue_many
from semantica_daemon.store.writes.move import move, renumber
from semantica_daemon.wire.editing import MoveParams, MoveResult
from tests.builders import Store, admitted
from tests.store.steps import LATER, begin, claimed_ids, end, event_types, make, put
from tests.store.workers import registered, taken_ids

ORDER = "ORDER BY priority DESC, position, created_at, id"


def moved(store: Store, job_id: str, **where: str) -> MoveResult:
    found = store.run(move, MoveParams(job_id=job_id, **where))  # type: ignore[arg-type]
    assert isinstance(found, MoveResult)
    return found


def queue(store: Store, name: str = "default") -> list[str]:
    rows = store.rows(f"SELECT id FROM jobs WHERE state = 'QUEUED' AND queue = ? {ORDER}", name)
    return [row["id"] for row in rows]


def fill(store: Store, count: int, **spec: Any) -> list[str]:
    return [put(store, **spec).job_id for _ in range(count)]


def test_front_back_before_and_after(store: Store) -> None:
    a, b, c, d = fill(store, 4)
    moved(store, d, to="front")
    assert queue(store) == [d, a, b, c]
    moved(store, d, to="back")
    assert queue(store) == [a, b, c, d]
    moved(store, d, before=b)
    assert queue(store) == [a, d, b, c]
    moved(store, a, after=b)
    assert queue(store) == [d, b, a, c]
    assert claimed_ids(store) == [d, b]


def test_the_answer_and_the_event_have_the_new_place(store: Store) -> None:
    _, b, c = fill(store, 3)
    found = moved(store, c, before=b)
    row = store.job(c)
    assert (found.position, found.priority) == (row["position"], row["priority"]) == (150, 0)
    assert event_types(store, c) == ["job.queued", "job.moved"]


def test_a_job_takes_the_priority_of_its_new_neighbours(store: Store) -> None:
    high, low = fill(store, 2, priority=5), fill(store, 2, priority=-5)
    (middle,) = fill(store, 1)
    moved(store, middle, before=high[1])
    assert queue(store) == [high[0], middle, high[1], *low]
    moved(store, middle, after=low[0])
    assert (store.job(middle)["priority"], queue(store)) == (-5, [*high, low[0], middle, low[1]])
    moved(store, middle, to="front")
    assert (store.job(middle)["priority"], queue(store)) == (5, [middle, *high, *low])
    moved(store, middle, to="back")
    assert (store.job(middle)["priority"], queue(store)) == (-5, [*high, *low, middle])


@pytest.mark.parametrize("where", [{"to": "front"}, {"to": "back"}])
def test_the_only_job_of_a_queue_stays_where_it_is(store: Store, where: dict[str, str]) -> None:
    job_id = put(store, priority=3).job_id
    fill(store, 2, queue="other")
    assert moved(store, job_id, **where).priority == 3
    assert event_types(store, job_id) == ["job.queued"]


def test_a_job_that_is_there_already_is_not_changed(store: Store) -> None:
    a, b, c = fill(store, 3)
    before = store.rows("SELECT * FROM jobs")
    for job_id, where in ((a, {"to": "front"}), (c, {"to": "back"}), (b, {"before": c}), (b, {"after": a})):
        moved(store, job_id, **where)
    assert store.rows("SELECT * FROM jobs") == before


def test_first_of_a_higher_priority_is_front_already(store: Store) -> None:
    high = put(store, priority=9).job_id
    put(store)
    assert moved(store, high, to="front").priority == 9


def test_a_gap_that_is_used_up_is_made_anew(store: Store) -> None:
    """Each job is put directly before the last one: the gap there is halved until it is used up."""
    ids = fill(store, 40)
    expected = ids.copy()
    for job_id in ids[:-1]:
        expected.remove(job_id)
        expected.insert(len(expected) - 1, job_id)
        moved(store, job_id, before=ids[-1])
        assert queue(store) == expected
    positions = [row["position"] for row in store.rows(f"SELECT position FROM jobs {ORDER}")]
    assert len(set(positions)) == len(ids)


def test_only_the_jobs_of_that_queue_and_priority_are_renumbered(store: Store) -> None:
    others = fill(store, 3, queue="other") + fill(store, 3, priority=1)
    before = [store.job(job_id)["position"] for job_id in others]
    ids = fill(store, 20)
    for job_id in ids[2:]:
        moved(store, job_id, after=ids[0])
    assert queue(store)[3:] == [ids[0], *reversed(ids[2:]), ids[1]]
    assert [store.job(job_id)["position"] for job_id in others] == before


def test_few_jobs_are_renumbered_in_a_long_queue(store: Store) -> None:
    for _ in range(3):
        store.run(enqueue_many, [admitted() for _ in range(1000)])
    ids = queue(store)
    before = {row["id"]: row["position"] for row in store.rows("SELECT id, position FROM jobs")}
    for job_id in ids[2000:2020]:
        moved(store, job_id, before=ids[1000])
    after = {row["id"]: row["position"] for row in store.rows("SELECT id, position FROM jobs")}
    changed = [job_id for job_id in ids if before[job_id] != after[job_id]]
    assert len(changed) < 20 + 2 * WINDOWS[0] + 20
    assert queue(store)[1000:1021] == [*ids[2000:2020], ids[1000]]


def test_jobs_of_many_keys_classes_and_groups_have_one_order(store: Store) -> None:
    """They are in many parts of the index."""
    specs: list[dict[str, Any]] = [{}, {"concurrency_key": "a"}, {"concurrency_key": "b"}, {"chain_group_id": "g"}]
    specs += [{"concurrency_key": "a", "chain_group_id": "g"}, {"concurrency_key": "a", "chain_group_id": "h"}]
    begin(store, subject_key="s")
    specs.append({"subject_key": "s"})
    ids = [put(store, **spec).job_id for spec in specs]
    ids += [put(store, **spec).job_id for spec in specs[:-1]]
    chance = Random(1)
    expected = queue(store)
    for _ in range(60):
        job_id, other = chance.sample(ids, 2)
        before = chance.random() < 0.5
        expected.remove(job_id)
        expected.insert(expected.index(other) + (not before), job_id)
        moved(store, job_id, **{"before" if before else "after": other})
        assert queue(store) == expected
    moved(store, expected[-1], to="front")
    assert queue(store) == [expected[-1], *expected[:-1]]


def test_a_queue_with_very_many_keys_has_the_same_order(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(order, "MOST_SOURCES", 5)
    ids = [put(store, concurrency_key=str(number)).job_id for number in range(12)]
    expected = queue(store)
    for job_id in ids[::3]:
        expected.remove(job_id)
        expected.insert(expected.index(ids[1]), job_id)
        moved(store, job_id, before=ids[1])
        assert queue(store) == expected


def test_blocked_jobs_keep_their_order_among_themselves(store: Store) -> None:
    first = begin(store, subject_key="s", generation=1)
    for generation in (2, 3):  # retries of older generations may wait beside each other
        newer = put(store, subject_key="s", generation=generation)
    assert newer.state == "QUEUED"
    other = put(store).job_id
    moved(store, newer.job_id, after=other)
    end(store, first)
    assert claimed_ids(store) == [other, newer.job_id]


def test_a_job_added_later_comes_after_all_that_were_moved(store: Store) -> None:
    ids = fill(store, 12)
    for job_id in ids[:-1]:
        moved(store, job_id, before=ids[-1])
    newest = put(store).job_id
    assert queue(store)[-1] == newest
    moved(store, ids[0], to="back")
    newer = put(store).job_id
    assert queue(store)[-2:] == [ids[0], newer]


def test_the_order_is_the_same_after_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path / "meta.db", slots=1)
    a, b, c, d = fill(store, 4)
    moved(store, d, to="front")
    moved(store, a, to="back")
    store.close()
    again = Store(tmp_path / "meta.db", slots=4, seed=1)
    put(again)
    assert claimed_ids(again) == [d, b, c, a]
    again.close()


@pytest.mark.parametrize("state", ["SCHEDULED", "RUNNING", *TERMINAL])
def test_only_queued_jobs_are_moved_and_moved_beside(store: Store, state: str) -> None:
    made = make(store, state, **({"schedule": LATER} if state == "SCHEDULED" else {})).job_id
    waiting = put(store).job_id
    for params in ({"job_id": made, "to": "front"}, {"job_id": waiting, "before": made}):
        with pytest.raises(NotQueued) as refused:
            store.run(move, MoveParams(**params))  # type: ignore[arg-type]
        assert (refused.value.number, refused.value.details["job_id"]) == (4002, made)
        assert refused.value.hint


def test_a_job_stays_in_its_queue_and_beside_others(store: Store) -> None:
    mine, other = put(store).job_id, put(store, queue="other").job_id
    with pytest.raises(OtherQueue) as refused:
        moved(store, mine, before=other)
    assert refused.value.details["path"] == "$.before"
    with pytest.raises(InvalidParams):
        moved(store, mine, after=mine)
    with pytest.raises(JobNotFound):
        moved(store, mine, after="ffffffff-ffff-4fff-8fff-ffffffffffff")
    for wrong in ({}, {"to": "front", "before": other}):
        with pytest.raises(InvalidParams):
            moved(store, mine, **wrong)


def test_room_among_very_many_equal_positions_is_made_in_parts(forged: Store) -> None:
    """As jobs of many keys may have them: the first try reports where room is needed, and changes nothing."""
    store = forged
    for _ in range(3):
        store.run(enqueue_many, [admitted() for _ in range(800)])
    store.connection.execute("UPDATE jobs SET position = 100")
    ids = queue(store)
    params = MoveParams(job_id=ids[-1], before=ids[500])
    crowded = store.run(move, params)
    assert isinstance(crowded, QueuedJob)
    assert crowded.job_id == ids[500]
    assert queue(store) == ids
    bound = {"queue": "default", "priority": 0, "position": 100, "most": -1}
    bound |= {"created_at": crowded.created_at, "id": crowded.job_id}
    behind = [(row[0], row[4]) for row in store.connection.execute(BEHIND, bound).fetchall()]
    jobs = [(crowded.number, 100), *behind]
    changes = [(target, number, 100) for target, (number, _) in zip(raised([100] * len(jobs)), jobs, strict=True)]
    for part in (changes[1000:], changes[:1000]):
        store.run(renumber, part)
        assert queue(store) == ids
    assert isinstance(store.run(move, params), MoveResult)
    assert queue(store) == [*ids[:500], ids[-1], *ids[500:-1]]
    assert queue(store)[-1] != put(store).job_id == queue(store)[-1]


def test_a_job_of_a_key_stays_behind_those_of_its_key_that_were_renumbered(store: Store) -> None:
    ids = [put(store, concurrency_key="a").job_id for _ in range(12)]
    for job_id in ids[2:-1]:
        moved(store, job_id, before=ids[1])
    newest = put(store, concurrency_key="a").job_id
    assert queue(store) == [ids[0], *ids[2:-1], ids[1], ids[-1], newest]


def test_slots_are_no_longer_kept_for_a_large_job_that_was_moved_back(store: Store) -> None:
    running = begin(store)
    large, small = put(store, slots=2).job_id, put(store).job_id
    assert claimed_ids(store) == []
    moved(store, large, after=small)
    assert claimed_ids(store) == [small]
    end(store, running)
    assert claimed_ids(store) == []
    moved(store, put(store).job_id, before=large)
    assert len(claimed_ids(store)) == 1


def test_jobs_of_external_workers_are_moved_and_claimed_in_the_new_order(store: Store) -> None:
    ids = fill(store, 10, execution_mode="EXTERNAL", job_type="t")
    plain = put(store).job_id
    for job_id in ids[2:]:
        moved(store, job_id, before=ids[1])
    moved(store, plain, before=ids[0])
    expected = [plain, ids[0], *ids[2:], ids[1]]
    assert queue(store) == expected
    assert claimed_ids(store) == [plain]
    assert taken_ids(store, registered(store)) == expected[1:]
