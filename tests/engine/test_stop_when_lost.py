"""stop_when_lost: a run that asked for it is really ended when idleness or power is lost, its attempt is given back,
and it runs again when the machine is as it needs it."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine.commands import first_line, gone, until
from tests.engine.machines import BOTH, IDLE, IDLE_MS, POWER, ProbeCounts, type_something, use_fake_sources
from tests.engine.sample_handlers import Door
from tests.engine.stream import events
from tests.harness import Harness


async def hold(harness: Harness, place: Door, **spec: Any) -> str:
    """A job at its door that would stop when idleness is lost; the machine has just become idle."""
    job_type = spec.pop("job_type", "hold")
    ack = await harness.enqueue(job_type, payload={"door": "a"}, schedule=IDLE, stop_when_lost=True, **spec)
    await type_something(harness)
    await harness.advance(IDLE_MS)
    assert await asyncio.to_thread(place.entered.wait, 40)
    place.entered.clear()
    return str(ack["job_id"])


@pytest.mark.parametrize("job_type", ["hold", "watchful"])
async def test_a_handler_that_asked_for_it_is_ended_and_runs_again_later(
    desk: Harness, door: Callable[[str], Door], job_type: str
) -> None:
    """Async and in a thread: its attempt is given back, so that one is enough."""
    use_fake_sources(desk)
    place = door("a")
    job_id = await hold(desk, place, job_type=job_type, max_attempts=1)
    await type_something(desk)
    await until_scheduled(desk, job_id)
    job = await desk.job(job_id)
    assert (job["attempts"], job["run_count"], job["finished_at"]) == (0, 1, None)
    assert [(run["status"], run["attempt"]) for run in job["runs"]] == [("INTERRUPTED", 1)]
    assert job["runs"][0]["error"]["code"] == "E_CONDITION_LOST"
    assert await running(desk) == 0
    await desk.advance(IDLE_MS - 1)
    assert await desk.state(job_id) == "SCHEDULED"
    await desk.advance(1)
    assert await asyncio.to_thread(place.entered.wait, 40)
    place.open.set()
    job = await desk.ended(job_id)
    assert (job["state"], job["attempts"], job["run_count"], job["error"]) == ("DONE", 1, 2, None)
    assert [run["status"] for run in job["runs"]] == ["INTERRUPTED", "DONE"]


async def until_scheduled(harness: Harness, job_id: str) -> None:
    """A thread or a process takes its own time to end."""
    async with asyncio.timeout(10):
        while await harness.state(job_id) != "SCHEDULED":
            await harness.settle()


async def running(harness: Harness) -> int:
    health = await harness.call("admin.health")
    return int(health["parts"]["dispatcher"]["running"])


async def test_a_command_that_asked_for_it_is_really_ended_and_runs_again_later(desk: Harness, home: Path) -> None:
    use_fake_sources(desk)
    script = f"echo $$; echo run >> {home}/runs; test -f {home}/enough || exec sleep 600"
    spec = {"payload": {"argv": ["sh", "-c", script], "cwd": "/"}, "max_attempts": 1}
    job_id = (await desk.enqueue("T", schedule=IDLE, stop_when_lost=True, **spec))["job_id"]
    await type_something(desk)
    await desk.advance(IDLE_MS)
    pid = int(await first_line(desk, job_id))
    await type_something(desk)
    await until_scheduled(desk, job_id)
    assert gone(pid)
    job = await desk.job(job_id)
    assert (job["attempts"], job["runs"][0]["status"]) == (0, "INTERRUPTED")
    (home / "enough").touch()
    await desk.advance(IDLE_MS)
    job = await desk.ended(job_id)
    assert (job["state"], job["attempts"], job["run_count"]) == ("DONE", 1, 2)
    assert (home / "runs").read_text() == "run\n" * 2


async def test_a_command_that_will_not_go_is_killed_after_its_grace(desk: Harness) -> None:
    use_fake_sources(desk)
    argv = ["sh", "-c", "trap '' TERM; echo $$; while :; do sleep 1; done"]
    spec: dict[str, Any] = {"payload": {"argv": argv, "cwd": "/"}, "grace_ms": 3000}
    job_id = (await desk.enqueue("T", schedule=IDLE, stop_when_lost=True, **spec))["job_id"]
    await type_something(desk)
    await desk.advance(IDLE_MS)
    pid = int(await first_line(desk, job_id))
    await type_something(desk)
    await desk.advance(2999)
    assert (await desk.state(job_id), gone(pid)) == ("RUNNING", False)
    await desk.advance(1)
    await until(lambda: gone(pid))
    await until_scheduled(desk, job_id)


@pytest.mark.parametrize("job_type", ["clean_up", "attentive"])
async def test_a_run_that_ends_well_because_it_is_told_to_stop_is_not_done(
    desk: Harness, door: Callable[[str], Door], job_type: str
) -> None:
    """Who looks at ctx.cancelled returns early: taken for done, the rest of its work would be lost without a word."""
    use_fake_sources(desk)
    job_id = await hold(desk, door("a"), job_type=job_type)
    await type_something(desk)
    await until_scheduled(desk, job_id)
    job = await desk.job(job_id)
    assert (job["attempts"], job["run_count"], job["runs"][0]["status"]) == (0, 1, "INTERRUPTED")


async def test_a_thread_that_will_not_go_keeps_its_slot(desk: Harness, door: Callable[[str], Door]) -> None:
    use_fake_sources(desk)
    place = door("a")
    job_id = await hold(desk, place, job_type="deaf", grace_ms=1000)
    await type_something(desk)
    await desk.advance(1000)
    assert (await desk.state(job_id), await running(desk)) == ("RUNNING", 1)
    assert len(await events(desk, "job.unresponsive", job_id=job_id)) == 1
    place.open.set()
    await until_scheduled(desk, job_id)
    assert await running(desk) == 0


async def test_power_lost_ends_a_run_that_asked_for_it(desk: Harness, door: Callable[[str], Door]) -> None:
    machine = use_fake_sources(desk, mains=True)
    place = door("a")
    spec = {"payload": {"door": "a"}, "schedule": POWER, "stop_when_lost": True}
    job_id = (await desk.enqueue("hold", **spec))["job_id"]
    await desk.settle()
    assert await asyncio.to_thread(place.entered.wait, 40)
    await type_something(desk)  # which is nothing to this one
    await desk.settle()
    assert await desk.state(job_id) == "RUNNING"
    machine.mains = False
    await desk.advance(5000)
    assert await desk.state(job_id) == "SCHEDULED"
    place.open.set()
    machine.mains = True
    await desk.advance(5000)
    job = await desk.ended(job_id)
    assert (job["state"], job["attempts"], job["run_count"]) == ("DONE", 1, 2)


async def test_a_run_that_did_not_ask_for_it_is_left_alone(desk: Harness, door: Callable[[str], Door]) -> None:
    machine = use_fake_sources(desk, mains=True)
    place = door("a")
    job_id = (await desk.enqueue("hold", payload={"door": "a"}, schedule=BOTH))["job_id"]
    await type_something(desk)
    await desk.advance(IDLE_MS)
    assert await asyncio.to_thread(place.entered.wait, 40)
    await type_something(desk)
    machine.mains = False
    await desk.advance(20_000)
    assert await desk.state(job_id) == "RUNNING"
    place.open.set()
    job = await desk.ended(job_id)
    assert (job["state"], job["run_count"]) == ("DONE", 1)


async def test_a_cancel_of_a_run_that_is_being_ended_wins(desk: Harness, door: Callable[[str], Door]) -> None:
    use_fake_sources(desk)
    place = door("a")
    job_id = await hold(desk, place, job_type="deaf", grace_ms=1000)
    await type_something(desk)
    await desk.call("job.cancel", job_id=job_id)
    place.open.set()
    assert (await desk.ended(job_id))["state"] == "CANCELLED"


async def test_a_run_that_would_have_to_stop_is_looked_after_every_five_seconds(
    desk: Harness, door: Callable[[str], Door]
) -> None:
    machine = use_fake_sources(desk)
    asked = ProbeCounts(desk, machine)
    place = door("a")
    job_id = await hold(desk, place)
    assert await asked.during(30_000) == (6, 0)
    place.open.set()
    await desk.ended(job_id)
    await desk.advance(5000)
    assert await asked.during(30_000) == (0, 0)
