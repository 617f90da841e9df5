"""`each_case` itself: it tries all rows, passes fixtures on, and reports every row that fails."""

import inspect
from pathlib import Path

import pytest

from tests.cases import each_case


def test_every_row_that_fails_is_reported_with_its_values() -> None:
    tried = []

    @each_case("number", [1, 2, 3])
    def is_two(number: int) -> None:
        tried.append(number)
        assert number == 2

    with pytest.raises(ExceptionGroup, match="2 of 3 cases fail") as caught:
        is_two()
    assert tried == [1, 2, 3]
    notes = [note for error in caught.value.exceptions for note in error.__notes__]
    assert notes == ["in the case {'number': 1}", "in the case {'number': 3}"]


async def test_async_tests_are_awaited() -> None:
    @each_case(("a", "b"), [(1, 1), (1, 2)])
    async def are_equal(a: int, b: int) -> None:
        assert a == b

    with pytest.raises(ExceptionGroup, match="1 of 2 cases fail"):
        await are_equal()


@each_case("a", [1, 2])
@each_case("b", [3, 4])
def test_tables_are_stacked_and_fixtures_passed_on(tmp_path: Path, a: int, b: int) -> None:
    assert tmp_path.is_dir()
    (tmp_path / f"{a}{b}").touch(exist_ok=False)


def test_only_fixtures_are_arguments_and_the_name_stays() -> None:
    test = test_tables_are_stacked_and_fixtures_passed_on
    assert (test.__name__, list(inspect.signature(test).parameters)) == (
        "test_tables_are_stacked_and_fixtures_passed_on", ["tmp_path"]
    )  # fmt: skip
