"""What a schedule does with its occurrences: each policy by a table, that none is lost or doubled by properties."""

from datetime import datetime
from itertools import accumulate, takewhile
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semantica_daemon.model import cron
from semantica_daemon.model.schedule import (
    MOST_AT_ONCE,
    MOST_COUNTED,
    ON_TIME_MS,
    TWO_DAYS_MS,
    Fired,
    Firing,
    due,
    extended,
    going_on,
    settled,
    upcoming,
)
from tests.model.slow_cron import last_until

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
TEN_YEARS = 3652 * DAY
POLICIES = ("run_once", "skip", "run_all")
EVERY_SECOND, EVERY_MINUTE, EVERY_HOUR, EVERY_DAY = "* * * * * *", "* * * * *", "0 * * * *", "30 3 * * *"


def at(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp() * 1000)


ASLEEP, AWAKE = at("2025-07-01T22:00:10+00:00"), at("2025-07-02T06:00:10+00:00")
LATE_AWAKE = AWAKE + 20 * MINUTE


def every(step_ms: int, first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1, step_ms))


NIGHT_MINUTES = every(MINUTE, at("2025-07-01T22:01+00:00"), at("2025-07-02T06:00+00:00"))
NIGHT_HOURS = every(HOUR, at("2025-07-01T23:00+00:00"), at("2025-07-02T06:00+00:00"))
NIGHT_DAYS = (at("2025-07-02T03:30+00:00"),)

# After eight hours of suspend, awake ten seconds past the hour: what fires, how many are skipped.
SUSPENDED = {
    (EVERY_MINUTE, "run_once"): (NIGHT_MINUTES[-1:], 479),
    (EVERY_MINUTE, "skip"): (NIGHT_MINUTES[-1:], 479),
    (EVERY_MINUTE, "run_all"): (NIGHT_MINUTES, 0),
    (EVERY_HOUR, "run_once"): (NIGHT_HOURS[-1:], 7),
    (EVERY_HOUR, "skip"): (NIGHT_HOURS[-1:], 7),
    (EVERY_HOUR, "run_all"): (NIGHT_HOURS, 0),
    (EVERY_DAY, "run_once"): (NIGHT_DAYS, 0),
    (EVERY_DAY, "skip"): ((), 1),
    (EVERY_DAY, "run_all"): (NIGHT_DAYS, 0),
}


@pytest.mark.parametrize(("expression", "misfire"), SUSPENDED)
def test_eight_hours_of_suspend(expression: str, misfire: str) -> None:
    trigger_at = cron.next_after(expression, "UTC", ASLEEP)
    assert trigger_at is not None
    fire, skipped = SUSPENDED[expression, misfire]
    found = due(expression, "UTC", misfire, trigger_at, AWAKE)
    assert (found.fire, found.skipped, found.skipped_more) == (fire, skipped, False)
    assert found.first_skipped == (trigger_at if skipped else None)
    assert found.next_trigger_at == cron.next_after(expression, "UTC", AWAKE)


@pytest.mark.parametrize("misfire", POLICIES)
def test_awake_when_nothing_is_on_time(misfire: str) -> None:
    """Twenty minutes past the hour, skip skips it all."""
    found = due(EVERY_HOUR, "UTC", misfire, NIGHT_HOURS[0], LATE_AWAKE)
    fire = {"run_once": NIGHT_HOURS[-1:], "skip": (), "run_all": NIGHT_HOURS}[misfire]
    skipped = NIGHT_HOURS[: len(NIGHT_HOURS) - len(fire)]
    first, last = (skipped[0], skipped[-1]) if skipped else (None, None)
    assert found == Firing(fire, len(skipped), False, first, last, NIGHT_HOURS[-1] + HOUR)


@pytest.mark.parametrize("misfire", POLICIES)
@pytest.mark.parametrize("late_ms", [0, 1, 999, ON_TIME_MS])
def test_on_time_every_policy_fires(misfire: str, late_ms: int) -> None:
    trigger_at = NIGHT_HOURS[0]
    expected = Firing((trigger_at,), 0, False, None, None, trigger_at + HOUR)
    assert due(EVERY_HOUR, "UTC", misfire, trigger_at, trigger_at + late_ms) == expected


