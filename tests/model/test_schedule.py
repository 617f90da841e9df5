"""Which times of a schedule fire, which are skipped, and what a clock that is set changes: tables and properties."""

from datetime import datetime
from itertools import accumulate, islice, takewhile
from time import process_time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semantica_daemon.model import cron
from semantica_daemon.model.schedule import (
    CLOCK_CORRECTION_MS,
    MAX_COUNTED,
    MAX_FIRED,
    MAX_FIRED_AT_ONCE,
    ON_TIME_MS,
    FiredRange,
    Firing,
    SkippedTimes,
    Timing,
    due,
    next_time,
    upcoming,
)
from semantica_daemon.model.timetable import Timetable

SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000
TEN_YEARS = 3652 * DAY
POLICIES = ("run_once", "skip", "run_all")
EVERY_SECOND, EVERY_MINUTE, EVERY_HOUR, EVERY_DAY = "* * * * * *", "* * * * *", "0 * * * *", "30 3 * * *"
TEN_MINUTES = "*/10 * * * *"


def at(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp() * 1000)


NOW = at("2025-07-02T12:00:00+00:00")


def a_schedule(
    expression: str, misfire: str = "run_once", zone: str = "UTC", fired: FiredRange | None = None
) -> Timing:
    timing = Timing(expression, zone, None, None, misfire, None, None)
    return timing if fired is None else msgspec.structs.replace(timing, fired_from=fired.first, fired_to=fired.last)


def advance(timing: Timing, firing: Firing) -> Timing:
    fired = firing.fired
    return msgspec.structs.replace(timing, fired_from=fired and fired.first, fired_to=fired and fired.last)


class Account:
    """A schedule that is looked at now and then, as the store does: what it fired and skipped in all."""

    def __init__(self, timing: Timing, now: int) -> None:
        self.timing = timing
        self.fired: list[int] = []
        self.skipped: list[SkippedTimes] = []
        self.next = next_time(timing, now)

    def look(self, now: int) -> None:
        """Fires in parts until no time is due."""
        while self.next is not None and self.next <= now:
            found = due(self.timing, self.next, now)
            assert len(found.fire) <= MAX_FIRED_AT_ONCE
            self.fired += found.fire
            if found.skipped:
                self.skipped.append(found.skipped)
            self.timing, self.next = advance(self.timing, found), found.next_trigger_at

    def clock_was_set(self, now: int) -> None:
        if self.next is None or self.next > now:
            self.next = next_time(self.timing, now)
        self.look(now)


def every(step_ms: int, first: int, last: int) -> list[int]:
    return list(range(first, last + 1, step_ms))


# Missed times.

ASLEEP, AWAKE = at("2025-07-01T22:00:10+00:00"), at("2025-07-02T06:00:10+00:00")
MINUTES = every(MINUTE, at("2025-07-01T22:01+00:00"), at("2025-07-02T06:00+00:00"))
HOURS = every(HOUR, at("2025-07-01T23:00+00:00"), at("2025-07-02T06:00+00:00"))
DAYS = [at("2025-07-02T03:30+00:00")]

# After eight hours of suspend, awake ten seconds or twenty minutes past the hour: the times that fire.
SUSPENDED = {
    (EVERY_MINUTE, "run_once", 0): MINUTES[-1:],
    (EVERY_MINUTE, "skip", 0): MINUTES[-1:],
    (EVERY_MINUTE, "run_all", 0): MINUTES,
    (EVERY_HOUR, "run_once", 20): HOURS[-1:],
    (EVERY_HOUR, "skip", 0): HOURS[-1:],
    (EVERY_HOUR, "skip", 20): [],
    (EVERY_HOUR, "run_all", 20): HOURS,
    (EVERY_DAY, "run_once", 0): DAYS,
    (EVERY_DAY, "skip", 0): [],
    (EVERY_DAY, "run_all", 0): DAYS,
}


@pytest.mark.parametrize(("expression", "misfire", "minutes"), SUSPENDED)
def test_eight_hours_of_suspend(expression: str, misfire: str, minutes: int) -> None:
    fire = SUSPENDED[expression, misfire, minutes]
    missed = {EVERY_MINUTE: MINUTES, EVERY_HOUR: HOURS, EVERY_DAY: DAYS}[expression]
    skipped = missed[: len(missed) - len(fire)]
    found = Account(a_schedule(expression, misfire), ASLEEP)
    found.look(AWAKE + minutes * MINUTE)
    assert found.fired == fire
    assert found.skipped == ([SkippedTimes(len(skipped), False, skipped[0], skipped[-1])] if skipped else [])
    assert found.next == cron.next_after(expression, "UTC", AWAKE + minutes * MINUTE)


