"""A claim looks at as many rows as it starts, in steps of SQLite's machine: neither the jobs that a lane holds back nor
the queues that have waiting jobs make it longer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from semantica_daemon.model.queue import QueueRules
from semantica_daemon.store.writes.enqueue import enqueue_many
from semantica_daemon.store.writes.finish import Finish, finish
from tests.builders import Store, admitted
from tests.store.steps import GOOD, begin, claimed_ids, put, tick

BLOCKED = 100_000
QUEUES = 5_000
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


@contextmanager
def opened(path: Path, slots: int) -> Iterator[Store]:
    store = Store(path, slots=slots, queues={"default": QueueRules(max_queued=2 * BLOCKED)})
    yield store
    store.close()


def copy_job(store: Store, job_id: str, count: int) -> None:
    """That many jobs like it in the same lane, which no verb makes (newer ones supersede older ones); each has the next
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
