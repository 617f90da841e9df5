"""A schedule fires and advances in one transaction: whenever the daemon dies, it fires neither twice nor not at all."""

import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.engine.crashes import CRASHES, POINTS, crash
from tests.engine.manual_time import leap
from tests.engine.schedules import HOUR, fired, jobs_of, put, told, view
from tests.harness import START, Harness, ManualClock, Process, daemon


@pytest.mark.parametrize("misfire", ["run_once", "skip", "run_all"])
@pytest.mark.parametrize("at", CRASHES, ids=str)
async def test_a_crash_at_the_instant_it_is_due_fires_it_once(home: Path, at: tuple[str, int], misfire: str) -> None:
    """The first commits from that instant on are, each in its turn, the last of the daemon."""
    clock = ManualClock()

    async def prepare(harness: Harness) -> None:
        await put(harness, "@hourly", misfire=misfire)
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
        assert await told(harness, "skipped") == []


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


def events(process: Process, *kinds: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    since = 0
    while True:
        page = process.call("event.list", since=since, limit=1000, event_types=list(kinds))
        found += page["events"]
        if page["next_sequence"] == since:
            return found
        since = page["next_sequence"]


def test_a_process_that_is_killed_again_and_again_fires_every_second_once(home: Path) -> None:
    """By SIGKILL at its failpoints; run_all makes up for the seconds in which it was dead."""
    with Process(home).start() as process:
        process.call("template.put", name="t", spec={"job_type": "semantica.noop"})
        cron = {"name": "s", "template_id": "t", "cron_expression": "* * * * * *", "misfire": "run_all"}
        first = process.call("schedule.put", **cron)["next_trigger_at"]
        process.kill()
    for point, passage in (("before_commit", 5), ("after_commit_before_reply", 5), ("before_commit", 8)):
        with Process(home, SEMANTICA_FAILPOINT=f"{point}:kill:{passage}").start(ready=False) as process:
            assert process.process is not None
            assert process.process.wait(20) == -9
    with Process(home).start() as process:
        until = time.time() * 1000
        while process.call("schedule.get", schedule_id="s")["next_trigger_at"] <= until:
            time.sleep(0.02)
        process.call("schedule.disable", schedule_id="s")
        payloads = [one["payload"] for one in events(process, "schedule.fired")]
    instants = [one["trigger_at"] for one in payloads]
    assert instants[0] == first
    assert {after - before for before, after in pairwise(instants)} == {1000}
    assert instants[-1] > until - 1000
    assert len({one["job_id"] for one in payloads}) == len(payloads)
