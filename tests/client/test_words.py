"""Durations, lengths, sizes: what a person writes is understood, what a person reads is short."""

import pytest

from semantica_daemon.client import words
from tests.cases import each_case


@each_case(
    ("text", "ms"),
    [
        ("500ms", 500), ("10s", 10_000), ("5m", 300_000), ("2h", 7_200_000), ("1d", 86_400_000),
        ("10", 10_000), ("0.5", 500), ("1.5s", 1500), ("1h30m", 5_400_000), ("0", 0), (" 3s ", 3000),
    ],
)  # fmt: skip
def test_a_duration_is_understood(text: str, ms: int) -> None:
    assert words.duration(text) == ms


@each_case("text", ["", "x", "-1", "10x", "s", "1 h", "1h30", "1e3", "9999999999999d", "ten", "5m!"])
def test_what_is_no_duration_is_refused_with_what_would_be_one(text: str) -> None:
    with pytest.raises(ValueError, match=r"no duration: write 500ms|longer than"):
        words.duration(text)


@each_case(
    ("ms", "text"),
    [
        (0, "0ms"), (340, "340ms"), (1234, "1.2s"), (59_949, "59.9s"), (59_950, "1m00s"), (185_000, "3m05s"),
        (3_599_999, "1h00m"), (7_440_000, "2h04m"), (266_400_000, "3d02h"), (-5, "0ms"),
    ],
)  # fmt: skip
def test_a_length_is_said_in_two_units_at_most(ms: int, text: str) -> None:
    assert words.length(ms) == text


def test_an_age_is_one_unit() -> None:
    now = words.now()
    ages = [words.age(now - seconds * 1000) for seconds in (3, 300, 7200, 345_600)]
    assert ages == ["3s", "5m", "2h", "4d"]
    assert words.age(None) == "-"


def test_a_moment_of_another_day_has_its_date() -> None:
    assert words.moment(0).startswith(("1970-01-01 ", "1969-12-31 "))
    assert len(words.moment(words.now())) == len("12:34:56")
    assert words.moment(10**15) != ""


def test_words_of_others_cannot_move_the_cursor() -> None:
    assert words.clean("a\x1b[31mb\nc\td") == "a�[31mb c d"


@each_case(("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (86_000_000_000, "86 GB")])
def test_sizes_are_short(count: int, text: str) -> None:
    assert words.size(count) == text
