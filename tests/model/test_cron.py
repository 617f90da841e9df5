"""Cron in time zones: refusals and changes of clock by tables, firing against a slow reference by properties."""

from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise, takewhile
from time import process_time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from semantica_daemon.errors import InvalidParams
from semantica_daemon.model import cron
from tests.model.slow_cron import Tick, firings, last_until, stretch

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
SUMMER = 1_751_328_000_000  # 2025-07-01T00:00Z

# The UTC days on which the clocks are changed. Lord Howe by half an hour, Havana at midnight, Troll by two hours.
CHANGES = [
    ("Europe/Berlin", datetime(2025, 3, 30, tzinfo=UTC)),
    ("Europe/Berlin", datetime(2025, 10, 26, tzinfo=UTC)),
    ("America/New_York", datetime(2025, 3, 9, tzinfo=UTC)),
    ("America/New_York", datetime(2025, 11, 2, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2025, 4, 5, tzinfo=UTC)),
    ("Australia/Lord_Howe", datetime(2025, 10, 4, tzinfo=UTC)),
    ("America/Havana", datetime(2025, 3, 9, tzinfo=UTC)),
    ("America/Havana", datetime(2025, 11, 2, tzinfo=UTC)),
    ("Antarctica/Troll", datetime(2025, 3, 30, tzinfo=UTC)),
    ("Antarctica/Troll", datetime(2025, 10, 26, tzinfo=UTC)),
    ("Asia/Kolkata", datetime(2025, 3, 30, tzinfo=UTC)),
]
ZONES = sorted({zone for zone, _ in CHANGES} | {"UTC", "Pacific/Apia", "Africa/Casablanca"})


def at(moment: str) -> int:
    return int(datetime.fromisoformat(moment).timestamp() * 1000)


def between(expression: str, zone: str, first: int, last: int) -> list[int]:
    return list(takewhile(lambda found: found <= last, cron.occurrences(expression, zone, first - 1)))


def back_between(expression: str, zone: str, first: int, last: int) -> list[int]:
    return list(takewhile(lambda found: found >= first, cron.occurrences_back(expression, zone, last)))


# What is refused.


@pytest.mark.parametrize(
    ("expression", "says", "hints"),
    [
        ("", "empty", "30 3 * * 1-5"),
        (" \t\n", "empty", "30 3 * * 1-5"),
        ("* * * *", "4 fields", "minute, hour"),
        ("* * * * * * *", "7 fields", "seconds may stand in front"),
        ("never", "1 fields", "@daily"),
        ("60 * * * *", "minute cannot be '60'", "0-59"),
        ("60 * * * * *", "second cannot be '60'", "0-59"),
        ("* 24 * * *", "hour cannot be '24'", "0-23"),
        ("* * 0 * *", "day of month cannot be '0'", "1-31"),
        ("* * 32 * *", "day of month cannot be '32'", "1-31"),
        ("* * * 13 *", "month cannot be '13'", "JAN-DEC"),
        ("* * * * FUN", "day of week cannot be 'FUN'", "SUN-SAT"),
        ("0 * * * * 8", "day of week cannot be '8'", "0-7"),
        ("* * * * 1#6", "day of week cannot be '1#6'", "1#2"),
        ("*/0 * * * *", "minute cannot be '*/0'", "*/2"),
        ("5-1 * * * *", "minute cannot be '5-1'", "1-5"),
        ("5-5/0 * * * *", "minute cannot be '5-5/0'", "1-5"),
        ("11-1/2 * * * *", "minute cannot be '11-1/2'", "1-5"),
        ("-1 * * * *", "minute cannot be '-1'", "0-59"),
        ("1,,2 * * * *", "minute cannot be '1,,2'", "1,3"),
        ("\0 * * * *", "minute cannot be '\\x00'", "0-59"),
        ("٣ * * * *", "minute cannot be '٣'", "0-59"),
        ("0 0 30 2 *", "can never fire", "no such day"),
        ("0 0 31 4,6 *", "can never fire", "no such day"),
        ("0 0 0 31 11 *", "can never fire", "no such day"),
        ("0 0 */31 * 1#2", "can never fire", "no such day"),
        ("0 0 */28 2 1#2", "can never fire", "no such day"),
        ("@reboot", "'@reboot' isn't known", "@daily"),
        ("@daily @daily", "isn't known", "@hourly"),
        ("@", "isn't known", "@hourly"),
        ("*" * 257, "longer than 256", "shorten it"),
        ("9" * 200 + " * * * *", "minute cannot be", "0-59"),
    ],
)
def test_a_bad_expression_is_refused_and_says_what_is_wrong(expression: str, says: str, hints: str) -> None:
    with pytest.raises(InvalidParams) as refused:
        cron.check(expression, "Europe/Berlin")
    assert says in refused.value.message
    assert refused.value.message.endswith(" - at `$.cron_expression`")
    assert hints in refused.value.hint
    assert refused.value.details == {"path": "$.cron_expression"}


