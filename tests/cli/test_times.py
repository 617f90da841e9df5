"""Instants: what a person writes is understood in the user's zone, also on the days when its clock jumps."""

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from semantica_daemon import prose
from semantica_daemon.cli import format, times
from tests.cases import each_case

Zone = Callable[[str], None]


@pytest.fixture
def in_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Zone]:
    """The zone of this process, until the test is over."""

    def change(name: str) -> None:
        monkeypatch.setenv("TZ", name)
        time.tzset()

    yield change
    monkeypatch.undo()
    time.tzset()


def at(text: str) -> int:
    """UTC as epoch ms."""
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


# A Friday; Berlin is one hour ahead in winter, two in summer. Its clock jumped on 2026-03-29 and 2026-10-25.
FRIDAY = "2026-05-01T10:00"


@each_case(
    ("text", "utc"),
    [
        ("now", "2026-05-01T10:00"),
        ("10m", "2026-05-01T10:10"), ("+10m", "2026-05-01T10:10"), ("in 10m", "2026-05-01T10:10"),
        ("1h30m", "2026-05-01T11:30"), ("in 1h30m", "2026-05-01T11:30"), ("+ 1d", "2026-05-02T10:00"),
        ("+90", "2026-05-01T10:01:30"), ("in 90", "2026-05-01T10:01:30"), ("0s", "2026-05-01T10:00"),
        ("14:30", "2026-05-01T12:30"), ("14:30:15", "2026-05-01T12:30:15"),
        ("02:00", "2026-05-02T00:00"), ("2:00", "2026-05-02T00:00"), ("12:00", "2026-05-02T10:00"),
        ("today 14:30", "2026-05-01T12:30"), ("today 02:00", "2026-05-01T00:00"),
        ("tomorrow 02:00", "2026-05-02T00:00"), ("Tomorrow  14:30", "2026-05-02T12:30"),
        ("monday 9:00", "2026-05-04T07:00"), ("mon 9:00", "2026-05-04T07:00"),
        ("friday 14:30", "2026-05-01T12:30"), ("friday 9:00", "2026-05-08T07:00"), ("thu 9:00", "2026-05-07T07:00"),
        ("2031-05-01", "2031-04-30T22:00"), ("2031-05-01T14:30", "2031-05-01T12:30"),
        ("2031-05-01 14:30", "2031-05-01T12:30"), ("2031-05-01T14:30:15", "2031-05-01T12:30:15"),
        ("2031-05-01T14:30Z", "2031-05-01T14:30"), ("2031-05-01t14:30z", "2031-05-01T14:30"),
        ("2031-05-01T14:30+09:00", "2031-05-01T05:30"), ("2031-05-01 14:30-0330", "2031-05-01T18:00"),
        ("tomorrow", "2026-05-01T22:00"), ("monday", "2026-05-03T22:00"), ("fri", "2026-05-07T22:00"),
        ("4pm", "2026-05-01T14:00"), ("4 PM", "2026-05-01T14:00"), ("4:30pm", "2026-05-01T14:30"),
        ("4 a.m.", "2026-05-02T02:00"), ("12am", "2026-05-01T22:00"), ("12:15pm", "2026-05-01T10:15"),
        ("noon", "2026-05-02T10:00"), ("midnight", "2026-05-01T22:00"), ("tomorrow noon", "2026-05-02T10:00"),
        ("noon tomorrow", "2026-05-02T10:00"), ("monday 4pm", "2026-05-04T14:00"), ("9:00 monday", "2026-05-04T07:00"),
        ("10 minutes", "2026-05-01T10:10"), ("in 10 minutes", "2026-05-01T10:10"), ("in 10 m", "2026-05-01T10:10"),
        ("1 hour 30 minutes", "2026-05-01T11:30"), ("1 hour and 30 min", "2026-05-01T11:30"),
        ("2 Days", "2026-05-03T10:00"), ("2001-01-01", "2000-12-31T23:00"), (" 14:30 ", "2026-05-01T12:30"),
    ],
)  # fmt: skip
def test_a_time_is_understood_in_the_users_zone(in_zone: Zone, text: str, utc: str) -> None:
    in_zone("Europe/Berlin")
    assert times.instant(text, at(FRIDAY)) == at(utc)


