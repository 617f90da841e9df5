"""Schedules in a daemon on a manual clock: on time, after a suspend, after a stop, and when the clock is set.

Which times fire is tested in `tests/model/test_schedule`, what a firing writes in `tests/store/test_fire`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.engine import sample_handlers
from tests.engine.manual_time import leap
from tests.engine.sample_handlers import Door
from tests.engine.schedules import DAY, HOUR, MINUTE, fired, instant, jobs_of, put, schedule_events, view
from tests.harness import START, Harness, ManualClock, daemon

Doors = Callable[[str], Door]
HOLD: dict[str, Any] = {"job_type": "hold", "payload": {"door": "a"}}
NOTICED_MS = 5000


async def test_each_time_makes_one_job_at_its_instant(manual: Harness) -> None:
    """START is 8:00 in UTC."""
    made = await put(manual, "*/20 * * * *", spec={"payload": {"a": 1, "b": 2}}, param_overrides={"b": 3})
    assert made["next_trigger_at"] == START + 20 * MINUTE
    await leap(manual, HOUR)
    wanted = [START + minutes * MINUTE for minutes in (20, 40, 60)]
    assert await fired(manual) == wanted
    jobs = await jobs_of(manual)
    assert [(job["created_at"], job["state"]) for job in jobs] == [(at, "DONE") for at in wanted]
    assert all(job["payload"] == {"a": 1, "b": 3} for job in jobs)
    assert {job["template_id"] for job in jobs} == {(await view(manual))["template_id"]}
    after = await view(manual)
    assert (after["last_triggered_at"], after["next_trigger_at"]) == (wanted[-1], START + 80 * MINUTE)
    assert after["last_job_id"] == jobs[-1]["job_id"]
    assert after["upcoming"] == [START + minutes * MINUTE for minutes in (80, 100, 120, 140, 160)]


async def test_the_days_on_which_berlin_changes_its_clocks(home: Path) -> None:
    """One schedule for days on end; the instants are in UTC and written down by hand."""
    for begin, end, wanted in (
        ("2027-03-27", "2027-03-29 20:00", ["2027-03-27 01:30", "2027-03-28 01:00", "2027-03-29 00:30"]),
        ("2027-10-30", "2027-11-01 20:00", ["2027-10-30 00:30", "2027-10-31 00:30", "2027-11-01 01:30"]),
    ):
        async with daemon(home / begin, ManualClock(instant(begin))) as harness:
            await put(harness, "30 2 * * *", timezone="Europe/Berlin")
            await leap(harness, instant(end) - instant(begin))
            assert await fired(harness) == [instant(text) for text in wanted]


async def test_a_hundred_schedules_that_are_due_at_the_same_instant_all_fire(manual: Harness) -> None:
    await manual.call("template.put", name="t", spec={"job_type": "semantica.noop"})
    for number in range(100):
        await manual.call("schedule.put", name=f"s{number}", template_id="t", cron_expression="@hourly")
    await leap(manual, HOUR)
    stats = (await manual.call("admin.stats"))["queues"][0]
    assert (stats["done"], stats["queued"]) == (100, 0)
    listed = (await manual.call("schedule.list"))["schedules"]
    assert {(one["last_triggered_at"], one["next_trigger_at"]) for one in listed} == {(START + HOUR, START + 2 * HOUR)}


async def test_a_handler_that_is_missing_fails_its_times_until_it_is_back(home: Path) -> None:
    clock = ManualClock()
    async with daemon(home, clock, sample_handlers.config()) as harness:
        await put(harness, "@hourly", spec={"job_type": "give", "payload": {"what": "number"}})
    async with daemon(home, clock, seed=1) as harness:
        await leap(harness, 2 * HOUR)
        failed = await schedule_events(harness, "failed")
        assert [(one["code"], one["trigger_at"]) for one in failed] == [
            ("E_NO_HANDLER", START + HOUR),
            ("E_NO_HANDLER", START + 2 * HOUR),
        ]
    async with daemon(home, clock, sample_handlers.config(), seed=2) as harness:
        await leap(harness, HOUR)
        assert await fired(harness) == [START + 3 * HOUR]


# Overlap, with jobs that really run.


async def at_its_door(place: Door) -> None:
    assert await asyncio.to_thread(place.entered.wait, 40)
    place.entered.clear()


async def test_overlap_queue_runs_one_after_the_other_also_across_a_restart(home: Path, door: Doors) -> None:
    clock, place = ManualClock(), door("a")
    async with daemon(home, clock, sample_handlers.config()) as harness:
        await put(harness, "* * * * *", spec={**HOLD, "on_interrupt": "requeue"})
        await leap(harness, 3 * MINUTE)
        await at_its_door(place)
        await harness.call("schedule.disable", schedule_id="s")
        jobs = await jobs_of(harness)
        assert [job["state"] for job in jobs] == ["RUNNING", "SCHEDULED", "SCHEDULED"]
        why = await harness.call("job.explain", job_id=jobs[2]["job_id"])
        assert [(reason["kind"], reason["job_id"]) for reason in why["reasons"]] == [("turn", jobs[0]["job_id"])]
    async with daemon(home, clock, sample_handlers.config(), seed=1) as harness:
        await harness.settle()
        await at_its_door(place)
        ids = [job["job_id"] for job in jobs]
        assert [await harness.state(job_id) for job_id in ids] == ["RUNNING", "SCHEDULED", "SCHEDULED"]
        place.open.set()
        assert [(await harness.ended(job_id))["state"] for job_id in ids] == ["DONE"] * 3
        events = (await harness.call("event.list", limit=1000))["events"]
        ends = [one["event_type"] for one in events if one["event_type"] in ("job.started", "job.done")]
        assert ends == ["job.started", *["job.started", "job.done"] * 3]


async def test_overlap_supersede_interrupts_the_running_job_and_runs_the_newest(timed: Harness, door: Doors) -> None:
    place = door("a")
    await put(timed, "* * * * *", spec={**HOLD, "on_running": "cancel"}, overlap="supersede")
    await leap(timed, MINUTE)
    await at_its_door(place)
    await leap(timed, MINUTE)
    await timed.call("schedule.disable", schedule_id="s")
    first, second = await jobs_of(timed)
    assert (first["state"], first["superseded_by"]) == ("SUPERSEDED", second["job_id"])
    await at_its_door(place)
    place.open.set()
    assert (await timed.ended(second["job_id"]))["state"] == "DONE"


# Times that came while nobody was there.

BEGIN, WAKE = instant("2027-01-15 20:55"), instant("2027-01-16 05:00")
POLICIES = ("run_once", "skip", "run_all")


@asynccontextmanager
async def morning(home: Path, how: str) -> AsyncIterator[Harness]:
    """A schedule for each policy, hourly at ten past, is put at 20:55; then the daemon misses eight hours."""
    clock = ManualClock(BEGIN)
    async with daemon(home, clock) as harness:
        for policy in POLICIES:
            await put(harness, "10 * * * *", policy, misfire=policy)
        if how != "stopped":
            (clock.suspend if how == "suspended" else clock.step)(WAKE - BEGIN)
            await harness.advance(NOTICED_MS)
            yield harness
            return
    clock.suspend(WAKE - BEGIN)
    async with daemon(home, clock, seed=1) as harness:
        await harness.advance(0)
        yield harness


@pytest.mark.parametrize("how", ["suspended", "stopped", "set forward"])
async def test_eight_hours_away_fire_each_schedule_by_its_policy(home: Path, how: str) -> None:
    missed = list(range(instant("2027-01-15 21:10"), instant("2027-01-16 04:10") + 1, HOUR))
    async with morning(home, how) as harness:
        assert await fired(harness, "run_once") == missed[-1:]
        assert await fired(harness, "skip") == []
        assert await fired(harness, "run_all") == missed
        for policy, skipped in zip(POLICIES, (missed[:-1], missed, []), strict=True):
            jobs = await jobs_of(harness, policy)
            assert all(job["state"] == "DONE" and WAKE <= job["created_at"] <= WAKE + NOTICED_MS for job in jobs)
            overslept = await schedule_events(harness, "skipped", policy)
            events = [(one["count"], one["first_at"], one["last_at"]) for one in overslept]
            assert events == ([(len(skipped), skipped[0], skipped[-1])] if skipped else [])
        await leap(harness, HOUR)
        for policy in POLICIES:
            assert (await fired(harness, policy))[-1] == instant("2027-01-16 05:10")


async def test_all_times_of_a_night_are_fired_one_by_one_and_in_order(home: Path) -> None:
    """485 minutes are more than one transaction fires, and each job waits for the one before."""
    clock = ManualClock(BEGIN)
    async with daemon(home, clock) as harness:
        await put(harness, "* * * * *", misfire="run_all")
        clock.suspend(WAKE - BEGIN)
        await harness.advance(NOTICED_MS)
        assert await fired(harness) == list(range(BEGIN + MINUTE, WAKE + 1, MINUTE))
        jobs = await jobs_of(harness)
        assert [job["state"] for job in jobs] == ["DONE"] * 485
        runs = [(job["started_at"], job["finished_at"]) for job in jobs]
        assert runs == sorted(runs)


# A clock that is set.


def clock_of(harness: Harness) -> ManualClock:
    assert isinstance(harness.clock, ManualClock)
    return harness.clock


def hours(*numbers: int) -> list[int]:
    return [START + number * HOUR for number in numbers]


@pytest.mark.parametrize(("step", "more"), [(-2 * HOUR, [6]), (-DAY, [6 - 24, 7 - 24, 8 - 24])])
async def test_set_back_it_waits_for_the_next_time_or_goes_by_the_new_clock(
    manual: Harness, step: int, more: list[int]
) -> None:
    """It has fired every hour, ten minutes ago the last; less than three hours back, and a day."""
    await put(manual, "@hourly")
    await leap(manual, 5 * HOUR + 10 * MINUTE)
    clock_of(manual).step(step)
    await leap(manual, 3 * HOUR)
    assert await fired(manual) == hours(*range(1, 6), *more)


async def test_a_clock_that_was_a_day_behind_for_ten_minutes_doubles_nothing_and_loses_nothing(manual: Harness) -> None:
    await put(manual, "@hourly", misfire="run_all")
    await leap(manual, 26 * HOUR + 10 * MINUTE)
    clock_of(manual).step(-DAY)
    await leap(manual, 10 * MINUTE)
    clock_of(manual).step(DAY)
    await leap(manual, 2 * HOUR)
    assert await fired(manual) == hours(*range(1, 29))
    assert await schedule_events(manual, "skipped") == []


async def test_ten_years_forward_and_back_again_are_no_flood_of_jobs_and_no_silence(manual: Harness) -> None:
    for policy in POLICIES:
        await put(manual, "0 0 1 2 *", policy, misfire=policy)
    await put(manual, "@hourly", "hourly")
    clock_of(manual).step(3652 * DAY)
    await manual.advance(NOTICED_MS)
    assert [len(await fired(manual, name)) for name in (*POLICIES, "hourly")] == [1, 0, 10, 1]
    clock_of(manual).step(-3652 * DAY)
    await leap(manual, 2 * HOUR)
    assert (await fired(manual, "hourly"))[1:] == hours(1, 2)
    assert [len(await fired(manual, name)) for name in POLICIES] == [1, 0, 10]
    assert (await view(manual, "skip"))["next_trigger_at"] < START + 30 * DAY