def test_half_a_minute_and_a_millisecond_is_too_late_for_skip() -> None:
    trigger_at = NIGHT_HOURS[0]
    expected = Firing((), 1, False, trigger_at, trigger_at, trigger_at + HOUR)
    assert due(EVERY_HOUR, "UTC", "skip", trigger_at, trigger_at + ON_TIME_MS + 1) == expected


def test_of_several_on_time_skip_fires_the_newest() -> None:
    start = NIGHT_HOURS[0]
    found = due(EVERY_SECOND, "UTC", "skip", start, start + 10 * SECOND + 500)
    newest = start + 10 * SECOND
    assert found == Firing((newest,), 10, False, start, newest - SECOND, newest + SECOND)


@pytest.mark.parametrize("misfire", POLICIES)
def test_what_is_not_due_yet_stays(misfire: str) -> None:
    assert due(EVERY_HOUR, "UTC", misfire, AWAKE + 1, AWAKE) == Firing((), 0, False, None, None, AWAKE + 1)


@pytest.mark.parametrize("misfire", POLICIES)
def test_a_promised_instant_counts_though_the_zone_no_longer_has_it(misfire: str) -> None:
    promised = NIGHT_HOURS[0] + 7 * MINUTE
    found = due(EVERY_HOUR, "UTC", misfire, promised, promised + SECOND)
    assert found == Firing((promised,), 0, False, None, None, NIGHT_HOURS[1])
    later = due(EVERY_HOUR, "UTC", misfire, promised, NIGHT_HOURS[1])
    assert (later.first_skipped or later.fire[0]) == promised
    assert later.fire[-1] == NIGHT_HOURS[1]
    assert len(later.fire) + later.skipped == 2


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("misfire", POLICIES)
@pytest.mark.parametrize("expression", [EVERY_SECOND, EVERY_MINUTE, EVERY_HOUR, EVERY_DAY])
def test_ten_years_away_are_counted_back_not_walked(expression: str, misfire: str, zone: str) -> None:
    trigger_at = cron.next_after(expression, zone, AWAKE - TEN_YEARS)
    assert trigger_at is not None
    began = process_time()
    found = due(expression, zone, misfire, trigger_at, AWAKE)
    assert process_time() - began < 2, "some 20 ms; all ten years would be a minute at least"
    assert len(found.fire) == {"run_once": 1, "skip": expression != EVERY_DAY, "run_all": MOST_AT_ONCE}[misfire]
    assert (found.skipped, found.skipped_more) == (MOST_COUNTED, True)
    assert found.first_skipped == trigger_at
    newest = last_until(expression, zone, AWAKE)
    assert newest == (found.fire[-1] if found.fire else found.last_skipped)
    assert found.next_trigger_at == cron.next_after(expression, zone, AWAKE)


@pytest.mark.parametrize(("misfire", "fires"), [("run_once", 1), ("run_all", MOST_AT_ONCE)])
@pytest.mark.parametrize("beyond", [0, 1, MOST_COUNTED, MOST_COUNTED + 1])
def test_the_limits_are_exact(misfire: str, fires: int, beyond: int) -> None:
    first = NIGHT_HOURS[0]
    now = first + (fires + beyond - 1) * MINUTE
    found = due(EVERY_MINUTE, "UTC", misfire, first, now)
    assert found.fire == every(MINUTE, now - (fires - 1) * MINUTE, now)
    assert (found.skipped, found.skipped_more) == (min(beyond, MOST_COUNTED), beyond > MOST_COUNTED)
    assert found.last_skipped == (now - fires * MINUTE if beyond else None)


@pytest.mark.parametrize("misfire", POLICIES)
@pytest.mark.parametrize("expression", [EVERY_MINUTE, EVERY_DAY])
def test_a_clock_past_the_end_of_the_calendar_fires_and_comes_to_rest(expression: str, misfire: str) -> None:
    found = due(expression, "Europe/Berlin", misfire, NIGHT_HOURS[0], 10**15)
    assert len(found.fire) == {"run_once": 1, "skip": 0, "run_all": MOST_AT_ONCE}[misfire]
    assert found.skipped_more
    assert found.next_trigger_at is None


# None is lost, none is doubled.