@each_case(
    ("zone", "now", "text", "utc"),
    [
        # The clock jumps from 02:00 to 03:00: what does not come is as much later as it jumps.
        ("Europe/Berlin", "2026-03-28T21:00", "02:30", "2026-03-29T01:30"),
        ("Europe/Berlin", "2026-03-28T21:00", "tomorrow 03:30", "2026-03-29T01:30"),
        ("Europe/Berlin", "2026-03-28T21:00", "2026-03-29T02:30", "2026-03-29T01:30"),
        ("Europe/Berlin", "2026-03-28T21:00", "tomorrow 22:00", "2026-03-29T20:00"),
        ("America/New_York", "2026-03-08T06:30", "02:15", "2026-03-08T07:15"),
        # The clock goes from 03:00 back to 02:00: the first of the two, unless that is over.
        ("Europe/Berlin", "2026-10-24T21:00", "02:30", "2026-10-25T00:30"),
        ("Europe/Berlin", "2026-10-25T00:45", "02:30", "2026-10-25T01:30"),
        ("Europe/Berlin", "2026-10-25T01:45", "02:30", "2026-10-26T01:30"),
        ("Europe/Berlin", "2026-10-24T21:00", "tomorrow 22:00", "2026-10-25T21:00"),
        ("Australia/Lord_Howe", "2026-04-04T14:50", "01:45", "2026-04-04T15:15"),
        # A duration is that long, whatever the clock on the wall does.
        ("Europe/Berlin", "2026-03-28T21:00", "1d", "2026-03-29T21:00"),
        # A month and a year end.
        ("Europe/Berlin", "2026-12-31T22:30", "tomorrow 02:00", "2027-01-01T01:00"),
        ("Asia/Kathmandu", "2026-02-28T18:00", "tomorrow 00:15", "2026-02-28T18:30"),
    ],
)
def test_the_days_on_which_the_clock_jumps_are_days_like_others(
    in_zone: Zone, zone: str, now: str, text: str, utc: str
) -> None:
    in_zone(zone)
    assert times.instant(text, at(now)) == at(utc)


