"""How long, in the words of a message: a table, and what is said is right to half of its last unit."""

import re

from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon.model.words import length
from tests.cases import each_case

UNITS = {"ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


@each_case(
    ("ms", "words"),
    [
        (-5, "0 ms"),
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1 s"),
        (1050, "1 s"),
        (1500, "1.5 s"),
        (4000, "4 s"),
        (10_400, "10 s"),
        (179_000, "179 s"),
        (180_000, "3 min"),
        (720_000, "12 min"),
        (3_575_000, "1 h"),
        (3_600_000, "1 h"),
        (18_720_000, "5 h 12 min"),
        (86_400_000, "1 d"),
        (273_600_000, "3 d 4 h"),
    ],
)
def test_a_length_is_said_in_the_units_people_use(ms: int, words: str) -> None:
    assert length(ms) == words


@given(st.integers(0, 10**11) | st.integers(0, 10**7))
def test_what_is_said_is_right_to_half_of_its_last_unit(ms: int) -> None:
    parts = re.findall(r"([\d.]+) (ms|s|min|h|d)", length(ms))
    assert parts
    assert " ".join(f"{count} {unit}" for count, unit in parts) == length(ms)
    said = sum(float(count) * UNITS[unit] for count, unit in parts)
    unit = UNITS[parts[-1][1]] * (0.1 if "." in parts[-1][0] else 1)
    if len(parts) == 1 and parts[0][1] in ("h", "d"):
        unit = UNITS["min"] if parts[0][1] == "h" else UNITS["h"]
    on_the_way = 30_500 if ms > 3_500_000 else 500 if ms > 170_000 else 0
    assert abs(said - ms) <= unit / 2 + on_the_way, "seconds, minutes and hours are rounded on the way"
    assert not re.search(r"\b(60 min|24 h)", length(ms))
