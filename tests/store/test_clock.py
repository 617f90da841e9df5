"""The wall clock is set: delays keep their length, times of day stay, schedules continue, each step counts once."""

from typing import Any

import pytest

from semantica_daemon.model.outcome import LOST
from semantica_daemon.store.writes.clock import NOTICED_MS, Reading, set_clock
from semantica_daemon.store.writes.lost import lost
from semantica_daemon.store.writes.queues import pause
from semantica_daemon.wire.queue import PauseParams
from tests.builders import NOW, Store
from tests.store.steps import BAD, begin, claims, emitted, end, put, states, tick
from tests.store.timetable import HOUR, MINUTE, made, payloads, schedule, template, the_schedule, trigger

BOOT = "boot"
STEPS = [HOUR, -HOUR]


def read(store: Store, step: int = 0, boot: str = BOOT, known: int = 5000) -> int:
    """The clock is found set by so much; it shows that from now on."""
    store.now += step
    stepped: int = store.run(set_clock, Reading(boot, known + step))
    return stepped


@pytest.fixture(autouse=True)
def first_reading(forged: Store) -> None:
    read(forged)


def columns(store: Store, job_id: str, *names: str) -> tuple[Any, ...]:
    job = store.job(job_id)
    return tuple(job[name] for name in names)


@pytest.mark.parametrize("step", STEPS)
def test_a_delay_stays_as_long_as_it_was(store: Store, step: int) -> None:
    job_id = put(store, schedule={"type": "AFTER", "delay_ms": 100}).job_id
    store.now += 40
    assert read(store, step) == step
    assert columns(store, job_id, "scheduled_at") == (NOW + 100 + step,)
    assert tick(store, 59) == store.now + 1
    assert states(store, job_id) == ["SCHEDULED"]
    tick(store, 1)
    assert states(store, job_id) == ["QUEUED"]


@pytest.mark.parametrize("step", STEPS)
def test_so_do_backoff_debounce_ttl_pause_and_keys(store: Store, step: int) -> None:
    claimed = begin(store, max_attempts=2)
    end(store, claimed, BAD)
    (backoff,) = columns(store, claimed.run.job_id, "scheduled_at")
    quiet = put(store, subject_key="s", debounce_ms=100, max_wait_ms=300).job_id
    mortal = put(store, ttl_ms=50, idempotency_key="k", queue="none").job_id
    store.run(pause, PauseParams("default", 70))
    read(store, step)
    assert columns(store, claimed.run.job_id, "scheduled_at") == (backoff + step,)
    assert columns(store, quiet, "scheduled_at", "postponed_since") == (NOW + 100 + step, NOW + step)
    assert columns(store, mortal, "expires_at") == (NOW + 50 + step,)
    assert store.rows("SELECT resume_at FROM queues") == [{"resume_at": NOW + 70 + step}]
    assert store.rows("SELECT expires_at FROM idempotency") == [{"expires_at": NOW + 86_400_000 + step}]
    (told,) = payloads(store, "daemon.clock_stepped")
    moved = {"delays": 2, "debounces": 1, "ttls": 1, "pauses": 1, "reservations": 0, "intervals": 0, "keys": 1}
    moved["rates"] = 0
    moved |= {"leases": 0, "workers": 0}
    assert told == {"step_ms": step, "moved": moved}


@pytest.mark.parametrize("step", STEPS)
def test_times_of_the_day_stay_as_they_are(store: Store, step: int) -> None:
    at = put(store, schedule={"type": "AT", "scheduled_at": NOW + 100}).job_id
    both = put(store, schedule={"type": "AT", "scheduled_at": NOW + 100, "delay_ms": 5}).job_id
    limited = put(store, deadline=NOW + 2 * HOUR, schedule={"type": "AFTER", "delay_ms": 100}).job_id
    read(store, step)
    assert columns(store, at, "scheduled_at") == columns(store, both, "scheduled_at") == (NOW + 100,)
    assert columns(store, limited, "deadline", "scheduled_at") == (NOW + 2 * HOUR, NOW + 100 + step)


def test_what_the_clock_has_passed_over_is_due_now(store: Store) -> None:
    at = put(store, schedule={"type": "AT", "scheduled_at": NOW + 100}).job_id
    limited = put(store, deadline=NOW + 100, queue="none").job_id
    read(store, HOUR)
    assert store.committed is not None
    assert store.committed.due == store.now
    tick(store)
    assert states(store, at, limited) == ["QUEUED", "SKIPPED_DEADLINE"]