@each_case(
    "text",
    ["", "x", "14", "20310501", "25:00", "12:60", "24:00", "13pm", "0pm", "4 pmm", "someday 9:00", "-10m", "in", "+",
     "2031-13-01", "2031-05-01T14:30:60", "0001-01-01", "10m ago", "10 months", "10 min utes", "minutes", "noon 9:00"],
)  # fmt: skip
def test_what_is_no_time_is_refused_with_what_would_be_one(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time: write 10m"):
        times.instant(text)


def test_before_the_epoch_is_the_past_like_any_other(in_zone: Zone) -> None:
    in_zone("UTC")
    assert times.instant("1960-01-01") == 0
    assert times.instant("1970-01-02") == 86_400_000


@each_case(
    ("text", "utc"),
    [
        ("2h", "2026-05-01T08:00"), ("90m ago", "2026-05-01T08:30"), ("1h 30m ago", "2026-05-01T08:30"),
        ("1 hour 30 minutes", "2026-05-01T08:30"), ("1 hour and 30 min ago", "2026-05-01T08:30"),
        ("now", FRIDAY), ("9:00", "2026-05-01T07:00"),
        ("14:30", "2026-04-30T12:30"), ("monday 9:00", "2026-04-27T07:00"), ("fri 23:00", "2026-04-24T21:00"),
        ("2026-04-01T12:00", "2026-04-01T10:00"),
    ],
)  # fmt: skip
def test_a_time_in_the_past_is_the_last_one_that_is_meant(in_zone: Zone, text: str, utc: str) -> None:
    in_zone("Europe/Berlin")
    assert times.past(text, at(FRIDAY)) == at(utc)


@each_case("text", ["in 5m", "+5m", "tomorrow 9:00", "2031-01-01", "", "5 o'clock"])
def test_a_time_that_is_not_in_the_past_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time in the past: write 2h"):
        times.past(text, at(FRIDAY))


def test_without_a_now_it_is_now() -> None:
    before = format.now()
    assert before + 600_000 <= times.instant("10m") <= format.now() + 600_000
    assert before <= times.instant("now") <= format.now()


@each_case(
    ("utc", "text"),
    [
        ("2026-05-01T10:00", "12:00:00"),
        ("2026-05-01T10:10", "12:10:00, in 10m00s"),
        ("2026-05-01T21:59:59", "23:59:59, in 11h59m"),
        ("2026-05-01T22:00", "00:00:00 tomorrow, in 12h00m"),
        ("2026-05-02T21:59", "23:59:00 tomorrow, in 1d11h"),
        ("2026-05-02T22:00", "2026-05-03 00:00:00, in 1d12h"),
        ("2026-04-30T10:00", "2026-04-30 12:00:00"),
    ],
)
def test_an_instant_is_printed_in_the_users_zone_with_the_time_until_it(in_zone: Zone, utc: str, text: str) -> None:
    in_zone("Europe/Berlin")
    assert format.instant_and_delay(at(utc), at(FRIDAY)) == text


def test_tomorrow_is_the_next_day_of_the_calendar(in_zone: Zone) -> None:
    in_zone("Europe/Berlin")
    assert prose.instant(at("2026-03-29T21:00"), at("2026-03-28T22:30")) == "23:00:00 tomorrow"
    assert prose.instant(at("2026-12-31T23:30"), at("2026-12-31T22:30")) == "00:30:00 tomorrow"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("Europe/Berlin", "Europe/Berlin"), (":Europe/Berlin", "Europe/Berlin"), ("", "UTC"), ("UTC", "UTC"),
        ("/usr/share/zoneinfo/Asia/Tokyo", "Asia/Tokyo"), (":/usr/share/zoneinfo/posix/Asia/Tokyo", "Asia/Tokyo"),
        ("CET-1CEST", "CET-1CEST"), (":/etc/localtime", "America/Argentina/Ushuaia"),
    ],
)  # fmt: skip
def test_the_users_zone_is_that_of_the_variable(tmp_path: Path, given: str, name: str) -> None:
    os.symlink("../usr/share/zoneinfo/America/Argentina/Ushuaia", tmp_path / "localtime")
    assert times.zone({"TZ": given}, str(tmp_path / "localtime"), str(tmp_path / "none")) == name


def test_without_the_variable_the_zone_is_that_of_the_machine(tmp_path: Path) -> None:
    link, file = tmp_path / "localtime", tmp_path / "timezone"
    assert times.zone({}, str(link), str(file)) == "UTC"
    file.write_text("Europe/Paris\n")
    assert times.zone({}, str(link), str(file)) == "Europe/Paris"
    link.write_bytes(b"TZif2, a copy instead of a link")
    assert times.zone({}, str(link), str(file)) == "Europe/Paris"
    link.unlink()
    os.symlink("/var/db/timezone/zoneinfo/Europe/Rome", link)
    assert times.zone({}, str(link), str(file)) == "Europe/Rome"
    os.unlink(link)
    os.symlink("/somewhere/else", link)
    assert times.zone({}, str(link), str(file)) == "Europe/Paris"


@each_case(
    ("text", "ms"),
    [
        ("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("2h", 7_200_000), ("1d", 86_400_000),
        ("10", 10_000), ("0.5", 500), ("1.5s", 1500), ("1h30m", 5_400_000), ("0", 0), (" 3s ", 3000),
    ],
)  # fmt: skip
def test_a_duration_is_understood(text: str, ms: int) -> None:
    assert times.duration(text) == ms


@each_case("text", ["", "x", "-1", "10x", "s", "1 x", "1h30", "1e3", "9999999999999d", "ten", "5m!"])
def test_what_is_no_duration_is_refused_with_what_would_be_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a duration: write 500ms|too long|cannot be negative"):
        times.duration(text)
