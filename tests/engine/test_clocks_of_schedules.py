"""Schedules when the wall clock is set: no time fires twice, none is lost, and ten years are no flood of jobs.

What was missed in a suspend is in `test_schedules_missed`.
"""

from tests.engine.manual_time import leap
from tests.engine.schedules import DAY, HOUR, MINUTE, fired, put, told, view
from tests.harness import START, Harness, ManualClock

TEN_YEARS = 3652 * DAY
NOTICED_MS = 5000


def clock_of(harness: Harness) -> ManualClock:
    assert isinstance(harness.clock, ManualClock)
    return harness.clock


def hours(*numbers: int) -> list[int]:
    return [START + number * HOUR for number in numbers]


async def test_set_back_by_less_than_three_hours_a_schedule_fires_no_time_again(manual: Harness) -> None:
    """It has fired every hour, and ten minutes after the last the clock is set back: it goes on with the next."""
    await put(manual, "@hourly", misfire="run_all")
    await leap(manual, 5 * HOUR + 10 * MINUTE)
    clock_of(manual).step(-2 * HOUR)
    await leap(manual, 2 * HOUR + 50 * MINUTE - 1)
    assert await fired(manual) == hours(*range(1, 6))
    await manual.advance(1)
    assert await fired(manual) == hours(*range(1, 7))


async def test_set_back_by_more_it_goes_by_the_new_clock_at_once(manual: Harness) -> None:
    await put(manual, "@hourly")
    await leap(manual, 5 * HOUR + 10 * MINUTE)
    clock_of(manual).step(-DAY)
    await leap(manual, 2 * HOUR)
    assert await fired(manual) == hours(*range(1, 6), 6 - 24, 7 - 24)


async def test_a_clock_that_was_wrong_for_a_while_doubles_nothing_and_loses_nothing(manual: Harness) -> None:
    """Back a day and, ten minutes later, right again."""
    await put(manual, "@hourly", misfire="run_all")
    await leap(manual, 26 * HOUR + 10 * MINUTE)
    clock_of(manual).step(-DAY)
    await leap(manual, 10 * MINUTE)
    clock_of(manual).step(DAY)
    await leap(manual, 2 * HOUR)
    assert await fired(manual) == hours(*range(1, 29))
    assert await told(manual, "skipped") == []


async def test_a_time_for_which_it_never_fired_is_new_to_it_whenever_the_clock_shows_it(manual: Harness) -> None:
    await put(manual, "@hourly")
    await leap(manual, HOUR + 10 * MINUTE)
    clock_of(manual).step(-3 * HOUR)
    await leap(manual, 4 * HOUR)
    assert await fired(manual) == hours(1, -1, 0, 2)


async def test_ten_years_forward_and_back_again_fire_each_schedule_as_its_policy_says(manual: Harness) -> None:
    """The jobs of that mistake stay; afterwards everything goes on as if the clock had never been wrong."""
    for policy in ("run_once", "skip", "run_all"):
        await put(manual, "0 0 1 2 *", policy, misfire=policy)
    await put(manual, "@hourly", "hourly")
    clock_of(manual).step(TEN_YEARS)
    await manual.advance(NOTICED_MS)
    assert [len(await fired(manual, name)) for name in ("run_once", "skip", "run_all", "hourly")] == [1, 0, 10, 1]
    clock_of(manual).step(-TEN_YEARS)
    await leap(manual, 2 * HOUR)
    assert (await fired(manual, "hourly"))[1:] == [START + HOUR, START + 2 * HOUR]
    assert [len(await fired(manual, name)) for name in ("run_once", "skip", "run_all")] == [1, 0, 10]
    assert (await view(manual, "skip"))["next_trigger_at"] < START + 30 * DAY
