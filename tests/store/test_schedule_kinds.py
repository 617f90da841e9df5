"""Schedules that fire at an interval, when the machine starts, or at every event; and their jitter."""

from typing import Any

import msgspec
import pytest

from semantica_daemon.errors import InvalidParams
from semantica_daemon.store.writes.clock import Reading, set_clock
from semantica_daemon.store.writes.emit import Emit, emit
from semantica_daemon.store.writes.fire import fire_at_reboot
from semantica_daemon.store.writes.recover import recover
from tests.builders import NOW, Store
from tests.store.steps import claims, end, put, states, tick
from tests.store.timetable import HOUR, MINUTE, made, payloads, schedule, switch, template, the_schedule, trigger


@pytest.fixture(autouse=True)
def of_a_template(store: Store) -> None:
    template(store)


def repeat(store: Store, name: str = "s", **fields: Any) -> Any:
    return schedule(store, name, cron=None, **fields)


def fired_at(store: Store) -> list[int]:
    return [one["trigger_at"] - NOW for one in payloads(store, "schedule.fired")]


def set_boot(store: Store, boot_id: str, offset_ms: int = 0) -> None:
    store.run(set_clock, Reading(boot_id, offset_ms))
    store.run(recover, frozenset())
    store.run(fire_at_reboot, None)


def emitted(store: Store, key: str, value: str | None = None) -> list[str]:
    fired: list[str] = store.run(emit, Emit(key, value)).fired
    return fired


def test_an_interval_counts_from_the_put_and_fires_at_each_multiple(store: Store) -> None:
    store.now += 7
    assert repeat(store, every_ms=10 * MINUTE).next_trigger_at == NOW + 7 + 10 * MINUTE
    for _ in range(3):
        tick(store, 10 * MINUTE)
    assert fired_at(store) == [7 + 10 * MINUTE * number for number in (1, 2, 3)]


def test_every_in_a_cron_expression_is_an_interval(store: Store) -> None:
    repeat(store, "a", cron_expression="@every 1h30m")
    row = the_schedule(store, "a")
    assert (row["cron_expression"], row["every_ms"], row["next_trigger_at"]) == (None, 90 * MINUTE, NOW + 90 * MINUTE)


def test_intervals_that_were_missed_are_made_up_for_by_one_job_and_the_rhythm_stays(store: Store) -> None:
    repeat(store, every_ms=10 * MINUTE)
    tick(store, 35 * MINUTE)
    assert fired_at(store) == [30 * MINUTE]
    assert payloads(store, "schedule.skipped")[0]["count"] == 2
    assert the_schedule(store)["next_trigger_at"] == NOW + 40 * MINUTE


def test_an_interval_keeps_its_length_when_the_clock_is_set(store: Store) -> None:
    set_boot(store, "one")
    repeat(store, every_ms=10 * MINUTE)
    store.now += 4 * MINUTE + HOUR
    set_boot(store, "one", HOUR)
    assert the_schedule(store)["next_trigger_at"] == NOW + HOUR + 10 * MINUTE
    tick(store, 6 * MINUTE)
    assert fired_at(store) == [HOUR + 10 * MINUTE]


def test_an_edit_keeps_the_rhythm_and_another_interval_begins_anew(store: Store) -> None:
    repeat(store, every_ms=10 * MINUTE)
    store.now += MINUTE
    assert repeat(store, every_ms=10 * MINUTE, overlap="skip").next_trigger_at == NOW + 10 * MINUTE
    assert repeat(store, every_ms=5 * MINUTE).next_trigger_at == NOW + 6 * MINUTE
    switch(store, False)
    store.now += MINUTE
    assert switch(store, True).next_trigger_at == NOW + 7 * MINUTE


def test_a_reboot_schedule_fires_once_at_the_first_start_after_a_boot(store: Store) -> None:
    set_boot(store, "one")
    repeat(store, cron_expression=" @Reboot")
    repeat(store, "off", cron_expression="@reboot", enabled=False)
    set_boot(store, "one")
    assert made(store) == []
    set_boot(store, "two")
    set_boot(store, "two")
    assert (len(made(store)), made(store, "off")) == (1, [])
    assert the_schedule(store)["next_trigger_at"] is None


def test_a_run_that_the_reboot_ended_does_not_overlap_with_the_job_of_the_reboot(store: Store) -> None:
    repeat(store, cron_expression="@reboot", overlap="skip")
    for boot_id in ("one", "two", "three"):
        set_boot(store, boot_id)
        claims(store)
    assert [job["state"] for job in made(store)] == ["FAILED", "RUNNING"]


