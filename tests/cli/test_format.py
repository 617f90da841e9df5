"""Ages, instants, sizes and text as cells of a table."""

from semantica_daemon.cli import format
from tests.cases import each_case


def test_an_age_is_one_unit() -> None:
    now = format.now()
    ages = [format.age(now - seconds * 1000) for seconds in (3, 300, 7200, 345_600)]
    assert ages == ["3s", "5m", "2h", "4d"]
    assert format.age(None) == "-"


def test_an_instant_of_another_day_has_its_date() -> None:
    assert format.instant(0).startswith(("1970-01-01 ", "1969-12-31 "))
    assert len(format.instant(format.now())) == len("12:34:56")
    assert format.instant(10**15) != ""


def test_text_of_others_cannot_move_the_cursor() -> None:
    assert format.clean("a\x1b[31mb\nc\td") == "a�[31mb c d"


@each_case(("count", "text"), [(0, "0 B"), (999, "999 B"), (1500, "1.5 kB"), (86_000_000_000, "86 GB")])
def test_sizes_are_short(count: int, text: str) -> None:
    assert format.size(count) == text