@pytest.mark.parametrize("step", STEPS)
def test_what_runs_or_is_over_or_waits_for_no_time_is_left_alone(store: Store, step: int) -> None:
    end(store, begin(store, ttl_ms=50))
    begin(store, ttl_ms=50)
    put(store, queue="none")
    put(store, schedule={"type": "CONDITION", "wait_for_event": "e"})
    before = store.rows("SELECT * FROM jobs")
    read(store, step)
    assert store.rows("SELECT * FROM jobs") == before


def test_a_delay_that_has_passed_while_it_waits_for_an_event_stays_passed(store: Store) -> None:
    job_id = put(store, schedule={"type": "AFTER", "delay_ms": 10, "wait_for_event": "e"}).job_id
    store.now += 20
    read(store, HOUR)
    emitted(store, "e")
    tick(store)
    assert states(store, job_id) == ["QUEUED"]


@pytest.mark.parametrize("after", ["queued", "running"])
def test_a_time_that_has_come_does_not_come_again_for_a_job_that_has_lost_the_machine(store: Store, after: str) -> None:
    job_id = put(store, schedule={"type": "AT", "scheduled_at": NOW + 10, "wait_for_idle": True}).job_id
    store.machine(idle=True)
    tick(store, 10)
    if after == "queued":
        store.machine()
        store.run(lost, None)
    else:
        end(store, claims(store)[0], LOST)
    assert states(store, job_id) == ["SCHEDULED"]
    read(store, -HOUR)
    store.machine(idle=True)
    tick(store)
    assert states(store, job_id) == ["QUEUED"]


def test_the_wait_of_a_busy_lane_moves_with_whoever_has_it(store: Store) -> None:
    """Queued, or waiting for a time of the day: what replaces it goes on counting from there."""
    lane: dict[str, Any] = {"debounce_ms": 100, "max_wait_ms": 300, "queue": "none"}
    put(store, subject_key="queued", **lane)
    tick(store, 100)
    put(store, subject_key="at", **lane, schedule={"type": "AT", "scheduled_at": NOW + HOUR})
    read(store, -HOUR)
    replaced = [put(store, subject_key=key, **lane) for key in ("queued", "at")]
    since = [store.job(ack.job_id)["postponed_since"] for ack in replaced]
    assert since == [NOW - HOUR, NOW + 100 - HOUR]


@pytest.mark.parametrize("step", [NOTICED_MS, -NOTICED_MS, NOTICED_MS - 1, 1 - NOTICED_MS, 0])
def test_less_than_a_second_is_the_clock_being_disciplined(store: Store, step: int) -> None:
    job_id = put(store, schedule={"type": "AFTER", "delay_ms": 5000}).job_id
    read(store, step)
    noticed = abs(step) >= NOTICED_MS
    assert columns(store, job_id, "scheduled_at") == (NOW + 5000 + step * noticed,)
    assert len(payloads(store, "daemon.clock_stepped")) == noticed


def test_small_ones_do_not_add_up_to_a_step(store: Store) -> None:
    job_id = put(store, schedule={"type": "AFTER", "delay_ms": 5000}).job_id
    for number in range(4):
        assert read(store, 400, known=5000 + 400 * number) == 400
    assert columns(store, job_id, "scheduled_at") == (NOW + 5000,)


def everything(store: Store) -> list[Any]:
    tables = ("jobs", "job_events", "queues", "idempotency", "facts", "schedules")
    return [store.rows(f"SELECT * FROM {table}") for table in tables]


def test_the_same_reading_twice_is_nothing(store: Store) -> None:
    template(store)
    schedule(store)
    put(store, schedule={"type": "AFTER", "delay_ms": 5000}, idempotency_key="k")
    read(store, HOUR)
    before = everything(store)
    assert read(store, known=5000 + HOUR) == 0
    assert everything(store) == before


def test_after_another_boot_nobody_can_tell_and_from_then_on_it_counts(store: Store) -> None:
    job_id = put(store, schedule={"type": "AFTER", "delay_ms": 5000}).job_id
    assert read(store, HOUR, boot="next") == 0
    assert columns(store, job_id, "scheduled_at") == (NOW + 5000,)
    assert payloads(store, "daemon.clock_stepped") == []
    assert read(store, -HOUR, boot="next", known=5000 + HOUR) == -HOUR
    assert columns(store, job_id, "scheduled_at") == (NOW + 5000 - HOUR,)