def test_a_time_that_the_zones_clock_always_leaves_out_never_fires() -> None:
    """The last Sunday in March between two and three."""
    cron.check("*/5 2 25-31 3 */7", "UTC")
    cron.check("5 2 25-31 3 */7", "Europe/Berlin")
    with pytest.raises(InvalidParams, match="can never fire"):
        cron.check("*/5 2 25-31 3 */7", "Europe/Berlin")


@pytest.mark.parametrize(
    ("zone", "hints"),
    [
        ("Europe/Berln", "did you mean Europe/Berlin?"),
        ("europe/berlin", "did you mean Europe/Berlin?"),
        ("America/NewYork", "did you mean America/New_York?"),
        ("utc", "did you mean UTC?"),
        ("Middle-earth", "use a name like Europe/Berlin or UTC"),
        ("", "use a name"),
        ("Europe", "Europe/"),
        ("../etc/passwd", "use a name"),
        ("/etc/localtime", ""),
        ("Etc/../UTC", ""),
        ("/", "use a name"),
        (".", "use a name"),
        ("UTC\0", "did you mean UTC?"),
        ("\udc80", "use a name"),
        ("x" * 300, "use a name"),
        ("zone.tab", ""),
        ("localtime", ""),
        ("right/Europe/Berlin", "did you mean Europe/Berlin?"),
    ],
)
def test_an_unknown_zone_is_refused_and_a_near_one_named(zone: str, hints: str) -> None:
    with pytest.raises(InvalidParams) as refused:
        cron.check("@daily", zone)
    assert "isn't known - at `$.timezone`" in refused.value.message
    assert len(refused.value.message) < 200
    assert hints in refused.value.hint
    assert refused.value.details == {"path": "$.timezone"}


PIECES = ["*", "0", "1#2", "5L", "LW", "L", "29", "1-5", "2,", "*/2", "3-3/0", "@", "MON", "/"]


@given(st.text(max_size=40) | st.lists(st.sampled_from(PIECES), min_size=4, max_size=7).map(" ".join))
@settings(derandomize=True, deadline=None, max_examples=25)
def test_whatever_is_given_is_taken_or_refused(text: str) -> None:
    for expression, zone in ((text, "UTC"), ("* * * * *", text)):
        try:
            cron.check(expression, zone)
        except InvalidParams:
            continue
        assert cron.next_after(expression, zone, SUMMER) is not None


