"""The cost of a claim by a worker, in steps of SQLite's machine and in calls: neither the jobs that wait, nor those
that a key or a pause holds back, nor the queues and keys that have jobs make it longer."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.store.writes.enqueue import enqueue_many
from semantica_daemon.store.writes.groups import create
from semantica_daemon.store.writes.move import move
from semantica_daemon.store.writes.queues import configure, pause
from semantica_daemon.wire.editing import MoveParams
from semantica_daemon.wire.group import CreateGroupParams
from semantica_daemon.wire.queue import ConfigureParams, PauseParams
from tests.builders import Store, admitted
from tests.store.test_claim_cost import calls, copy_job, opened, work
from tests.store.workers import begin_external, end_external, put_external, registered, take, taken_ids

MANY = 20_000
SOURCES = 5_000
EXTERNAL: dict[str, Any] = {"execution_mode": "EXTERNAL"}


def waiting(store: Store, count: int) -> None:
    copy_job(store, put_external(store), count - 1)


def behind_a_key(store: Store, count: int) -> None:
    begin_external(store, registered(store), concurrency_key="k")
    copy_job(store, put_external(store, concurrency_key="k", priority=100), count - 1)
    put_external(store)


def in_a_paused_queue(store: Store, count: int) -> None:
    copy_job(store, put_external(store, queue="shut", priority=100), count - 1)
    store.run(pause, PauseParams("shut"))
    put_external(store)


def of_other_types(store: Store, count: int) -> None:
    copy_job(store, put_external(store, "other", priority=100), count - 1)
    put_external(store)


@pytest.mark.parametrize("fill", [waiting, behind_a_key, in_a_paused_queue, of_other_types])
def test_a_claim_costs_the_same_whatever_waits(tmp_path: Path, fill: Callable[[Store, int], None]) -> None:
    few, many = (cost(tmp_path / f"{count}.db", fill, count) for count in (3, MANY))
    assert many[0] <= few[0] * 1.05
    assert many[1] <= few[1] * 1.05


def cost(path: Path, fill: Callable[[Store, int], None], count: int) -> tuple[int, int]:
    """The steps and the calls of the second claim: the first one looks at every source once."""
    with opened(path, slots=2) as store:
        worker = registered(store)
        fill(store, count)
        copy_job(store, put_external(store), 2)
        assert take(store, worker, job_types=["work"])
        steps = work(store, lambda: take(store, worker, job_types=["work"]))
        return steps, calls(lambda: take(store, worker, job_types=["work"]))


@pytest.mark.parametrize("field", ["queue", "concurrency_key"])
def test_sources_whose_turn_it_is_not_are_not_looked_at(tmp_path: Path, field: str) -> None:
    few, many = (cost_with_sources(tmp_path / f"{count}.db", field, count) for count in (8, SOURCES))
    assert many[0] <= few[0] * 1.05
    assert many[1] <= few[1] + 50, "a heap is a little deeper"


def cost_with_sources(path: Path, field: str, count: int) -> tuple[int, int]:
    with opened(path, slots=2) as store:
        worker = registered(store)
        store.run(enqueue_many, [admitted("t", **EXTERNAL, **{field: f"s{number:04}"}) for number in range(count)])
        assert take(store, worker)
        return work(store, lambda: take(store, worker)), calls(lambda: take(store, worker))


def test_heaps_of_filters_that_are_no_longer_used_do_not_grow(tmp_path: Path) -> None:
    with opened(tmp_path / "meta.db", slots=2) as store:
        worker = registered(store)
        for number in range(100):
            take(store, worker, queues=["default", f"q{number}"])
        assert len(store.database.external._heaps) <= 64
        for _ in range(200):
            begin_external(store, worker)
        assert all(len(heap) <= 20 for heap in store.database.external._heaps.values())


def test_members_of_a_sequential_group_are_given_one_at_a_time(store: Store) -> None:
    store.run(create, CreateGroupParams("g", "sequential"))
    worker = registered(store)
    first, second = put_external(store, chain_group_id="g"), put_external(store, "other", chain_group_id="g")
    (claimed,) = take(store, worker, 5)
    assert claimed.run.job_id == first
    assert taken_ids(store, worker) == []
    end_external(store, worker, claimed.run.run_id)
    assert taken_ids(store, worker) == [second]


def test_a_moved_job_is_given_at_its_new_place(store: Store) -> None:
    worker = registered(store)
    jobs = [put_external(store) for _ in range(4)]
    assert taken_ids(store, worker, 1) == jobs[:1]
    store.run(move, MoveParams(job_id=jobs[3], to="front"))
    store.run(move, MoveParams(job_id=jobs[1], to="back"))
    assert taken_ids(store, worker) == [jobs[3], jobs[2], jobs[1]]


def test_more_jobs_of_a_key_are_given_when_its_limit_grows(store: Store) -> None:
    worker = registered(store)
    jobs = [put_external(store, concurrency_key="k") for _ in range(3)]
    assert taken_ids(store, worker) == jobs[:1]
    store.run(configure, ConfigureParams("default", keys={"k": 3}))
    assert taken_ids(store, worker) == jobs[1:]