def test_a_step_while_no_daemon_ran_is_noticed_by_the_next(forged: Store) -> None:
    job_id = put(forged, schedule={"type": "AFTER", "delay_ms": 5000}).job_id
    forged.close()
    again = Store(forged.path)
    assert read(again, -HOUR) == -HOUR
    assert columns(again, job_id, "scheduled_at") == (NOW + 5000 - HOUR,)
    again.close()


def test_a_suspend_is_no_step_and_what_became_due_is_due_now(store: Store) -> None:
    """Time since boot goes on while the machine sleeps, so the two clocks stay together."""
    job_id = put(store, schedule={"type": "AFTER", "delay_ms": 5000}).job_id
    store.now += 8 * HOUR
    assert read(store) == 0
    tick(store)
    assert states(store, job_id) == ["QUEUED"]


def test_a_step_is_told_in_words(store: Store) -> None:
    read(store, -HOUR)
    event = store.events()[-1]
    assert (event["level"], event["message"]) == ("warn", "the clock was set back by 3600000 ms")


def next_trigger(store: Store) -> int:
    at: int = the_schedule(store)["next_trigger_at"]
    return at - store.now


def test_set_forward_schedules_fire_the_missed_times_by_their_policy(store: Store) -> None:
    template(store)
    schedule(store, "once", "*/10 * * * *", misfire="run_once")
    schedule(store, "all", "*/10 * * * *", misfire="run_all")
    read(store, HOUR)
    tick(store)
    assert (len(made(store, "once")), len(made(store, "all"))) == (1, 6)


def test_set_back_a_schedule_does_not_fire_a_time_again(store: Store) -> None:
    template(store)
    schedule(store, cron="*/10 * * * *", overlap="supersede")
    for _ in range(6):
        tick(store, 10 * MINUTE)
    read(store, -30 * MINUTE)
    assert next_trigger(store) == 40 * MINUTE
    tick(store, 30 * MINUTE)
    assert len(made(store)) == 6
    tick(store, 10 * MINUTE)
    assert len(made(store)) == 7


def test_a_trigger_by_hand_does_not_move_the_watermark(store: Store) -> None:
    template(store)
    schedule(store, cron="*/10 * * * *", overlap="supersede")
    store.now += 9 * MINUTE
    trigger(store)
    read(store, -15 * MINUTE)
    tick(store, 6 * MINUTE)
    assert [event["trigger_at"] - NOW for event in payloads(store, "schedule.fired")] == [9 * MINUTE, 0]


def test_a_clock_that_was_ahead_for_a_moment_silences_no_schedule(store: Store) -> None:
    template(store)
    schedule(store, cron="*/10 * * * *", overlap="supersede")
    read(store, 23 * HOUR)
    tick(store)
    read(store, -23 * HOUR, known=5000 + 23 * HOUR)
    assert next_trigger(store) == 10 * MINUTE


def test_a_clock_that_was_hours_behind_for_a_moment_keeps_the_watermark(store: Store) -> None:
    template(store)
    schedule(store, cron="0 * * * *", misfire="run_all", overlap="supersede")
    tick(store, 8 * HOUR)
    before = len(made(store))
    read(store, -5 * HOUR)
    assert next_trigger(store) <= HOUR, "by the new clock"
    read(store, 5 * HOUR, known=5000 - 5 * HOUR)
    tick(store)
    assert (before, len(made(store))) == (8, 8)


def test_set_back_before_it_ever_fired_a_schedule_follows_the_new_clock(store: Store) -> None:
    template(store)
    schedule(store, cron="*/10 * * * *")
    read(store, -30 * MINUTE)
    assert next_trigger(store) == 10 * MINUTE
    assert store.committed is not None
    assert store.committed.due == store.now


def test_a_schedule_without_its_zone_fails_with_an_event_and_the_others_continue(store: Store) -> None:
    template(store)
    schedule(store, "lost"), schedule(store)
    store.connection.execute("UPDATE schedules SET timezone = 'Europe/Nowhere' WHERE name = 'lost'")
    read(store, -HOUR)
    assert the_schedule(store, "lost")["next_trigger_at"] is None
    assert len(payloads(store, "schedule.failed")) == 1
    assert next_trigger(store) == MINUTE


def test_a_schedule_whose_zone_is_back_has_a_next_time_again(store: Store) -> None:
    template(store)
    schedule(store)
    store.connection.execute("UPDATE schedules SET next_trigger_at = NULL")
    read(store)
    assert next_trigger(store) == MINUTE


def test_a_disabled_schedule_stays_without_a_next_time(store: Store) -> None:
    template(store)
    schedule(store, enabled=False)
    read(store, HOUR)
    assert the_schedule(store)["next_trigger_at"] is None