# What is taken.


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("@yearly", "2026-01-01T00:00+01:00"),
        ("@annually", "2026-01-01T00:00+01:00"),
        ("@monthly", "2025-08-01T00:00+02:00"),
        ("@weekly", "2025-07-06T00:00+02:00"),
        ("@daily", "2025-07-03T00:00+02:00"),
        ("@midnight", "2025-07-03T00:00+02:00"),
        ("@hourly", "2025-07-02T13:00+02:00"),
        (" @Daily ", "2025-07-03T00:00+02:00"),
        ("0 3 * * *", "2025-07-03T03:00+02:00"),
        ("15 0 3 * * *", "2025-07-03T03:00:15+02:00"),
        ("0 9 * jan mon", "2026-01-05T09:00+01:00"),
        ("0 9 L * *", "2025-07-31T09:00+02:00"),
        ("0 9 * * 5L", "2025-07-25T09:00+02:00"),
        ("0 9 * * 1#2", "2025-07-14T09:00+02:00"),
        ("0 9 13 * 5", "2025-07-04T09:00+02:00"),
        ("0 9 29 2 *", "2028-02-29T09:00+01:00"),
        ("0 9-9/2 * * *", "2025-07-03T09:00+02:00"),
        ("0 9 * * Mon-MON/2", "2025-07-07T09:00+02:00"),
        ("0 1-11/2 * * *", "2025-07-03T01:00+02:00"),
        ("0 9 29 2 */7", "2032-02-29T09:00+01:00"),
    ],
)
def test_what_an_expression_means(expression: str, expected: str) -> None:
    cron.check(expression, "Europe/Berlin")
    assert cron.next_after(expression, "Europe/Berlin", at("2025-07-02T12:30+02:00")) == at(expected)


@pytest.mark.parametrize(
    ("after", "following", "newest"),
    [(999, 1000, 0), (1000, 2000, 1000), (1001, 2000, 1000), (1999, 2000, 1000), (-1, 0, -1000)],
)
def test_instants_are_exact_to_the_millisecond(after: int, following: int, newest: int) -> None:
    assert cron.next_after("* * * * * *", "UTC", after) == following
    assert last_until("* * * * * *", "UTC", after) == newest


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Pacific/Kiritimati", "America/Los_Angeles"])
@pytest.mark.parametrize("expression", ["* * * * *", "0 3 * * *", "0 0 29 2 *"])
def test_the_calendar_ends_without_a_bang(expression: str, zone: str) -> None:
    for far in (10**15, 10**18, cron.LATEST * 1000, at("9999-12-31T23:59:59+00:00")):
        assert cron.next_after(expression, zone, far) is None
        newest = last_until(expression, zone, far)
        assert newest is not None
        assert last_until(expression, zone, newest) == newest
    assert last_until(expression, zone, -(10**15)) is None
    assert cron.next_after(expression, zone, -(10**15)) is not None


# When clocks are changed.

SPRING, AUTUMN = "2025-03-30", "2025-10-26"


@pytest.mark.parametrize(
    ("expression", "day", "expected"),
    [
        ("30 2 * * *", SPRING, ["03:00+02:00"]),
        ("0,30 2 * * *", SPRING, ["03:00+02:00"]),
        ("30 2-3 * * *", SPRING, ["03:00+02:00", "03:30+02:00"]),
        ("30 1-23/23 * * *", SPRING, ["01:30+01:00"]),
        ("*/30 2 * * *", SPRING, []),
        ("30 */2 * * *", SPRING, [f"{hour:02}:30+0{1 + (hour > 2)}:00" for hour in range(0, 24, 2) if hour != 2]),
        ("15 30 2 * * *", SPRING, ["03:00+02:00"]),
        ("0,15 30 2 * * *", SPRING, ["03:00+02:00"]),
        ("*/30 30 2 * * *", SPRING, []),
        ("30 2 * * *", AUTUMN, ["02:30+02:00"]),
        ("*/30 2 * * *", AUTUMN, ["02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00"]),
        ("*/30 2 26 7,10 *", AUTUMN, ["02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00"]),
        ("15 30 2 * * *", AUTUMN, ["02:30:15+02:00"]),
        ("*/30 30 2 * * *", AUTUMN, ["02:30+02:00", "02:30:30+02:00", "02:30+01:00", "02:30:30+01:00"]),
        ("@daily", AUTUMN, ["00:00+02:00"]),
    ],
)
def test_berlins_days_of_23_and_25_hours(expression: str, day: str, expected: list[str]) -> None:
    first = at(f"{day}T00:00{'+01:00' if day == SPRING else '+02:00'}")
    last = at(f"{day}T23:59:59{'+02:00' if day == SPRING else '+01:00'}")
    found = [at(f"{day}T{clock}") for clock in expected]
    assert between(expression, "Europe/Berlin", first, last) == found
    assert back_between(expression, "Europe/Berlin", first, last) == found[::-1]


