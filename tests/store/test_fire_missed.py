"""Missed times of a schedule: fired or skipped by misfire and overlap, a few in each transaction, with their events."""

from itertools import product

import msgspec
import pytest

from semantica_daemon.model.schedule import MAX_FIRED_AT_ONCE, ON_TIME_MS
from tests.builders import NOW, Store
from tests.store import invariants
from tests.store.steps import due, tick
from tests.store.timetable import HOUR, MINUTE, made, payloads, schedule, template, the_schedule, trigger


@pytest.fixture(autouse=True)
def of_a_template(forged: Store) -> None:
    template(forged)


AWAY = 5 * MINUTE
MISSED = [NOW + number * MINUTE for number in range(1, 6)]

# Which of the five missed times fire, by (misfire, late by): all of them, the newest, or none.
FIRED: dict[tuple[str, int], list[int]] = {
    ("run_once", 0): MISSED[-1:],
    ("run_once", ON_TIME_MS + 1): MISSED[-1:],
    ("skip", 0): MISSED[-1:],
    ("skip", ON_TIME_MS): MISSED[-1:],
    ("skip", ON_TIME_MS + 1): [],
    ("run_all", 0): MISSED,
    ("run_all", ON_TIME_MS + 1): MISSED,
}
# The states of jobs that one schedule makes at once.
BECOME = {
    "queue": lambda count: ["QUEUED"] * min(count, 1) + ["SCHEDULED"] * (count - 1),
    "skip": lambda count: ["QUEUED"] * min(count, 1),
    "supersede": lambda count: ["SUPERSEDED"] * (count - 1) + ["QUEUED"] * min(count, 1),
}


@pytest.mark.parametrize(("case", "overlap"), list(product(FIRED, BECOME)))
def test_missed_times_are_fired_by_misfire_and_overlap(store: Store, case: tuple[str, int], overlap: str) -> None:
    misfire, late = case
    schedule(store, misfire=misfire, overlap=overlap)
    assert tick(store, AWAY + late) == NOW + AWAY + MINUTE
    fired = FIRED[case]
    assert [job["state"] for job in made(store)] == BECOME[overlap](len(fired))
    told = [event["trigger_at"] for event in payloads(store, "schedule.fired")]
    skipped = payloads(store, "schedule.skipped")
    overlapping = [event["trigger_at"] for event in skipped if event["reason"] == "overlap"]
    assert sorted(told + overlapping) == fired
    missed = [at for at in MISSED if at not in fired]
    summed_up = [event for event in skipped if event["reason"] == "misfire"]
    assert [(event["count"], event["first_at"], event["last_at"], event["misfire"]) for event in summed_up] == [
        (len(missed), missed[0], missed[-1], misfire) for _ in range(bool(missed))
    ]


def test_one_time_that_is_skipped_has_an_event_too(store: Store) -> None:
    schedule(store, misfire="skip")
    tick(store, MINUTE + ON_TIME_MS + 1)
    (skipped,) = payloads(store, "schedule.skipped")
    assert (skipped["count"], skipped["more"], skipped["first_at"], skipped["last_at"]) == (
        1,
        False,
        *[NOW + MINUTE] * 2,
    )
    assert made(store) == []


def test_many_missed_times_are_fired_in_parts_each_once(forged: Store) -> None:
    """Another daemon takes over between any two parts."""
    schedule(forged, misfire="run_all")
    parts, store = [], forged
    store.now += 35 * MINUTE
    while (found := due(store)).at is not None and found.at <= store.now:
        parts.append(len(made(store)))
        store.close()
        again = Store(store.path, seed=len(parts))
        again.now, store = store.now, again
    assert parts == [MAX_FIRED_AT_ONCE, 2 * MAX_FIRED_AT_ONCE, 3 * MAX_FIRED_AT_ONCE]
    told = [event["trigger_at"] for event in payloads(store, "schedule.fired")]
    assert told == [NOW + number * MINUTE for number in range(1, 36)]
    assert payloads(store, "schedule.skipped") == []
    assert the_schedule(store)["next_trigger_at"] == NOW + 36 * MINUTE
    invariants.check(store)
    store.close()


def test_a_time_that_comes_between_the_parts_is_fired_after_them(store: Store) -> None:
    schedule(store, misfire="run_all")
    tick(store, 15 * MINUTE)
    tick(store, 2 * MINUTE)
    told = [event["trigger_at"] for event in payloads(store, "schedule.fired")]
    assert told == [NOW + number * MINUTE for number in range(1, 18)]


def fire_all(store: Store) -> list[int]:
    """Fires until nothing is due; the times that were fired, or skipped by overlap."""
    before = store.database.sequence
    while (at := tick(store)) is not None and at <= store.now:
        pass
    told = [msgspec.json.decode(event["payload"]) for event in store.events()[before:]]
    return sorted(about["trigger_at"] for about in told if "trigger_at" in about)


def test_of_more_than_a_thousand_missed_times_the_newest_are_fired(store: Store) -> None:
    schedule(store, cron="* * * * * *", misfire="run_all", overlap="skip")
    store.now += 1010_000
    assert fire_all(store) == [NOW + number * 1000 for number in range(11, 1011)]
    first = payloads(store, "schedule.skipped")[0]
    assert (first["reason"], first["count"], first["first_at"], first["last_at"]) == (
        "misfire", 10, NOW + 1000, NOW + 10_000,
    )  # fmt: skip


def test_a_long_break_between_the_parts_skips_the_oldest_again(store: Store) -> None:
    """A trigger by hand in between changes nothing."""
    schedule(store, cron="* * * * * *", misfire="run_all", overlap="skip")
    store.now += 500_000
    tick(store)
    trigger(store)
    store.now += 2_000_000
    assert fire_all(store) == [NOW + number * 1000 for number in range(1501, 2501)]
    missed = [event for event in payloads(store, "schedule.skipped") if event["reason"] == "misfire"]
    assert [(event["first_at"], event["last_at"]) for event in missed] == [(NOW + 11_000, NOW + 1500_000)]


def test_a_short_break_between_the_parts_skips_nothing(store: Store) -> None:
    schedule(store, cron="* * * * * *", misfire="run_all", overlap="skip")
    store.now += 100_000
    tick(store)
    store.now += 5000
    assert fire_all(store) == [NOW + number * 1000 for number in range(11, 106)]


def test_one_transaction_fires_the_latest_and_the_earliest_schedule(store: Store) -> None:
    """A schedule on time is not held up, and a late one progresses too."""
    for number in range(5):
        schedule(store, f"s{number}", f"{10 + number} * * * *")
    store.now += HOUR
    parts = []
    while (at := tick(store)) is not None and at <= store.now:
        parts.append({event["name"] for event in payloads(store, "schedule.fired")})
    assert parts == [{"s0", "s4"}, {"s0", "s1", "s3", "s4"}]
    assert sorted(event["name"] for event in payloads(store, "schedule.fired")) == ["s0", "s1", "s2", "s3", "s4"]


def test_schedules_with_many_missed_times_do_not_hold_up_one_on_time(store: Store) -> None:
    for number in range(4):
        schedule(store, f"late{number}", misfire="run_all")
    store.now += 90 * MINUTE
    tick(store)
    kept = schedule(store, "punctual", "* * * * * *", misfire="skip")
    assert kept.next_trigger_at is not None
    tick(store, 1000)
    assert len(made(store, "punctual")) == 1