expressions = st.sampled_from(
    [
        "*/10 * * * * *",
        "* * * * *",
        "*/7 1-3 * * *",
        "30 2 * * *",
        "0 2,3 * * *",
        "0 * * * *",
        "15 10 2 * * *",
        "@daily",
    ]
)
zones = st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"])
# Around Berlin's and Lord Howe's changes in 2025.
starts = st.sampled_from(["2025-03-29", "2025-04-05", "2025-07-01", "2025-10-04", "2025-10-25"]).map(
    lambda day: at(f"{day}T10:00:00+00:00")
)
naps = st.integers(0, 90 * SECOND) | st.integers(0, 3 * HOUR) | st.integers(0, 30 * HOUR)


def all_between(expression: str, zone: str, after: int, until: int) -> tuple[int, ...]:
    return tuple(takewhile(lambda found: found <= until, cron.occurrences(expression, zone, after)))


@given(expressions, zones, st.sampled_from(POLICIES), starts, naps)
@settings(derandomize=True, deadline=None, max_examples=200)
def test_every_occurrence_fires_or_is_skipped(
    expression: str, zone: str, misfire: str, start: int, nap_ms: int
) -> None:
    trigger_at = cron.next_after(expression, zone, start)
    assert trigger_at is not None
    now = trigger_at + nap_ms
    occurred = all_between(expression, zone, trigger_at - 1, now)
    found = due(expression, zone, misfire, trigger_at, now)
    assert found.fire == occurred[len(occurred) - len(found.fire) :]
    skipped = occurred[: len(occurred) - len(found.fire)]
    assert found.skipped == min(len(skipped), MOST_COUNTED)
    assert found.skipped_more == (len(skipped) > MOST_COUNTED)
    assert (found.first_skipped, found.last_skipped) == ((skipped[0], skipped[-1]) if skipped else (None, None))
    if misfire == "skip":
        assert bool(found.fire) == (now - occurred[-1] <= ON_TIME_MS)
        return
    assert len(found.fire) == (min(len(occurred), MOST_AT_ONCE) if misfire == "run_all" else 1)


@given(expressions, zones, st.sampled_from(POLICIES), starts, st.lists(naps, min_size=2, max_size=12))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_from_one_firing_to_the_next_nothing_is_lost_or_doubled(
    expression: str, zone: str, misfire: str, start: int, naps_ms: list[int]
) -> None:
    trigger_at = first = cron.next_after(expression, zone, start)
    fired: list[int] = []
    skipped, uncounted, looked_at = 0, False, start
    for looked_at in accumulate(naps_ms, initial=start):
        assert trigger_at is not None
        found = due(expression, zone, misfire, trigger_at, looked_at)
        fired += found.fire
        skipped += found.skipped
        uncounted |= found.skipped_more
        trigger_at = found.next_trigger_at
    assert first is not None
    occurred = all_between(expression, zone, first - 1, looked_at)
    assert trigger_at == cron.next_after(expression, zone, max(looked_at, start))
    assert sorted(set(fired)) == fired
    assert set(fired) <= set(occurred)
    assert uncounted or len(fired) + skipped == len(occurred)


# After the clock was stepped.

NOW = at("2025-07-02T12:00:00+00:00")


@pytest.mark.parametrize(
    ("last_ms", "from_ms"),
    [
        (None, 0),
        (-DAY, 0),
        (-1, 0),
        (0, 0),
        (1, 1),
        (HOUR, HOUR),
        (TWO_DAYS_MS, TWO_DAYS_MS),
        (TWO_DAYS_MS + 1, 0),
        (TEN_YEARS, 0),
    ],
)
def test_what_has_fired_is_not_fired_again_when_the_clock_was_set_back(last_ms: int | None, from_ms: int) -> None:
    """`last_ms`: when it last fired, as seen from now; `from_ms`: the next is the first after that."""
    fired = None if last_ms is None else Fired(NOW - DAY * 9, NOW + last_ms)
    for expression, step_ms in ((EVERY_SECOND, SECOND), (EVERY_MINUTE, MINUTE), (EVERY_HOUR, HOUR)):
        found = settled(expression, "UTC", fired, NOW)
        assert found == (NOW + from_ms) // step_ms * step_ms + step_ms