def test_an_hour_that_repeats_is_not_jumped_over_from_months_away() -> None:
    """Winter's offset is that of the second time; the first time must not be lost for it, nor the other way round."""
    twice = "*/30 2 26 10 *"
    assert cron.next_after(twice, "Europe/Berlin", at("2025-01-10T00:00+01:00")) == at("2025-10-26T02:00+02:00")
    assert cron.next_after(twice, "Europe/Berlin", at("2025-07-10T00:00+02:00")) == at("2025-10-26T02:00+02:00")
    assert last_until(twice, "Europe/Berlin", at("2026-07-10T00:00+02:00")) == at("2025-10-26T02:30+01:00")
    assert last_until(twice, "Europe/Berlin", at("2026-01-10T00:00+01:00")) == at("2025-10-26T02:30+01:00")


def test_what_ran_the_first_time_is_over_when_its_hour_repeats() -> None:
    """The clock shows ten past two again: the time fixed at twenty to three was kept before."""
    moment, kept = at("2025-10-26T02:10+01:00"), at("2025-10-26T02:40+02:00")
    assert last_until("40 2 * * *", "Europe/Berlin", moment) == kept
    assert cron.next_after("40 2 * * *", "Europe/Berlin", moment) == at("2025-10-27T02:40+01:00")


def steps(low: int, high: int) -> st.SearchStrategy[str]:
    """One part of a field: a value, a range, either with a step; never one that begins with a star."""
    number = st.integers(low, high)
    span = st.tuples(number, number).map(lambda pair: f"{min(pair)}-{max(pair)}")
    step = st.integers(1, high)
    return number.map(str) | span | st.tuples(span | number.map(str), step).map(lambda pair: f"{pair[0]}/{pair[1]}")


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    star = st.just("*") | st.integers(1, high).map("*/{}".format)
    return star | st.lists(steps(low, high), min_size=1, max_size=3).map(",".join) | steps(low, high)


hours = fields(0, 23) | fields(0, 4) | st.sampled_from(["0", "1", "2", "3", "1,2", "0-3"])
days = st.just("*") | fields(1, 28)
months = st.just("*") | fields(3, 11)
weekdays = st.just("*") | fields(0, 7)
minutely = st.tuples(fields(0, 59), hours, days, months, weekdays).map(" ".join)
secondly = st.tuples(fields(0, 59), fields(0, 59), hours).map(lambda three: f"{' '.join(three)} * * *")
changes = st.sampled_from(CHANGES)


besides = st.integers(-3 * HOUR, 3 * HOUR)


def around(change: tuple[str, datetime], days: int = 1) -> tuple[Tick, ...]:
    zone, day = change
    return stretch(zone, day - timedelta(days=days), timedelta(days=2 * days + 1), timedelta(minutes=1))


