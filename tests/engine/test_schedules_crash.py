"""A schedule fires and advances in one transaction: whenever the daemon dies, each time is fired once.

Processes that are killed with SIGKILL while a schedule fires are in `tests/crash/test_failpoints_waiting`.
"""

from pathlib import Path

import pytest

from semantica_daemon.model.repeat import jitter
from tests.engine.crashes import CRASHES, POINTS, crash
from tests.engine.manual_time import leap
from tests.engine.schedules import HOUR, fired, jobs_of, put, schedule_events, view
from tests.harness import START, Harness, ManualClock, daemon


@pytest.mark.parametrize("at", CRASHES, ids=str)
async def test_a_crash_at_the_instant_it_is_due_fires_it_once(home: Path, at: tuple[str, int]) -> None:
    """The first commits from that instant on are, each in its turn, the last of the daemon."""
    clock = ManualClock()

    async def prepare(harness: Harness) -> None:
        await put(harness, "@hourly")
        await leap(harness, HOUR - 1)

    await crash(home, clock, at, prepare, ms=3000)
    assert clock.now() >= START + HOUR
    async with daemon(home, clock, seed=1) as harness:
        await harness.advance(0)
        assert await fired(harness) == [START + HOUR]
        (job,) = await jobs_of(harness)
        assert job["run_count"] == 1
        assert (job["state"], job["error"] and job["error"]["code"]) in [("DONE", None), ("FAILED", "E_ENGINE_CRASH")]
        assert (await view(harness))["next_trigger_at"] == START + 2 * HOUR
        await leap(harness, HOUR)
        assert await fired(harness) == [START + HOUR, START + 2 * HOUR]
        assert await schedule_events(harness, "skipped") == []


@pytest.mark.parametrize("at", CRASHES, ids=str)
async def test_a_crash_fires_an_interval_once_and_its_jitter_stays(home: Path, at: tuple[str, int]) -> None:
    clock = ManualClock()

    async def prepare(harness: Harness) -> None:
        await put(harness, None, every_ms=HOUR, jitter_ms=2000)
        await leap(harness, HOUR - 1)

    await crash(home, clock, at, prepare, ms=3000)
    async with daemon(home, clock, seed=1) as harness:
        await harness.advance(0)
        assert await fired(harness) == [START + HOUR]
        (job,) = await jobs_of(harness)
        delay = jitter((await view(harness))["schedule_id"], START + HOUR, 2000)
        assert 0 < delay == job["schedule_delay_ms"]
        await harness.advance(2000)
        assert (await harness.job(job["job_id"]))["run_count"] == 1


@pytest.mark.parametrize("point", POINTS)
async def test_a_crash_in_the_midst_of_making_up_loses_none_and_doubles_none(home: Path, point: str) -> None:
    """25 are missed, more than are made in one go."""
    clock = ManualClock()

    async def prepare(harness: Harness) -> None:
        await put(harness, "@hourly", misfire="run_all")
        await harness.settle()
        clock.suspend(25 * HOUR)

    await crash(home, clock, (point, 3), prepare, ms=5000)
    async with daemon(home, clock, seed=1) as harness:
        await harness.advance(0)
        assert await fired(harness) == [START + hours * HOUR for hours in range(1, 26)]