@pytest.mark.parametrize("misfire", POLICIES)
@pytest.mark.parametrize("late_ms", [0, 1, ON_TIME_MS, ON_TIME_MS + 1])
def test_on_time_every_policy_fires_and_half_a_minute_later_skip_does_not(misfire: str, late_ms: int) -> None:
    found = due(a_schedule(EVERY_HOUR, misfire), NOW, NOW + late_ms)
    expected = Firing((NOW,), None, NOW + HOUR, FiredRange(NOW, NOW))
    if misfire == "skip" and late_ms > ON_TIME_MS:
        expected = Firing((), SkippedTimes(1, False, NOW, NOW), NOW + HOUR, None)
    assert found == expected


@pytest.mark.parametrize("misfire", POLICIES)
def test_a_promised_instant_counts_though_the_zone_no_longer_has_it(misfire: str) -> None:
    promised = NOW + 7 * MINUTE
    found = due(a_schedule(EVERY_HOUR, misfire), promised, promised + SECOND)
    assert (found.fire, found.skipped, found.next_trigger_at) == ((promised,), None, NOW + HOUR)
    later = due(a_schedule(EVERY_HOUR, misfire), promised, NOW + HOUR)
    if misfire != "run_all":
        assert later.skipped == SkippedTimes(1, False, promised, promised)
    assert later.fire[-1] == NOW + HOUR
    assert misfire != "run_all" or later.fire == (promised, NOW + HOUR)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin"])
@pytest.mark.parametrize("misfire", POLICIES)
@pytest.mark.parametrize("expression", [EVERY_SECOND, EVERY_DAY])
def test_ten_years_away_are_counted_back_not_walked(expression: str, misfire: str, zone: str) -> None:
    trigger_at = cron.next_after(expression, zone, AWAKE - TEN_YEARS)
    assert trigger_at is not None
    began = process_time()
    found = due(a_schedule(expression, misfire, zone), trigger_at, AWAKE)
    assert process_time() - began < 2, "some 60 ms; all ten years would be a minute at least"
    fires = {"run_once": 1, "skip": expression != EVERY_DAY, "run_all": MAX_FIRED}[misfire]
    assert len(found.fire) == min(fires, MAX_FIRED_AT_ONCE)
    newest_first = list(islice(cron.occurrences_back(expression, zone, AWAKE), fires + 1))
    assert found.fire == tuple(newest_first[:-1][::-1][:MAX_FIRED_AT_ONCE])
    assert found.skipped == SkippedTimes(MAX_COUNTED, True, trigger_at, newest_first[-1])


@pytest.mark.parametrize(("misfire", "fires"), [("run_once", 1), ("run_all", MAX_FIRED)])
@pytest.mark.parametrize("beyond", [0, 1, MAX_COUNTED, MAX_COUNTED + 1])
def test_the_limits_are_exact(misfire: str, fires: int, beyond: int) -> None:
    now = NOW + (fires + beyond - 1) * MINUTE
    found = due(a_schedule(EVERY_MINUTE, misfire), NOW, now)
    first = now - (fires - 1) * MINUTE
    assert found.fire == tuple(every(MINUTE, first, now)[:MAX_FIRED_AT_ONCE])
    assert found.next_trigger_at == (now + MINUTE if fires == 1 else first + MAX_FIRED_AT_ONCE * MINUTE)
    skipped = SkippedTimes(min(beyond, MAX_COUNTED), beyond > MAX_COUNTED, NOW, first - MINUTE)
    assert found.skipped == (skipped if beyond else None)


@pytest.mark.parametrize("misfire", POLICIES)
def test_a_clock_past_the_end_of_the_calendar_fires_and_has_no_next_time(misfire: str) -> None:
    found = due(a_schedule(EVERY_DAY, misfire, "Europe/Berlin"), NOW, 10**15)
    assert len(found.fire) == {"run_once": 1, "skip": 0, "run_all": MAX_FIRED_AT_ONCE}[misfire]
    assert (found.next_trigger_at is None) == (misfire != "run_all")
    assert next_time(a_schedule(EVERY_DAY), 10**15) is None


expressions = st.sampled_from(
    ["*/30 * * * * *", "* * * * *", "*/7 1-3 * * *", "30 2 * * *", "0 2,3 * * *", "15 10 2 * * *", "@daily"]
)
zones = st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe"])
# Around Berlin's and Lord Howe's changes in 2025.
starts = st.sampled_from(["2025-03-29", "2025-04-05", "2025-07-01", "2025-10-04", "2025-10-25"]).map(
    lambda day: at(f"{day}T10:00:00+00:00")
)
naps = st.integers(0, 90 * SECOND) | st.integers(0, 3 * HOUR) | st.integers(0, 30 * HOUR)


