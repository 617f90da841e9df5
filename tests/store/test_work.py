"""What verbs cost, in steps of SQLite's machine: the same after any history, and whatever waits beside them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from semantica_daemon.store.selected import Portion
from semantica_daemon.store.writes.emit import Emit, emit
from semantica_daemon.store.writes.enqueue import enqueue_many
from semantica_daemon.store.writes.finish import Finish, finish
from semantica_daemon.store.writes.hold import hold, release
from semantica_daemon.store.writes.lost import lost
from semantica_daemon.store.writes.move import move
from semantica_daemon.store.writes.update import update
from semantica_daemon.wire.editing import MoveParams, UpdateParams
from tests.builders import NOW, Store, admitted
from tests.store.history import FINISHED, fill
from tests.store.steps import GOOD, claims, end, put, stop, tick


def work(store: Store, act: Callable[[], object]) -> int:
    """How many steps SQLite's machine takes; it knows nothing of time or of other processes."""
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    store.connection.set_progress_handler(count, 1)
    act()
    store.connection.set_progress_handler(None, 0)
    return steps


def measured(store: Store) -> dict[str, int]:
    """The verbs of a job's way, in the lane, queue, tag and group that all the history belongs to."""
    about: dict[str, Any] = {"subject_key": "s", "user_tag": "tag", "chain_group_id": "group"}
    steps = {}
    steps["enqueue"] = work(store, lambda: put(store, **about))
    steps["supersede"] = work(store, lambda: put(store, **about))
    steps["supersede subject"] = work(store, lambda: put(store, **about, supersede="subject", idempotency_key="k"))
    steps["existing"] = work(store, lambda: put(store, **about, supersede="subject", idempotency_key="k"))
    found = []
    steps["claim"] = work(store, lambda: found.extend(claims(store)))
    steps["finish"] = work(store, lambda: store.run(finish, Finish(found[0].run, GOOD), claiming=True))
    put(store, **about, schedule={"type": "AFTER", "delay_ms": 10}, ttl_ms=50, deadline=NOW + 100_000)
    steps["promote"] = work(store, lambda: tick(store, 10))
    steps["expire"] = work(store, lambda: tick(store, 50))
    for field, value in (("user_tag", "tag"), ("chain_group_id", "group"), ("subject_key", "s"), ("queue", "default")):
        put(store, **about)
        steps[f"cancel by {field}"] = work(store, partial(stop, store, **{field: value}))
    return steps | measured_waiting(store) | measured_schedule(store)


def measured_waiting(store: Store) -> dict[str, int]:
    """For events that all the history once waited for, and for a machine that all of it needed."""
    steps = {}
    for name, waits in (("event", {"wait_for_event": "e"}), ("condition", {"conditions": {"e": "v"}})):
        job_id = put(store, schedule={"type": "CONDITION", **waits}).job_id
        steps[f"emit for its {name}"] = work(store, lambda: store.run(emit, Emit("e", "v")))
        stop(store, job_id)
        job_id = put(store, schedule={"type": "CONDITION", **waits}).job_id
        steps[f"cancel before its {name}"] = work(store, partial(stop, store, job_id))
    steps["emit for nobody"] = work(store, lambda: store.run(emit, Emit("e", "v")))
    job_id = put(store, schedule={"type": "CONDITION", "wait_for_idle": True}).job_id
    store.machine(idle=True)
    steps["promote when idle"] = work(store, lambda: tick(store))
    store.machine()
    steps["lost"] = work(store, lambda: store.run(lost, None))
    stop(store, job_id)
    return steps


def measured_schedule(store: Store) -> dict[str, int]:
    """A schedule that has made all the history: it fires, fires again behind that job, and the turn is passed on."""
    steps = {}
    steps["fire"] = work(store, lambda: tick(store, 60_000))
    (first,) = claims(store)
    steps["fire behind another"] = work(store, lambda: tick(store, 60_000))
    steps["pass the turn on"] = work(store, partial(end, store, first))
    steps["take the turn"] = work(store, lambda: tick(store))
    return steps


def after(path: Path, finished: int) -> dict[str, int]:
    store = Store(path)
    fill(store, finished)
    steps = measured(store)
    store.close()
    return steps


def test_a_job_costs_the_same_on_an_empty_table_and_after_twenty_thousand(tmp_path: Path) -> None:
    expected, found = (after(tmp_path / f"{count}.db", count) for count in (1, FINISHED))
    assert {name: steps for name, steps in found.items() if steps > expected[name] * 1.05 + 10} == {}


CLASSES: list[dict[str, Any]] = [
    {"wait_for_idle": idle, "require_charging": power} for idle in (False, True) for power in (False, True)
]


def crowded(path: Path, count: int) -> int:
    """What the due timer takes to look at that many jobs of every kind that wait, none of them due."""
    store = Store(path)
    store.machine(idle=True, charging=True)
    waits = [{"type": "AFTER", "delay_ms": 5000, **needs} for needs in CLASSES]
    waits += [{"type": "CONDITION", "wait_for_event": "e"}, {"type": "CONDITION", "conditions": {"e": "v"}}]
    store.run(enqueue_many, [admitted(schedule=schedule) for schedule in waits for _ in range(count)])
    steps = work(store, lambda: tick(store))
    store.close()
    return steps


def test_jobs_that_wait_cost_nothing_until_they_are_due(tmp_path: Path) -> None:
    assert crowded(tmp_path / "few.db", 1) == crowded(tmp_path / "many.db", 200)


def edited(path: Path, waiting: int) -> dict[str, int]:
    """What it takes to move, change, hold and release one job in the middle of that many."""
    store = Store(path)
    store.run(enqueue_many, [admitted() for _ in range(waiting)])
    ids = [row["id"] for row in store.rows("SELECT id FROM jobs ORDER BY position")]
    job_id, other = ids[waiting // 2], ids[waiting // 3]
    places = {"front": {"to": "front"}, "back": {"to": "back"}, "before": {"before": other}, "after": {"after": other}}
    steps = {}
    for name, where in places.items():
        params = msgspec.convert({"job_id": job_id, **where}, MoveParams)
        steps[name] = work(store, partial(store.run, move, params))
    change = UpdateParams(job_id=job_id, priority=5)
    steps["update"] = work(store, lambda: store.run(update, change))
    steps["hold"] = work(store, lambda: store.run(hold, Portion((job_id,))))
    steps["release"] = work(store, lambda: store.run(release, Portion((job_id,))))
    store.close()
    return steps


def test_one_of_many_waiting_jobs_is_moved_and_held_as_one_of_few(tmp_path: Path) -> None:
    few, many = edited(tmp_path / "few.db", 9), edited(tmp_path / "many.db", 999)
    assert {name: steps for name, steps in many.items() if steps > few[name] * 1.2 + 20} == {}