def test_an_interval_goes_on_when_the_clock_is_set_back_over_a_reboot(store: Store) -> None:
    set_boot(store, "one")
    repeat(store, every_ms=10 * MINUTE)
    tick(store, 10 * MINUTE)
    for boot_id, back in (("two", 1000 * HOUR), ("three", 5 * MINUTE)):
        store.now -= back
        set_boot(store, boot_id)
        assert the_schedule(store)["next_trigger_at"] == store.now + 10 * MINUTE
        tick(store, 10 * MINUTE)
    assert len(fired_at(store)) == 3


def test_an_event_makes_a_job_each_time_with_its_value_in_the_payload(store: Store) -> None:
    repeat(store, on_event="git:commit", param_overrides={"a": 1}, overlap="queue")
    jobs = emitted(store, "git:commit", "main") + emitted(store, "git:commit") + emitted(store, "other")
    assert [job["id"] for job in made(store)] == jobs
    events = [{"key": "git:commit", "value": value} for value in ("main", None)]
    assert [msgspec.json.decode(job["payload"]) for job in made(store)] == [{"a": 1, "event": one} for one in events]
    assert states(store, *jobs) == ["QUEUED", "SCHEDULED"]


def test_an_event_fires_only_the_schedules_for_its_value(store: Store) -> None:
    repeat(store, "main", on_event="git:commit", event_value="main")
    repeat(store, "off", on_event="git:commit", enabled=False)
    assert len(emitted(store, "git:commit", "main")) == 1
    assert emitted(store, "git:commit", "topic") == emitted(store, "git:commit") == []
    switch(store, True, "off")
    assert len(emitted(store, "git:commit")) == 1


def test_a_job_that_an_event_makes_does_not_see_that_event(store: Store) -> None:
    template(store, schedule={"type": "CONDITION", "wait_for_event": "e"})
    repeat(store, on_event="e")
    waiting = put(store, schedule={"type": "CONDITION", "wait_for_event": "e"})
    (job_id,) = emitted(store, "e")
    assert states(store, waiting.job_id, job_id) == ["QUEUED", "SCHEDULED"]


def test_an_event_that_makes_no_valid_job_is_reported_and_the_others_go_on(store: Store) -> None:
    template(store, "unusable")
    repeat(store, "bad", on_event="e", template_id="unusable")
    repeat(store, "good", on_event="e")
    store.connection.execute("UPDATE templates SET spec = '{}' WHERE name = 'unusable'")
    assert len(emitted(store, "e")) == 1
    (failed,) = payloads(store, "schedule.failed")
    assert failed["name"] == "bad"


def test_a_trigger_of_an_event_schedule_has_its_key(store: Store) -> None:
    repeat(store, on_event="e", event_value="v")
    trigger(store)
    assert msgspec.json.decode(made(store)[0]["payload"]) == {"event": {"key": "e", "value": "v"}}


def test_jitter_delays_each_job_differently_and_always_the_same(store: Store) -> None:
    repeat(store, every_ms=HOUR, jitter_ms=10 * MINUTE)
    delays = []
    for _ in range(4):
        tick(store, HOUR)
        job = made(store)[-1]
        delays.append(job["scheduled_at"] - store.now)
        tick(store, 10 * MINUTE)
        (claimed,) = claims(store)
        end(store, claimed)
        store.now -= 10 * MINUTE
    assert fired_at(store) == [HOUR * number for number in (1, 2, 3, 4)]
    assert all(0 <= delay <= 10 * MINUTE for delay in delays)
    assert len(set(delays)) > 1


def test_jitter_adds_to_the_delay_of_the_template_and_not_to_a_trigger(store: Store) -> None:
    template(store, schedule={"type": "AFTER", "delay_ms": MINUTE})
    repeat(store, every_ms=HOUR, jitter_ms=MINUTE, overlap="queue")
    trigger(store)
    assert made(store)[0]["schedule_delay_ms"] == MINUTE
    tick(store, HOUR)
    assert MINUTE <= made(store)[1]["schedule_delay_ms"] <= 2 * MINUTE


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("$.cron_expression", {}),
        ("$.every_ms", {"cron_expression": "@daily", "every_ms": 5000}),
        ("$.on_event", {"every_ms": 5000, "on_event": "e"}),
        ("$.event_value", {"every_ms": 5000, "event_value": "v"}),
        ("$.on_event", {"on_event": "semantica:x"}),
        ("$.cron_expression", {"cron_expression": "@every"}),
        ("$.cron_expression", {"cron_expression": "@every 10"}),
        ("$.cron_expression", {"cron_expression": "@every 10ms"}),
    ],
)
def test_a_schedule_has_exactly_one_reason_to_fire(store: Store, path: str, fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidParams) as refused:
        repeat(store, **fields)
    assert refused.value.details["path"] == path