def test_what_fired_while_the_clock_was_wrong_for_a_moment_silences_nobody_when_it_is_right_again() -> None:
    """Set forward by 23 hours, run_once made up for the day by one job; what is between has not fired."""
    late = NOW + 23 * HOUR
    forward = due(EVERY_MINUTE, "UTC", "run_once", NOW + MINUTE, late)
    fired = extended(EVERY_MINUTE, "UTC", Fired(NOW - HOUR, NOW), forward)
    assert fired == Fired(late, late)
    assert settled(EVERY_MINUTE, "UTC", fired, NOW) == NOW + MINUTE


@pytest.mark.parametrize("misfire", POLICIES)
def test_what_had_fired_before_the_clock_was_set_back_is_not_missed_when_it_is_past_again(misfire: str) -> None:
    """Fired at :10 and :20 past, set back an hour, asleep until half past: only what is new to it counts."""
    fired = Fired(NOW + 10 * MINUTE, NOW + 20 * MINUTE)
    for trigger_at, fresh in ((NOW, [NOW, NOW + 5 * MINUTE, NOW + 25 * MINUTE]), (fired.first, [NOW + 25 * MINUTE])):
        found = due("*/5 * * * *", "UTC", misfire, trigger_at, NOW + 29 * MINUTE, fired)
        fire = {"run_once": fresh[-1:], "skip": [], "run_all": fresh}[misfire]
        assert (list(found.fire), found.skipped) == (fire, len(fresh) - len(fire))
    nothing = due("*/5 * * * *", "UTC", misfire, fired.first, fired.last, fired)
    assert (nothing.fire, nothing.skipped, nothing.next_trigger_at) == ((), 0, NOW + 25 * MINUTE)


def test_what_fires_without_a_break_is_one_row() -> None:
    fired = None
    for number in range(1, 6):
        trigger_at = NOW + number * MINUTE
        fired = extended(EVERY_MINUTE, "UTC", fired, due(EVERY_MINUTE, "UTC", "run_once", trigger_at, trigger_at + 5))
    assert fired == Fired(NOW + MINUTE, NOW + 5 * MINUTE)
    nothing = Firing((), 3, False, NOW, NOW, NOW)
    assert extended(EVERY_MINUTE, "UTC", fired, nothing) == fired


@pytest.mark.parametrize("expression", [EVERY_MINUTE, EVERY_HOUR])
@pytest.mark.parametrize("most", [1, 3, 10])
def test_going_on_in_parts_is_all_of_it_once(expression: str, most: int) -> None:
    first = cron.next_after(expression, "UTC", NOW)
    assert first is not None
    now = first + 7 * HOUR + 1
    found: list[int] = []
    next_at: int | None = first
    while next_at is not None and next_at <= now:
        part = going_on(expression, "UTC", next_at, now, most)
        assert 1 <= len(part.fire) <= most
        found += part.fire
        next_at = part.next_trigger_at
    assert tuple(found) == due(expression, "UTC", "run_all", first, now).fire
    assert next_at == cron.next_after(expression, "UTC", now)


def test_going_on_leaves_out_what_had_fired_before_the_clock_was_set_back() -> None:
    fired = Fired(NOW + 10 * MINUTE, NOW + 20 * MINUTE)
    found = going_on("*/5 * * * *", "UTC", NOW, NOW + 31 * MINUTE, 4, fired)
    assert found.fire == (NOW, NOW + 5 * MINUTE, NOW + 25 * MINUTE, NOW + 30 * MINUTE)
    assert found.next_trigger_at == NOW + 35 * MINUTE
    first = going_on("*/5 * * * *", "UTC", NOW, NOW + 31 * MINUTE, 2, fired)
    assert (first.fire, first.next_trigger_at) == ((NOW, NOW + 5 * MINUTE), NOW + 25 * MINUTE)


def test_upcoming_are_the_next_times_or_only_the_first_when_the_zone_is_gone() -> None:
    assert upcoming(EVERY_HOUR, "UTC", NOW, 3) == [NOW, NOW + HOUR, NOW + 2 * HOUR]
    assert upcoming(EVERY_HOUR, "Europe/Nowhere", NOW, 3) == [NOW]
    assert upcoming(EVERY_HOUR, "UTC", None, 3) == []


def test_a_schedule_without_a_next_time_settles_on_none() -> None:
    assert settled(EVERY_DAY, "UTC", None, 10**15) is None
