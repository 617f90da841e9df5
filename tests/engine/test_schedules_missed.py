"""Schedules whose time came while the machine slept, no daemon ran, or the clock was set: each as its policy says, and
whatever is skipped is told."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.engine.manual_time import leap
from tests.engine.schedules import DAY, HOUR, MINUTE, fired, instant, jobs_of, put, told, view
from tests.harness import Harness, ManualClock, daemon

BEGIN = instant("2027-01-15 20:55")
WAKE = instant("2027-01-16 05:00")
NOTICED_MS = 5000
AWAY = ["suspended", "stopped", "set forward"]
POLICIES = ("run_once", "skip", "run_all")
SIX = instant("2027-01-16 06:00")


@asynccontextmanager
async def morning(home: Path, how: str, *schedules: dict[str, Any], wake: int = WAKE) -> AsyncIterator[Harness]:
    """The schedules are put at 20:55; then the night is away, and they have had the time to notice."""
    clock = ManualClock(BEGIN)
    async with daemon(home, clock) as harness:
        for schedule in schedules:
            await put(harness, **schedule)
        if how != "stopped":
            away = clock.suspend if how == "suspended" else clock.step
            away(wake - clock.now())
            await harness.advance(NOTICED_MS)
            yield harness
            return
    clock.suspend(wake - clock.now())
    async with daemon(home, clock, seed=1) as harness:
        await harness.advance(0)
        yield harness


def hours(first: str, last: str) -> list[int]:
    return list(range(instant(first), instant(last) + 1, HOUR))


@pytest.mark.parametrize("how", AWAY)
async def test_eight_hours_fire_each_schedule_as_its_policy_says(home: Path, how: str) -> None:
    """Hourly at ten past: eight are missed, from 21:10 to 4:10, the last of them 50 minutes ago."""
    missed = hours("2027-01-15 21:10", "2027-01-16 04:10")
    schedules = [{"name": policy, "cron": "10 * * * *", "misfire": policy} for policy in POLICIES]
    async with morning(home, how, *schedules) as harness:
        assert await fired(harness, "run_once") == missed[-1:]
        assert await fired(harness, "skip") == []
        assert await fired(harness, "run_all") == missed
        for policy in POLICIES:
            assert {job["state"] for job in await jobs_of(harness, policy)} <= {"DONE"}
            assert all(WAKE <= job["created_at"] <= WAKE + NOTICED_MS for job in await jobs_of(harness, policy))
            assert (await view(harness, policy))["next_trigger_at"] == instant("2027-01-16 05:10")
        assert await skips(harness, "run_once") == [(7, missed[0], missed[-2])]
        assert await skips(harness, "skip") == [(8, missed[0], missed[-1])]
        assert await skips(harness, "run_all") == []
        await leap(harness, HOUR)
        for policy in POLICIES:
            assert (await fired(harness, policy))[-1] == instant("2027-01-16 05:10")
            assert len(await skips(harness, policy)) == (policy != "run_all")


async def skips(harness: Harness, name: str) -> list[tuple[int, int, int]]:
    """(how many, the first, the last) of each event that tells of missed ones."""
    found = await told(harness, "skipped", name)
    assert all((one["reason"], one["misfire"], one["more"]) == ("misfire", name, False) for one in found)
    return [(one["count"], one["first_at"], one["last_at"]) for one in found]


@pytest.mark.parametrize("how", AWAY)
async def test_what_was_not_due_in_the_night_is_not_touched_by_it(home: Path, how: str) -> None:
    schedules = [{"name": policy, "cron": "0 6 * * *", "misfire": policy} for policy in POLICIES]
    async with morning(home, how, *schedules) as harness:
        for policy in POLICIES:
            assert await fired(harness, policy) == []
            assert (await view(harness, policy))["next_trigger_at"] == SIX
        await leap(harness, HOUR)
        for policy in POLICIES:
            assert await fired(harness, policy) == [SIX]
            assert await told(harness, "skipped", policy) == []


@pytest.mark.parametrize("how", AWAY)
async def test_one_that_came_once_in_the_night_is_made_up_for_unless_it_skips(home: Path, how: str) -> None:
    schedules = [{"name": policy, "cron": "@daily", "misfire": policy} for policy in POLICIES]
    async with morning(home, how, *schedules) as harness:
        midnight = instant("2027-01-16")
        assert await fired(harness, "run_once") == await fired(harness, "run_all") == [midnight]
        assert await fired(harness, "skip") == []
        assert await skips(harness, "skip") == [(1, midnight, midnight)]
        await leap(harness, 20 * HOUR)
        for policy in POLICIES:
            assert await fired(harness, policy) == ([] if policy == "skip" else [midnight]) + [midnight + DAY]


@pytest.mark.parametrize("how", AWAY)
async def test_one_that_is_due_just_now_is_on_time_also_when_it_skips(home: Path, how: str) -> None:
    """Awake ten seconds after the full hour."""
    schedule = {"name": "skip", "cron": "0 * * * *", "misfire": "skip"}
    async with morning(home, how, schedule, wake=WAKE + 10_000) as harness:
        assert await fired(harness, "skip") == [WAKE]
        assert await skips(harness, "skip") == [(8, instant("2027-01-15 21:00"), WAKE - HOUR)]


async def test_all_of_a_night_are_made_up_for_one_by_one_and_in_their_order(home: Path) -> None:
    """485 minutes, more than are made in one go; and each waits for the one before."""
    schedule = {"cron": "* * * * *", "misfire": "run_all"}
    async with morning(home, "suspended", schedule) as harness:
        wanted = list(range(BEGIN + MINUTE, WAKE + 1, MINUTE))
        assert await fired(harness) == wanted
        jobs = await jobs_of(harness)
        assert [job["state"] for job in jobs] == ["DONE"] * 485
        ended = [(job["started_at"], job["finished_at"]) for job in jobs]
        assert ended == sorted(ended)


async def test_what_is_made_up_for_keeps_to_overlap(home: Path) -> None:
    """All at once, while nothing may run: with skip there is one, with supersede only the newest is left."""
    clock = ManualClock(BEGIN)
    async with daemon(home, clock) as harness:
        await harness.call("queue.pause")
        for overlap in ("queue", "skip", "supersede"):
            await put(harness, "10 * * * *", overlap, misfire="run_all", overlap=overlap)
        clock.suspend(WAKE - BEGIN)
        await harness.advance(NOTICED_MS)
        states = {name: [job["state"] for job in await jobs_of(harness, name)] for name in ("queue", "skip")}
        assert states == {"queue": ["QUEUED", *["SCHEDULED"] * 7], "skip": ["QUEUED"]}
        assert [job["state"] for job in await jobs_of(harness, "supersede")] == ["SUPERSEDED"] * 7 + ["QUEUED"]
        assert len(await told(harness, "skipped", "skip")) == 7


async def test_a_short_absence_is_no_misfire(home: Path) -> None:
    """Stopped across one occurrence, back 20 s later: it fires, whatever its policy."""
    clock = ManualClock(BEGIN)
    async with daemon(home, clock) as harness:
        for policy in POLICIES:
            await put(harness, "0 * * * *", policy, misfire=policy)
    clock.suspend(5 * MINUTE + 20_000)
    async with daemon(home, clock, seed=1) as harness:
        await harness.advance(0)
        for policy in POLICIES:
            assert await fired(harness, policy) == [instant("2027-01-15 21:00")]
            assert await told(harness, "skipped", policy) == []
