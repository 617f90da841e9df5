"""The renderer: durations and instants in one format, and a clause for every kind of reason."""

import re
import time
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon import prose
from tests.cases import each_case

UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
NOW = 1_800_000_000_000


@each_case(
    ("ms", "text"),
    [
        (-5, "0ms"), (0, "0ms"), (340, "340ms"), (999, "999ms"), (1000, "1s"), (1234, "1.2s"), (58_000, "58s"),
        (59_949, "59.9s"), (59_950, "1m00s"), (185_000, "3m05s"), (3_599_999, "1h00m"), (7_440_000, "2h04m"),
        (86_400_000, "1d00h"), (266_400_000, "3d02h"),
    ],
)  # fmt: skip
def test_a_duration_has_two_units_at_most(ms: int, text: str) -> None:
    assert prose.duration(ms) == text


@given(st.integers(0, 10**11) | st.integers(0, 10**7))
def test_a_duration_is_right_to_its_last_unit(ms: int) -> None:
    parts = re.findall(r"([\d.]+)(ms|s|m|h|d)", prose.duration(ms))
    assert "".join(count + unit for count, unit in parts) == prose.duration(ms)
    value = sum(float(count) * UNITS[unit] for count, unit in parts)
    unit = UNITS[parts[-1][1]] * (0.1 if len(parts) == 1 and parts[0][1] == "s" else 1)
    assert abs(value - ms) <= unit


@pytest.fixture
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def test_an_instant_of_another_day_has_its_date(utc: None) -> None:
    assert prose.instant(NOW, NOW) == "08:00:00"
    assert prose.instant(NOW + 86_400_000, NOW) == "08:00:00 tomorrow"
    assert prose.instant(NOW + 2 * 86_400_000, NOW) == "2027-01-17 08:00:00"
    assert prose.instant(10**20, NOW) == str(10**20)


def test_a_kind_of_a_newer_daemon_is_rendered_by_its_message() -> None:
    assert prose.reason({"kind": "new", "message": "because"}, NOW, str) == "because"
    assert prose.reason({"kind": "new"}, NOW, str) == "new"


@each_case(
    ("reasons", "text"),
    [
        ([], ""),
        ([{"kind": "time", "at": NOW}], ""),
        ([{"kind": "time", "at": NOW + 1000}], "1800000001000, in 1s"),
        ([{"kind": "idle"}], "when the machine is idle"),
        ([{"kind": "idle"}, {"kind": "event", "key": "e"}, {"kind": "condition", "key": "k", "value": "v"}],
         "when the machine is idle, event e is emitted and event k=v is emitted"),
        ([{"kind": "time", "at": NOW + 1000}, {"kind": "power"}],
         "1800000001000, in 1s, or later, when the machine is on mains power"),
        ([{"kind": "debounce", "debounce_ms": 600_000, "max_wait_ms": 3_600_000}],
         "when its subject has been quiet for 10m00s (for at most 1h00m)"),
        ([{"kind": "superseded"}], "never: a newer generation of its lane is already known"),
    ],
)  # fmt: skip
def test_a_start_is_a_time_and_what_has_to_come_true(reasons: list[prose.Facts], text: str) -> None:
    assert prose.start(reasons, NOW, str) == text


@pytest.mark.parametrize(
    ("problem", "text"),
    [
        ("Expected `str` of length >= 1", "must not be empty"),
        ("Expected `str` of length >= 4", "must have at least 4 characters"),
        ("Expected `str` of length <= 256 (a key)", "must have at most 256 characters (a key)"),
        ("Expected `int` >= -100", "must be -100 or more"),
        ("Expected `int` <= 100", "must be 100 or less"),
        ("Expected `int`, got `str`", "Expected `int`, got `str`"),
    ],
)
def test_a_limit_is_described_in_plain_words(problem: str, text: str) -> None:
    assert prose.requirement(problem) == text
