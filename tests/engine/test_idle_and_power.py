"""Jobs that wait for an idle machine or for mains: found out only while somebody waits, and lost before the claim;
`test_stop_when_lost` has what runs then.

`machines.told` takes the place of the sources, so that idleness is what editors say, on the manual clock.
"""

from pathlib import Path

import pytest

from tests.engine.machines import BOTH, IDLE, IDLE_MS, POWER, ProbeCounts, type_something, use_fake_sources
from tests.engine.manual_time import fire_only
from tests.engine.stream import types_of
from tests.harness import START, Harness, ManualClock, daemon


async def test_a_job_starts_when_nobody_has_typed_for_idle_ms(desk: Harness) -> None:
    use_fake_sources(desk)
    job_id = (await desk.enqueue(schedule=IDLE))["job_id"]
    await type_something(desk)
    await desk.advance(10_000)
    await type_something(desk, "emacs")
    await desk.advance(IDLE_MS - 1)
    assert await desk.state(job_id) == "SCHEDULED"
    await desk.advance(1)
    assert (await desk.job(job_id))["started_at"] == START + 10_000 + IDLE_MS


async def test_of_several_editors_the_one_last_typed_in_counts(desk: Harness) -> None:
    use_fake_sources(desk)
    job_id = (await desk.enqueue(schedule=IDLE))["job_id"]
    for source in ("nvim", "emacs", "nvim"):
        await type_something(desk, source)
        await desk.advance(7000)
    await desk.advance(IDLE_MS - 7000 - 1)
    assert await desk.state(job_id) == "SCHEDULED"
    await desk.advance(1)
    assert await desk.state(job_id) == "DONE"


async def test_nobody_can_tell_is_not_idle(desk: Harness) -> None:
    machine = use_fake_sources(desk, mains=None)
    ids = [(await desk.enqueue(schedule=schedule))["job_id"] for schedule in (IDLE, POWER, BOTH)]
    await desk.advance(3 * IDLE_MS)
    assert {await desk.state(job_id) for job_id in ids} == {"SCHEDULED"}
    assert machine.asked["idle"] > 1
    why = await desk.call("job.explain", job_id=ids[0])
    assert [reason["kind"] for reason in why["reasons"]] == ["idle"]
    assert why["summary"].startswith("not known to be idle: there is a display")
    assert why["estimated_start_at"] is None


async def test_a_time_that_suspend_took_counts_as_idle(desk: Harness) -> None:
    """Nobody has typed in it; and it is noticed within 5 s of waking."""
    use_fake_sources(desk)
    job_id = (await desk.enqueue(schedule=IDLE))["job_id"]
    await type_something(desk)
    await desk.advance(1)
    assert isinstance(desk.clock, ManualClock)
    desk.clock.suspend(IDLE_MS)
    await desk.advance(5000)
    assert await desk.state(job_id) == "DONE"


async def test_a_clock_that_is_set_makes_nobody_idle(desk: Harness) -> None:
    use_fake_sources(desk)
    job_id = (await desk.enqueue(schedule=IDLE))["job_id"]
    await type_something(desk)
    assert isinstance(desk.clock, ManualClock)
    desk.clock.step(10 * IDLE_MS)
    await desk.advance(IDLE_MS - 1)
    assert await desk.state(job_id) == "SCHEDULED"
    await desk.advance(1001)
    assert await desk.state(job_id) == "DONE"


async def test_mains_are_noticed_within_five_seconds(desk: Harness) -> None:
    machine = use_fake_sources(desk, mains=False)
    job_id = (await desk.enqueue(schedule=POWER))["job_id"]
    await desk.advance(12_000)
    assert await desk.state(job_id) == "SCHEDULED"
    machine.mains = True
    await desk.advance(5000)
    assert await desk.state(job_id) == "DONE"


async def test_idleness_lost_before_the_claim_puts_the_job_back_to_wait(desk: Harness) -> None:
    use_fake_sources(desk)
    await desk.call("queue.pause", queue="q")
    job_id = (await desk.enqueue(queue="q", schedule=IDLE, ttl_ms=90_000))["job_id"]
    await type_something(desk)
    await desk.advance(IDLE_MS)
    assert await desk.state(job_id) == "QUEUED"
    await type_something(desk)
    job = await desk.job(job_id)
    assert (job["state"], job["expires_at"], job["attempts"]) == ("SCHEDULED", None, 0)
    await desk.call("queue.resume", queue="q")
    await desk.advance(IDLE_MS - 1)
    assert await desk.state(job_id) == "SCHEDULED"
    await desk.advance(1)
    assert (await desk.job(job_id))["started_at"] == START + 2 * IDLE_MS
    kinds = ["job.scheduled", "job.queued", "job.scheduled", "job.queued", "job.started", "job.done"]
    assert await types_of(desk, job_id) == kinds


