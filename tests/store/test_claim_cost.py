"""A claim looks at as many rows as it starts, in steps of SQLite's machine: neither the jobs that a lane, a key or a
group holds back nor the queues and keys that have waiting jobs make it longer."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.model.queue import QueueRules
from semantica_daemon.store.run_transition import Running
from semantica_daemon.store.writes.enqueue import enqueue_many
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.groups import create
from semantica_daemon.store.writes.queues import configure
from semantica_daemon.wire.group import CreateGroupParams
from semantica_daemon.wire.queue import ConfigureParams, Rate
from tests.builders import Store, admitted
from tests.store.steps import GOOD, begin, claimed_ids, claims, put, tick

BLOCKED = 100_000
QUEUES = KEYS = 5_000
TOO_MANY = 50_000


def work(store: Store, act: Callable[[], object]) -> int:
    """How many steps SQLite's machine takes; interrupted when there is no end to them."""
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return steps > TOO_MANY

    store.connection.set_progress_handler(count, 1)
    try:
        act()
    finally:
        store.connection.set_progress_handler(None, 0)
    return steps


def calls(act: Callable[[], object]) -> int:
    """How many functions are called, those of C included."""
    count = 0

    def profile(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(profile)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


@contextmanager
def opened(path: Path, slots: int) -> Iterator[Store]:
    store = Store(path, slots=slots, queues={"default": QueueRules(max_queued=2 * BLOCKED)})
    yield store
    store.close()


def copy_job(store: Store, job_id: str, count: int) -> None:
    """That many jobs like it. In a lane no verb makes them (newer ones supersede older ones); each has the next
    generation."""
    columns = [row["name"] for row in store.rows("PRAGMA table_info(jobs)") if row["name"] != "number"]
    changed = {"id": "printf('%08x', n) || substr(id, 9)", "generation": "generation + n"}
    values = ", ".join(changed.get(column, column) for column in columns)
    store.connection.execute(
        f"""
        WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
        INSERT INTO jobs ({", ".join(columns)}) SELECT {values} FROM jobs, numbers WHERE id = ?
        """,
        (count, job_id),
    )
    store.database._load()


def steps_beside_blocked(path: Path, blocked: int) -> int:
    """One job starts while that many of a higher priority wait for the end of a running one of their lane."""
    with opened(path, slots=2) as store:
        begin(store, subject_key="lane")
        held_back = put(store, subject_key="lane", priority=100).job_id
        copy_job(store, held_back, blocked - 1)
        started: list[str] = []
        ready = put(store).job_id
        steps = work(store, lambda: started.extend(claimed_ids(store)))
        assert started == [ready]
        return steps


def steps_with_queues(path: Path, queues: int) -> int:
    """A run ends and the next job starts, while that many queues have waiting jobs."""
    with opened(path, slots=1) as store:
        running = begin(store, queue="first", priority=100)
        store.run(enqueue_many, [admitted(queue=f"q{number:04}") for number in range(queues)])
        steps = work(store, lambda: store.run(finish, Finish(running.run, GOOD), claiming=True))
        assert store.committed is not None
        (claimed,) = store.committed.claims
        assert store.job(claimed.run.job_id)["queue"] == "q0000"
        return steps


def steps_of_appending(path: Path, waiting: int) -> list[int]:
    """Of an append job, a keep job, one that supersedes, and the end of a run, in a lane where so many append jobs
    wait."""
    lane: dict[str, Any] = {"subject_key": "lane"}
    with opened(path, slots=2) as store:
        running = begin(store, **lane, supersede="append")
        store.run(enqueue_many, [admitted(**lane, supersede="append") for _ in range(waiting)])
        put(store, **lane, supersede="append", schedule={"type": "AFTER", "delay_ms": 5})
        acts: list[Callable[[], object]] = [
            lambda: put(store, **lane, supersede="append"),
            lambda: put(store, **lane, supersede="keep"),
            lambda: put(store, **lane),
            lambda: tick(store, 5),
            lambda: store.run(finish, Finish(running.run, GOOD), claiming=True),
        ]
        return [work(store, act) for act in acts]


def test_append_jobs_that_wait_cost_the_others_of_their_lane_nothing(tmp_path: Path) -> None:
    few, many = (steps_of_appending(tmp_path / f"{count}.db", count) for count in (2, 2000))
    assert all(after <= before * 1.1 for before, after in zip(few, many, strict=True)), (few, many)


def test_jobs_that_their_lane_holds_back_are_not_looked_at(tmp_path: Path) -> None:
    few, many = (steps_beside_blocked(tmp_path / f"{count}.db", count) for count in (1, BLOCKED))
    assert many <= few * 1.05


def test_queues_whose_turn_it_is_not_are_not_looked_at(tmp_path: Path) -> None:
    few, many = (steps_with_queues(tmp_path / f"{count}.db", count) for count in (2, QUEUES))
    assert many <= few * 1.05


def test_a_claim_of_many_costs_as_much_for_each_as_a_claim_of_one(tmp_path: Path) -> None:
    """Shown for one queue, where a claim takes all its jobs at once."""
    taken = {}
    for count in (1, 20):
        with opened(tmp_path / f"{count}.db", slots=count) as store:
            for _ in range(40):
                put(store)
            taken[count] = work(store, lambda: claimed_ids(store))
    assert taken[20] <= 20 * taken[1]


@pytest.mark.parametrize("limited_by", ["key", "group", "rate"])
def test_jobs_that_a_limit_holds_back_are_not_looked_at(tmp_path: Path, limited_by: str) -> None:
    few, many = (steps_beside_limited(tmp_path / f"{count}.db", count, limited_by) for count in (1, BLOCKED))
    assert many <= few * 1.05


def steps_beside_limited(path: Path, waiting: int, limited_by: str) -> int:
    """One job starts while that many of a higher priority wait for the end of a running one of their key or group, or
    for the rate of their queue."""
    spec: dict[str, Any] = {
        "key": {"concurrency_key": "k"},
        "group": {"chain_group_id": "g"},
        "rate": {"queue": "rated"},
    }[limited_by]
    with opened(path, slots=2) as store:
        store.run(create, CreateGroupParams("g", "sequential"))
        store.run(configure, ConfigureParams("rated", rate=Rate(1, 60_000)))
        begin(store, **spec)
        copy_job(store, put(store, **spec, priority=100).job_id, waiting - 1)
        started: list[str] = []
        ready = put(store).job_id
        steps = work(store, lambda: started.extend(claimed_ids(store)))
        assert started == [ready]
        return steps


def test_keys_whose_turn_it_is_not_are_not_looked_at(tmp_path: Path) -> None:
    few, many = (cost_with_keys(tmp_path / f"{count}.db", count) for count in (4, KEYS))
    assert many[0] <= few[0] * 1.05
    assert many[1] <= few[1] * 1.3, "nor does the heap of the sources grow with them"


def cost_with_keys(path: Path, keys: int) -> tuple[int, int]:
    """(steps, calls): a run ends and the next job starts, while that many keys of one queue have waiting jobs."""
    with opened(path, slots=2) as store:
        store.run(configure, ConfigureParams("default", slots=1))
        for _ in range(2):
            store.run(enqueue_many, [admitted(concurrency_key=f"k{number:04}") for number in range(keys)])
        (first,) = claims(store)
        store.run(finish, Finish(first.run, GOOD), claiming=True)
        (second,) = running(store)
        steps = work(store, lambda: store.run(finish, Finish(second, GOOD), claiming=True))
        (third,) = running(store)
        return steps, calls(lambda: store.run(finish, Finish(third, GOOD), claiming=True))


def running(store: Store) -> list[Running]:
    assert store.committed is not None
    return [claimed.run for claimed in store.committed.claims]
