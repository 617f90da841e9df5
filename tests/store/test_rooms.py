"""Limits of concurrency keys and rates: a job whose key or rate has no room waits, and holds back nobody else."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.errors import TooManySlots
from semantica_daemon.model.queue import QueueRules
from semantica_daemon.store.writes.clock import Reading, set_clock
from semantica_daemon.store.writes.queues import configure
from semantica_daemon.wire.queue import ConfigureParams, KeyRule, Rate
from tests.builders import Store
from tests.store import invariants
from tests.store.steps import BAD, begin, claimed_ids, claims, end, put, states, stop, tick


@pytest.fixture
def wide(tmp_path: Path) -> Iterator[Store]:
    """Eight slots."""
    store = Store(tmp_path / "meta.db", slots=8)
    yield store
    invariants.check(store)
    store.close()


@contextmanager
def reopened(store: Store) -> Iterator[Store]:
    """The same database by the next daemon."""
    again = Store(store.path, store.limits.max_slots, seed=1)
    again.now = store.now
    yield again
    invariants.check(again)
    store.database._load()
    again.close()


def keyed(store: Store, key: str | None, count: int, **spec: Any) -> list[str]:
    """Added later than all before."""
    store.now += 1
    return [put(store, concurrency_key=key, **spec).job_id for _ in range(count)]


def test_jobs_with_one_key_run_one_at_a_time(wide: Store) -> None:
    first, second, third = keyed(wide, "repo:a", 3)
    (running,) = claims(wide)
    assert running.run.job_id == first
    assert claims(wide) == []
    end(wide, running)
    assert claimed_ids(wide) == [second]
    assert states(wide, third) == ["QUEUED"]


def test_a_full_key_holds_back_no_other_job(wide: Store) -> None:
    begin(wide, concurrency_key="repo:a")
    keyed(wide, "repo:a", 3, priority=100)
    others = [*keyed(wide, "repo:b", 1), *keyed(wide, None, 1)]
    assert sorted(claimed_ids(wide)) == sorted(others)


def test_the_same_key_in_another_queue_is_another_key(wide: Store) -> None:
    ids = keyed(wide, "repo:a", 1) + keyed(wide, "repo:a", 1, queue="other")
    assert claimed_ids(wide) == ids


def test_the_longest_pattern_that_matches_sets_the_limit(wide: Store) -> None:
    keys: dict[str, int | KeyRule | None] = {"repo:*": 2, "repo:big*": 3, "*": 4}
    wide.run(configure, ConfigureParams("default", keys=keys))
    for key, limit in (("repo:small", 2), ("repo:big-one", 3), ("user", 4)):
        ids = keyed(wide, key, 6)
        running = claims(wide)
        assert len(running) == limit, key
        stop(wide, *ids)
        for claimed in running:
            end(wide, claimed)


def test_a_raised_limit_is_used_at_once(wide: Store) -> None:
    keyed(wide, "repo:a", 4)
    assert len(claimed_ids(wide)) == 1
    wide.run(configure, ConfigureParams("default", keys={"repo:*": 3}), claiming=True)
    assert len(wide.rows("SELECT 1 FROM jobs WHERE state = 'RUNNING'")) == 3


def test_running_jobs_still_count_after_a_restart(wide: Store) -> None:
    keyed(wide, "repo:a", 2)
    (running,) = claims(wide)
    with reopened(wide) as again:
        assert claims(again) == []
        end(again, running)
        assert len(claims(again)) == 1


def test_a_retry_gives_the_room_of_its_key_back_while_it_waits(wide: Store) -> None:
    first = begin(wide, concurrency_key="k", max_attempts=2, backoff_base_ms=1000)
    (second,) = keyed(wide, "k", 1)
    end(wide, first, BAD)
    assert claimed_ids(wide) == [second]


def test_a_rate_lets_so_many_start_in_any_time_of_its_length(wide: Store) -> None:
    wide.run(configure, ConfigureParams("default", rate=Rate(2, 1000)))
    ids = keyed(wide, None, 5)
    assert claimed_ids(wide) == ids[:2]
    assert wide.committed is not None
    assert wide.committed.due == wide.now + 1000
    wide.now += 999
    assert claims(wide) == []
    wide.now += 1
    assert claimed_ids(wide) == ids[2:4]
    wide.now += 400
    with reopened(wide) as again:
        assert claims(again) == [], "a restart does not let more start"
        again.now += 600
        assert claimed_ids(again) == ids[4:]


def test_a_rate_of_a_key_holds_back_that_key_only(wide: Store) -> None:
    wide.run(configure, ConfigureParams("default", keys={"api:*": KeyRule(5, Rate(1, 1000))}))
    first, second = keyed(wide, "api:x", 2)
    other, plain = keyed(wide, "api:y", 1) + keyed(wide, None, 1)
    assert claimed_ids(wide) == [first, other, plain]
    wide.now += 1000
    assert claimed_ids(wide) == [second]


def test_old_starts_are_forgotten(wide: Store) -> None:
    wide.run(configure, ConfigureParams("default", keys={"*": KeyRule(5, Rate(1, 1000))}))
    for number in range(5):
        keyed(wide, f"k{number}", 1)
    assert len(claims(wide)) == 5
    wide.now += 5000
    keyed(wide, "k9", 1)
    assert len(claims(wide)) == 1
    assert [row["concurrency_key"] for row in wide.rows("SELECT * FROM rates")] == ["k9"]
    assert list(wide.database._counts.rates._starts) == [("default", "k9")]


def test_a_rate_follows_a_clock_that_is_set(wide: Store) -> None:
    wide.run(configure, ConfigureParams("default", rate=Rate(1, 10_000)))
    wide.run(set_clock, Reading("boot", 0))
    keyed(wide, None, 2)
    assert len(claims(wide)) == 1
    wide.now -= 3_600_000
    wide.run(set_clock, Reading("boot", -3_600_000))
    assert claims(wide) == []
    wide.now += 10_000
    assert len(claims(wide)) == 1


def test_a_rate_that_is_removed_lets_all_start(wide: Store) -> None:
    wide.run(configure, ConfigureParams("default", rate=Rate(1, 10_000)))
    keyed(wide, None, 3)
    assert len(claims(wide)) == 1
    wide.run(configure, ConfigureParams("default", rate=Rate(0, 1)))
    assert len(claims(wide)) == 2


# Several slots


def test_a_job_of_several_slots_takes_them_all(wide: Store) -> None:
    put(wide, slots=5)
    put(wide, slots=3)
    third = put(wide).job_id
    first, second = claims(wide)
    assert (first.job.slots, second.job.slots) == (5, 3)
    end(wide, second)
    assert claimed_ids(wide) == [third]


@pytest.mark.parametrize(("queue", "slots"), [("one", 2), ("default", 3)])
def test_a_job_that_could_never_have_its_slots_is_refused(store: Store, queue: str, slots: int) -> None:
    with pytest.raises(TooManySlots) as refused:
        put(store, queue=queue, slots=slots)
    assert (refused.value.number, refused.value.details["path"]) == (4000, "$.slots")
    assert put(store, queue="none", slots=2).state == "QUEUED", "a queue without slots is closed for a while"


def test_a_job_that_needs_more_slots_than_are_free_is_not_overtaken_in_its_queue(tmp_path: Path) -> None:
    store = Store(tmp_path / "meta.db", slots=8, queues={"build": QueueRules(slots=4)})
    small = [begin(store, queue="build") for _ in range(2)]
    wide = put(store, queue="build", slots=4).job_id
    behind = put(store, queue="build").job_id
    other = put(store).job_id
    assert claimed_ids(store) == [other]
    urgent = put(store, queue="build", priority=5).job_id
    (started,) = claims(store)
    assert started.run.job_id == urgent, "a better job is before it"
    for running in (*small, started):
        assert claims(store) == []
        end(store, running)
    (running,) = claims(store)
    assert running.run.job_id == wide
    end(store, running)
    assert claimed_ids(store) == [behind]
    invariants.check(store)
    store.close()


def test_slots_of_all_queues_are_kept_for_it_too(store: Store) -> None:
    first, second = begin(store), begin(store, queue="b")
    wide = put(store, slots=2).job_id
    put(store, queue="b")
    assert claims(store) == []
    end(store, first)
    assert claims(store) == []
    end(store, second)
    assert claimed_ids(store) == [wide]


def test_when_such_a_job_is_cancelled_the_next_starts(store: Store) -> None:
    begin(store)
    wide, behind = put(store, slots=2).job_id, put(store).job_id
    assert claims(store) == []
    stop(store, wide)
    assert claimed_ids(store) == [behind]


def test_a_job_that_needs_more_slots_than_there_are_holds_back_nobody(tmp_path: Path) -> None:
    store = Store(tmp_path / "meta.db", slots=4)
    wide, behind = put(store, slots=3).job_id, put(store).job_id
    store.run(configure, ConfigureParams("default", slots=2))
    assert claimed_ids(store) == [behind]
    store.run(configure, ConfigureParams("default", slots=4))
    assert claimed_ids(store) == [wide]
    invariants.check(store)
    store.close()


# Fairness


def test_a_key_with_many_jobs_does_not_hold_back_another(store: Store) -> None:
    many = keyed(store, "noisy", 20, queue="one")
    few = keyed(store, "quiet", 2, queue="one")
    plain = keyed(store, None, 2, queue="one")
    order = run_all(store, 24)
    assert order[:6] == [many[0], few[0], plain[0], many[1], few[1], plain[1]]
    assert order[6:] == many[2:]


def test_jobs_without_a_key_that_wait_already_do_not_hold_back_a_key(store: Store) -> None:
    plain = keyed(store, None, 20, queue="one")
    first, second = keyed(store, "quiet", 2, queue="one")
    order = run_all(store, 6)
    assert order == [plain[0], first, plain[1], second, plain[2], plain[3]]


def test_fairness_lasts_beyond_a_restart(tmp_path: Path) -> None:
    store = Store(tmp_path / "meta.db", slots=1)
    many = keyed(store, "noisy", 10)
    assert run_all(store, 3) == many[:3]
    with reopened(store) as again:
        (quiet,) = keyed(again, "quiet", 1)
        assert run_all(again, 3) == [many[3], quiet, many[4]]
    store.close()


def run_all(store: Store, count: int) -> list[str]:
    order = []
    for _ in range(count):
        (running,) = claims(store)
        order.append(running.run.job_id)
        end(store, running)
    return order


def test_time_alone_wakes_the_scheduler_for_a_rate(wide: Store) -> None:
    wide.run(configure, ConfigureParams("default", rate=Rate(1, 1000)))
    keyed(wide, None, 3)
    claims(wide)
    for _ in range(2):
        wide.now += 1000
        tick(wide)
        assert len(claims(wide)) == 1