async def test_power_lost_before_the_claim_puts_the_job_back_to_wait(desk: Harness) -> None:
    machine = use_fake_sources(desk, mains=True)
    await desk.call("queue.pause", queue="q")
    ids = [(await desk.enqueue(queue="q", schedule=schedule))["job_id"] for schedule in (POWER, BOTH)]
    await type_something(desk)
    await desk.advance(IDLE_MS)
    assert {await desk.state(job_id) for job_id in ids} == {"QUEUED"}
    machine.mains = False
    await desk.advance(5000)
    assert {await desk.state(job_id) for job_id in ids} == {"SCHEDULED"}
    await desk.call("queue.resume", queue="q")
    await desk.advance(IDLE_MS)
    assert {await desk.state(job_id) for job_id in ids} == {"SCHEDULED"}
    machine.mains = True
    await desk.advance(5000)
    assert {await desk.state(job_id) for job_id in ids} == {"DONE"}


async def test_many_that_wait_in_a_queue_all_go_back(desk: Harness) -> None:
    """More than are taken at a time; and who needs nothing stays."""
    use_fake_sources(desk)
    await desk.call("queue.pause")
    specs = [{"job_type": "semantica.noop", "schedule": IDLE}] * 450 + [{"job_type": "semantica.noop"}]
    acks = (await desk.call("job.enqueue_many", jobs=specs))["jobs"]
    await type_something(desk)
    await desk.advance(IDLE_MS)
    stats = (await desk.call("admin.stats"))["queues"][0]
    assert (stats["queued"], stats["scheduled"]) == (451, 0)
    await type_something(desk)
    stats = (await desk.call("admin.stats"))["queues"][0]
    assert (stats["queued"], stats["scheduled"]) == (1, 450)
    assert await desk.state(acks[-1]["job_id"]) == "QUEUED"


@pytest.mark.parametrize(("idle", "power"), [("always", "mains"), ("never", "battery")])
async def test_the_config_has_the_last_word(home: Path, idle: str, power: str) -> None:
    text = f'[machine]\nidle = "{idle}"\npower = "{power}"\n'
    async with daemon(home, ManualClock(), text) as harness:
        machine = use_fake_sources(harness, mains=power != "mains")
        await type_something(harness)
        ids = [(await harness.enqueue(schedule=schedule))["job_id"] for schedule in (IDLE, POWER, BOTH)]
        await harness.advance(20_000)
        met = idle == "always"
        assert {await harness.state(job_id) for job_id in ids} == {"DONE" if met else "SCHEDULED"}
        assert machine.asked == {}
        found = await harness.call("machine.get")
        assert (found["idle"], found["idle_source"], found["watching"]) == (met, "config", [])
        assert (found["charging"], found["power_source"]) == (met, "config")
        if not met:
            why = await harness.call("job.explain", job_id=ids[2])
            assert [reason["kind"] for reason in why["reasons"]] == ["idle", "power"]
            assert 'idle = "never"' in why["summary"]
            assert 'power = "battery"' in why["summary"]


async def test_nobody_is_asked_while_nobody_waits(desk: Harness) -> None:
    """Neither for jobs that are not due, nor for those whose event has not come, nor when all are done."""
    machine = use_fake_sources(desk, mains=True)
    asked = ProbeCounts(desk, machine)
    assert await asked.during(30_000) == (0, 0)
    far = (await desk.enqueue(schedule={"type": "AFTER", "delay_ms": 30_000, "wait_for_idle": True}))["job_id"]
    unmet = (await desk.enqueue(schedule={**BOTH, "wait_for_event": "e"}))["job_id"]
    assert await asked.during(29_999) == (0, 0)
    assert (await asked.during(30_000))[0] > 0
    assert await desk.state(far) == "SCHEDULED"
    await desk.call("job.cancel", job_id=far)
    assert await asked.during(30_000) == (0, 0)
    await desk.call("event.emit", key="e")
    idle, power = await asked.during(30_000)
    assert idle > 0
    assert 5 <= power <= 7
    await type_something(desk)
    await desk.advance(IDLE_MS)
    assert await desk.state(unmet) == "DONE"
    assert await asked.during(30_000) == (0, 0)
    assert (await desk.call("machine.get"))["watching"] == []


async def test_who_has_just_typed_need_not_be_asked_before_idle_ms_are_over(desk: Harness) -> None:
    """What an editor says is enough until then: no other source is woken for it, and no commit is made."""
    machine = use_fake_sources(desk)
    await desk.enqueue(schedule=IDLE)
    await type_something(desk)
    await desk.advance(3000)
    await fire_only(desk, 1000)  # the commit of the settling is synced
    machine.asked.clear()
    assert await fire_only(desk, 15_000) == 3
    assert machine.asked == {}


async def test_who_was_asked_is_let_go_when_nobody_waits_any_more(desk: Harness) -> None:
    machine = use_fake_sources(desk)
    await type_something(desk)
    job_id = (await desk.enqueue(schedule=IDLE))["job_id"]
    await desk.settle()
    machine.let_go = 0
    await desk.advance(IDLE_MS + 10_000)
    assert await desk.state(job_id) == "DONE"
    assert machine.let_go == 1