@lru_cache
def change_at(change: tuple[str, datetime]) -> int:
    """The instant itself; the middle, where there is none."""
    ticks = around(change)
    odd = [tick.at for before, tick in pairwise(ticks) if tick.wall - before.wall != timedelta(minutes=1)]
    return odd[0] if odd else ticks[len(ticks) // 2].at


def agrees(expression: str, zone: str, ticks: tuple[Tick, ...], moment: int) -> None:
    """Forward, backward, and from a moment in between."""
    expected = firings(expression, ticks)
    first, last = ticks[0].at, ticks[-1].at
    assert between(expression, zone, first, last) == expected
    assert back_between(expression, zone, first, last) == expected[::-1]
    place = bisect_right(expected, moment)
    if place < len(expected):
        assert cron.next_after(expression, zone, moment) == expected[place]
    if place:
        assert last_until(expression, zone, moment) == expected[place - 1]


@given(changes, minutely, besides)
@settings(derandomize=True, deadline=None, max_examples=60)
def test_it_fires_as_the_slow_reference_says(change: tuple[str, datetime], expression: str, beside_ms: int) -> None:
    agrees(expression, change[0], around(change), change_at(change) + beside_ms)


@given(changes, secondly, besides)
@settings(derandomize=True, deadline=None, max_examples=12)
def test_with_seconds_it_fires_as_the_slow_reference_says(
    change: tuple[str, datetime], expression: str, beside_ms: int
) -> None:
    """An hour on both sides of the change, wherever in the day it is."""
    first = datetime.fromtimestamp(change_at(change) / 1000, UTC) - timedelta(hours=1)
    ticks = stretch(change[0], first, timedelta(hours=2), timedelta(seconds=1))
    agrees(expression, change[0], ticks, change_at(change) + beside_ms // 4)


@given(changes, fields(0, 59), hours, st.integers(-1, 1), st.integers(10, 150), st.booleans())
@settings(derandomize=True, deadline=None, max_examples=50)
def test_a_change_is_met_from_months_away_as_from_near(
    change: tuple[str, datetime], minute: str, hour: str, beside: int, away: int, second: bool
) -> None:
    zone, day = change
    date = day + timedelta(days=beside)
    expression = f"{'0 ' if second else ''}{minute} {hour} {date.day} {date.month} *"
    ticks = around(change, days=3)
    expected = firings(expression, ticks)
    following = cron.next_after(expression, zone, ticks[0].at - away * DAY)
    newest = last_until(expression, zone, ticks[-1].at + away * DAY)
    if expected:
        assert (following, newest) == (expected[0], expected[-1])
    else:
        assert following is None or following > ticks[-1].at
        assert newest is None or newest < ticks[0].at


# In any zone, at any time.


@given(minutely | secondly, st.sampled_from(ZONES), st.integers(0, 4 * 10**12), st.integers(1, 10**6))
@settings(derandomize=True, deadline=None, max_examples=50)
def test_forward_and_back_are_each_others_inverse(expression: str, zone: str, after: int, less: int) -> None:
    found = list(islice(cron.occurrences(expression, zone, after), 12))
    assert found
    assert found[0] > after
    for older, newer in pairwise(found):
        assert older < newer
        assert cron.next_after(expression, zone, older) == newer
        assert cron.next_after(expression, zone, max(older, newer - less)) == newer
        assert last_until(expression, zone, newer) == newer
        assert last_until(expression, zone, newer - 1) == older
        assert last_until(expression, zone, min(newer - 1, older + less)) == older
    assert list(islice(cron.occurrences_back(expression, zone, found[-1]), len(found))) == found[::-1]


def test_the_day_that_samoa_left_out_is_kept_the_day_after() -> None:
    """Pacific/Apia went from the 29th to the 31st of December 2011."""
    first, last = at("2011-12-29T00:00-10:00"), at("2011-12-31T23:59+14:00")
    noons = [at("2011-12-29T12:00-10:00"), at("2011-12-31T00:00+14:00"), at("2011-12-31T12:00+14:00")]
    assert between("0 12 * * *", "Pacific/Apia", first, last) == noons
    assert back_between("0 12 * * *", "Pacific/Apia", first, last) == noons[::-1]
    assert between("0 */12 30 * *", "Pacific/Apia", first, last) == []


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "Australia/Lord_Howe"])
@pytest.mark.parametrize(
    "expression",
    ["* * * * *", "* * * * * *", "0 0 29 2 */7", "* * 29 2 */7", "*/5 2 25-31 3 */7", "0 0 */31,LW * 1#2"],
)
def test_no_expression_takes_long(expression: str, zone: str) -> None:
    """The longest walks over fifty years in some 20 ms; fifty times that is a walk of another kind."""
    began = process_time()
    cron.next_after(expression, zone, SUMMER)
    last_until(expression, zone, SUMMER)
    assert process_time() - began < 1