@given(expressions, zones, st.sampled_from(POLICIES), starts, st.lists(naps, min_size=1, max_size=8))
@settings(derandomize=True, deadline=None, max_examples=80)
def test_every_time_is_fired_or_counted_as_skipped_once(
    expression: str, zone: str, misfire: str, start: int, naps_ms: list[int]
) -> None:
    account = Account(a_schedule(expression, misfire, zone), start)
    for now in accumulate(naps_ms, initial=start):
        account.look(now)
        assert account.next == cron.next_after(expression, zone, now)
    occurred = list(takewhile(lambda found: found <= now, cron.occurrences(expression, zone, start)))
    assert sorted(set(account.fired)) == account.fired
    assert set(account.fired) <= set(occurred)
    counted = sum(skipped.count for skipped in account.skipped)
    assert any(skipped.more for skipped in account.skipped) or len(account.fired) + counted == len(occurred)
    for skipped in account.skipped:
        assert not {skipped.first_at, skipped.last_at} & set(account.fired)
        assert {skipped.first_at, skipped.last_at} <= set(occurred)


# A clock that is set. Every ten minutes, fired up to NOW; five minutes later the clock is set by so much.

STEPS = {
    "back 30 min": (-30 * MINUTE, NOW + 10 * MINUTE),
    "back 2 h 59": (-(2 * HOUR + 59 * MINUTE), NOW + 10 * MINUTE),
    "back to 1 ms less than three hours before the watermark": (-3 * HOUR - 5 * MINUTE + 1, NOW + 10 * MINUTE),
    "back to three hours before the watermark": (-3 * HOUR - 5 * MINUTE, NOW - 3 * HOUR + 10 * MINUTE),
    "back a day": (-DAY, NOW - DAY + 10 * MINUTE),
    "back ten years": (-TEN_YEARS, NOW - TEN_YEARS + 10 * MINUTE),
    "forward 4 min": (4 * MINUTE, NOW + 10 * MINUTE),
}


@pytest.mark.parametrize(("step", "expected"), STEPS.values(), ids=STEPS)
def test_the_next_time_after_the_clock_was_set(step: int, expected: int) -> None:
    fired = FiredRange(NOW - DAY, NOW)
    assert next_time(a_schedule(TEN_MINUTES, fired=fired), NOW + 5 * MINUTE + step) == expected


@pytest.mark.parametrize("misfire", POLICIES)
@pytest.mark.parametrize("step", [30 * MINUTE, 3 * HOUR - MINUTE, 3 * HOUR + MINUTE, DAY])
def test_set_forward_what_was_passed_over_is_missed_as_after_a_suspend(misfire: str, step: int) -> None:
    found = Account(a_schedule(TEN_MINUTES, misfire, fired=FiredRange(NOW - DAY, NOW)), NOW + 5 * MINUTE)
    found.clock_was_set(NOW + 5 * MINUTE + step)
    missed = every(10 * MINUTE, NOW + 10 * MINUTE, NOW + 5 * MINUTE + step)
    fire = {"run_once": missed[-1:], "skip": [], "run_all": missed}[misfire]
    assert (found.fired, sum(skip.count for skip in found.skipped)) == (fire, len(missed) - len(fire))


@pytest.mark.parametrize("ahead", [HOUR, 3 * HOUR - MINUTE, 23 * HOUR, TEN_YEARS])
@pytest.mark.parametrize("misfire", ["run_once", "skip"])
def test_a_clock_that_was_ahead_for_a_moment_silences_no_schedule(misfire: str, ahead: int) -> None:
    """The one time that was fired for all the missed ones is not fired again, if it comes within three hours."""
    found = Account(a_schedule(TEN_MINUTES, misfire, fired=FiredRange(NOW - DAY, NOW)), NOW)
    found.clock_was_set(NOW + ahead + 5 * MINUTE)
    fired = tuple(found.fired)
    for now in every(5 * MINUTE, NOW, NOW + 4 * HOUR):
        found.clock_was_set(now) if now == NOW else found.look(now)
    fresh = [time for time in every(10 * MINUTE, NOW + 10 * MINUTE, NOW + 4 * HOUR) if time not in fired]
    assert len(fired) == (misfire == "run_once")
    assert found.fired == [*fired, *fresh]


@pytest.mark.parametrize("expression", [EVERY_HOUR, "0 12 * * *"])
def test_a_clock_that_was_most_of_a_day_behind_for_a_moment_doubles_no_missed_time(expression: str) -> None:
    """The time that came next by the wrong clock was fired: it lies in the range, or is the watermark itself."""
    found = Account(a_schedule(expression, "run_all", fired=FiredRange(NOW - 9 * DAY, NOW)), NOW)
    found.clock_was_set(NOW - 23 * HOUR)
    found.clock_was_set(NOW + 10 * MINUTE)
    assert (found.fired, found.next) == ([], cron.next_after(expression, "UTC", NOW))


@pytest.mark.parametrize("misfire", POLICIES)
def test_set_back_and_asleep_until_after_the_watermark_only_times_that_were_not_fired_are_missed(misfire: str) -> None:
    """Fired from :10 to :20 past, set back an hour, asleep until 29 past, or until it is in the midst of them."""
    fired = FiredRange(NOW + 10 * MINUTE, NOW + 20 * MINUTE)
    for now, minutes in ((29, [-35, -30, -20, -10, 0, 25]), (15, [-35, -30, -20, -10, 0])):
        found = Account(a_schedule("*/10,25 * * * *", misfire, fired=fired), NOW - 40 * MINUTE)
        found.look(NOW + now * MINUTE)
        missed = [NOW + minute * MINUTE for minute in minutes]
        fire = {"run_once": missed[-1:], "skip": [], "run_all": missed}[misfire]
        assert (found.fired, sum(skip.count for skip in found.skipped)) == (fire, len(missed) - len(fire))
        assert found.next == NOW + (30 if now == 29 else 25) * MINUTE


def test_a_gap_begins_a_new_range_and_a_firing_without_one_extends_it() -> None:
    every_minute = a_schedule(EVERY_MINUTE, fired=FiredRange(NOW - HOUR, NOW))
    assert due(every_minute, NOW + MINUTE, NOW + MINUTE).fired == FiredRange(NOW - HOUR, NOW + MINUTE)
    assert due(every_minute, NOW + MINUTE, NOW + 5 * MINUTE).fired == FiredRange(NOW + 5 * MINUTE, NOW + 5 * MINUTE)
    skips = msgspec.structs.replace(every_minute, misfire="skip", cron_expression=EVERY_HOUR)
    assert due(skips, NOW + HOUR, NOW + HOUR + 5 * MINUTE).fired is None


steps = st.integers(-2 * DAY, 2 * DAY) | st.integers(-4 * HOUR, 4 * HOUR) | st.integers(-2 * MINUTE, 2 * MINUTE)


@given(st.sampled_from([TEN_MINUTES, EVERY_DAY]), st.sampled_from(POLICIES), st.lists(naps | steps, max_size=10))
@settings(derandomize=True, deadline=None, max_examples=100)
def test_however_often_the_clock_is_set_a_schedule_is_silent_for_three_hours_at_most(
    expression: str, misfire: str, moves_ms: list[int]
) -> None:
    account = Account(a_schedule(expression, misfire), NOW)
    for now in accumulate(moves_ms, initial=NOW):
        account.clock_was_set(now)
        silent_until = cron.next_after(expression, "UTC", now + CLOCK_CORRECTION_MS)
        assert account.next is not None
        assert silent_until is not None
        assert now < account.next <= silent_until


@given(
    st.sampled_from([TEN_MINUTES, EVERY_HOUR, EVERY_DAY]),
    st.sampled_from(POLICIES),
    st.lists(naps, max_size=5),
    st.integers(1, CLOCK_CORRECTION_MS - 1),
    st.lists(naps, max_size=5),
)
@settings(derandomize=True, deadline=None, max_examples=100)
def test_set_back_by_less_than_three_hours_no_time_fires_twice(
    expression: str, misfire: str, before_ms: list[int], back_ms: int, after_ms: list[int]
) -> None:
    account = Account(a_schedule(expression, misfire), NOW)
    now = NOW
    for now in accumulate(before_ms, initial=NOW):
        account.look(now)
    account.clock_was_set(now - back_ms)
    for later in accumulate(after_ms, initial=now - back_ms):
        account.look(later)
    assert len(set(account.fired)) == len(account.fired)


def test_upcoming_are_the_next_times_or_only_the_first_when_the_zone_is_gone() -> None:
    hourly = Timetable(EVERY_HOUR, "UTC", None, None)
    assert upcoming(hourly, NOW, 3) == [NOW, NOW + HOUR, NOW + 2 * HOUR]
    assert upcoming(Timetable(EVERY_HOUR, "Europe/Nowhere", None, None), NOW, 3) == [NOW]
    assert upcoming(hourly, None, 3) == []
