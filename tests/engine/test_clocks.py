"""The wall clock set back a day or forward ten years, and eight hours of suspend: delays keep their length, times of
the day go by the clock on the wall, and it is noticed within 5 s also when nothing else happens.

What schedules make of it is in `test_schedules`.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.engine import sample_handlers
from tests.engine.crashes import POINTS, crash
from tests.engine.manual_time import after_the_last_sync, fire_only, leap
from tests.engine.sample_handlers import Door
from tests.engine.schedules import DAY, HOUR, MINUTE
from tests.engine.stream import events
from tests.harness import START, Harness, ManualClock, daemon

TEN_YEARS = 3652 * DAY
STEPS = {"back a day": -DAY, "forward ten years": TEN_YEARS}
BACK = {name: step for name, step in STEPS.items() if step < 0}
NOTICED_MS = 5000
Doors = Callable[[str], Door]


def clock_of(harness: Harness) -> ManualClock:
    assert isinstance(harness.clock, ManualClock)
    return harness.clock


class Delays:
    """One of each thing that takes a minute from now."""

    WAITING = ("SCHEDULED", "SCHEDULED", "SCHEDULED", "QUEUED", "QUEUED")
    OVER = ("DONE", "FAILED", "DONE", "SKIPPED_TTL", "DONE")

    def __init__(self, ids: list[str], backoff_ms: int) -> None:
        self.ids = ids
        self.longest_ms = max(MINUTE, backoff_ms)
        self.shortest_ms = min(MINUTE, backoff_ms)

    @classmethod
    async def begun(cls, harness: Harness) -> "Delays":
        retry = {"payload": {"how": "plain"}, "max_attempts": 2, "backoff_base_ms": MINUTE}
        await harness.call("queue.pause", queue="paused")
        await harness.call("queue.pause", queue="resumes", resume_after_ms=MINUTE)
        acks = [
            await harness.enqueue(schedule={"type": "AFTER", "delay_ms": MINUTE}),
            await harness.enqueue("fail_async", **retry),
            await harness.enqueue(subject_key="s", debounce_ms=MINUTE),
            await harness.enqueue(queue="paused", ttl_ms=MINUTE),
            await harness.enqueue(queue="resumes"),
        ]
        await harness.settle()
        backoff = (await harness.job(acks[1]["job_id"]))["scheduled_at"] - harness.clock.now()
        return cls([ack["job_id"] for ack in acks], backoff)

    async def states(self, harness: Harness) -> tuple[str, ...]:
        return tuple([await harness.state(job_id) for job_id in self.ids])


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
async def test_delays_keep_their_length_when_the_clock_is_set(timed: Harness, step: int) -> None:
    """AFTER, backoff, debounce, TTL, and a pause."""
    delays = await Delays.begun(timed)
    await timed.advance(20_000)
    clock_of(timed).step(step)
    await timed.advance(delays.shortest_ms - 20_000 - 1)
    assert await delays.states(timed) == Delays.WAITING
    await timed.advance(1 + delays.longest_ms - delays.shortest_ms)
    assert await delays.states(timed) == Delays.OVER


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
async def test_so_they_do_when_it_is_set_twice_while_no_daemon_runs(home: Path, step: int) -> None:
    clock = ManualClock()
    async with daemon(home, clock, sample_handlers.config()) as harness:
        delays = await Delays.begun(harness)
        await harness.advance(10_000)
    clock.step(step)
    clock.step(30_000)
    async with daemon(home, clock, sample_handlers.config(), seed=1) as harness:
        await harness.advance(delays.shortest_ms - 10_000 - 1)
        assert await delays.states(harness) == Delays.WAITING
        await harness.advance(1 + delays.longest_ms - delays.shortest_ms)
        assert await delays.states(harness) == Delays.OVER
        (told_of,) = await events(harness, "daemon.clock_stepped")
        assert told_of["payload"]["step_ms"] == step + 30_000


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
async def test_a_crash_in_the_very_commit_that_notices_moves_them_once(home: Path, step: int, point: str) -> None:
    clock, ids = ManualClock(), []

    async def prepare(harness: Harness) -> None:
        ids.append((await harness.enqueue(schedule={"type": "AFTER", "delay_ms": MINUTE}))["job_id"])
        await harness.advance(2000)
        clock.step(step)

    await crash(home, clock, (point, 1), prepare, ms=NOTICED_MS)
    async with daemon(home, clock, seed=1) as harness:
        await harness.settle()
        left = (await harness.job(ids[0]))["scheduled_at"] - clock.now()
        assert left == START + MINUTE - clock._now
        await harness.advance(left - 1)
        assert await harness.state(ids[0]) == "SCHEDULED"
        await harness.advance(1)
        assert await harness.state(ids[0]) == "DONE"
        assert len(await events(harness, "daemon.clock_stepped")) == 1


async def test_eight_hours_of_suspend_count(timed: Harness) -> None:
    """All of them are over by then, and found so within 5 s; nobody has set the clock."""
    delays = await Delays.begun(timed)
    await timed.advance(20_000)
    clock_of(timed).suspend(8 * HOUR)
    await timed.advance(NOTICED_MS)
    assert await delays.states(timed) == Delays.OVER
    assert await events(timed, "daemon.clock_stepped") == []


async def test_suspend_counts_to_the_millisecond(timed: Harness) -> None:
    """Forty seconds of the minute, of which twenty were slept."""
    delays = await Delays.begun(timed)
    clock_of(timed).suspend(20_000)
    await timed.advance(delays.shortest_ms - 20_000 - 1)
    assert await delays.states(timed) == Delays.WAITING
    await timed.advance(1 + delays.longest_ms - delays.shortest_ms)
    assert await delays.states(timed) == Delays.OVER


class Times:
    """One of each thing that is to happen at an instant an hour from now."""

    WAITING = ("SCHEDULED", "QUEUED", "SCHEDULED")
    OVER = ("DONE", "SKIPPED_DEADLINE", "SKIPPED_DEADLINE")

    def __init__(self, ids: list[str]) -> None:
        self.ids = ids

    @classmethod
    async def begun(cls, harness: Harness) -> "Times":
        at = harness.clock.now() + HOUR
        await harness.call("queue.pause", queue="paused")
        acks = [
            await harness.enqueue(schedule={"type": "AT", "scheduled_at": at}),
            await harness.enqueue(queue="paused", deadline=at),
            await harness.enqueue(schedule={"type": "CONDITION", "wait_for_event": "never"}, deadline=at),
        ]
        return cls([ack["job_id"] for ack in acks])

    async def states(self, harness: Harness) -> tuple[str, ...]:
        return tuple([await harness.state(job_id) for job_id in self.ids])


@pytest.mark.parametrize("how", ["set forward", "suspended"])
async def test_times_that_were_passed_over_are_due_now(manual: Harness, how: str) -> None:
    """Nothing happens on the daemon meanwhile but its looks at the socket."""
    times = await Times.begun(manual)
    await after_the_last_sync(manual)
    clock = clock_of(manual)
    (clock.step if how == "set forward" else clock.suspend)(HOUR)
    await fire_only(manual, NOTICED_MS)
    async with asyncio.timeout(10):
        while await times.states(manual) != Times.OVER:
            pass


async def test_so_they_are_when_the_clock_is_set_while_no_daemon_runs(home: Path) -> None:
    clock = ManualClock()
    async with daemon(home, clock) as harness:
        times = await Times.begun(harness)
    clock.step(HOUR)
    async with daemon(home, clock, seed=1) as harness:
        await harness.settle()
        assert await times.states(harness) == Times.OVER


@pytest.mark.parametrize("step", BACK.values(), ids=BACK)
async def test_times_wait_for_the_clock_on_the_wall_to_show_them_again(manual: Harness, step: int) -> None:
    times = await Times.begun(manual)
    clock_of(manual).step(step)
    await leap(manual, HOUR - step - 1)
    assert await times.states(manual) == Times.WAITING
    await manual.advance(1)
    assert await times.states(manual) == Times.OVER
    job = await manual.job(times.ids[0])
    assert (job["started_at"], job["scheduled_at"]) == (START + HOUR, START + HOUR)


async def test_a_clock_that_is_only_disciplined_delays_nothing_and_makes_nothing_early(manual: Harness) -> None:
    """Less than a second is no step; but a time is not reached before the clock shows it."""
    at = (await manual.enqueue(schedule={"type": "AT", "scheduled_at": START + 10_000}))["job_id"]
    clock_of(manual).step(-900)
    await manual.advance(10_899)
    assert await manual.state(at) == "SCHEDULED"
    await manual.advance(1)
    assert (await manual.job(at))["started_at"] == START + 10_000
    assert await events(manual, "daemon.clock_stepped") == []


async def test_many_small_corrections_are_one_step_in_the_end(manual: Harness) -> None:
    after = (await manual.enqueue(schedule={"type": "AFTER", "delay_ms": MINUTE}))["job_id"]
    for _ in range(20):
        clock_of(manual).step(400)
        await manual.advance(1000)
    steps = [one["payload"]["step_ms"] for one in await events(manual, "daemon.clock_stepped")]
    assert sum(steps) >= 20 * 400 - 1000
    await manual.advance(MINUTE - 20_000 - 1001)
    assert await manual.state(after) == "SCHEDULED"


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
async def test_a_step_is_noticed_within_five_seconds_by_a_daemon_that_has_nothing_to_do(
    manual: Harness, step: int
) -> None:
    await manual.advance(7000)
    await after_the_last_sync(manual)
    at = manual.clock.now()
    clock_of(manual).step(step)
    await fire_only(manual, NOTICED_MS)
    async with asyncio.timeout(10):
        while not (found := await events(manual, "daemon.clock_stepped")):
            pass
    (noticed,) = found
    assert (noticed["payload"]["step_ms"], noticed["level"], noticed["job_id"]) == (step, "warn", None)
    assert noticed["timestamp_at"] <= at + step + NOTICED_MS


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
async def test_after_a_step_an_idle_daemon_is_as_idle_as_before(manual: Harness, step: int) -> None:
    clock_of(manual).step(step)
    await manual.advance(7000)
    await fire_only(manual, 1000)
    assert await fire_only(manual, MINUTE) == 12


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
async def test_no_mass_expiry_and_no_mass_start(manual: Harness, step: int) -> None:
    await manual.call("queue.pause")
    waits = {"job_type": "semantica.noop", "ttl_ms": 60_000}
    later = {"job_type": "semantica.noop", "schedule": {"type": "AFTER", "delay_ms": 60_000}}
    await manual.call("job.enqueue_many", jobs=[waits, later] * 300)
    clock_of(manual).step(step)
    await manual.advance(59_999)
    stats = (await manual.call("admin.stats"))["queues"][0]
    assert (stats["queued"], stats["scheduled"]) == (300, 300)
    (noticed,) = await events(manual, "daemon.clock_stepped")
    moved = noticed["payload"]["moved"]
    assert (moved["delays"], moved["ttls"]) == (300, 300)


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
async def test_an_idempotency_key_holds_as_long_as_it_was_to(manual: Harness, step: int) -> None:
    spec: dict[str, Any] = {"idempotency_key": "k", "idempotency_ttl_ms": 30_000}
    first = await manual.enqueue(**spec)
    clock_of(manual).step(step)
    await manual.advance(29_999)
    assert (await manual.enqueue(**spec))["job_id"] == first["job_id"]
    await manual.advance(1)
    assert (await manual.enqueue(**spec))["existing"] is False


@pytest.mark.parametrize("step", STEPS.values(), ids=STEPS)
async def test_debounce_and_max_wait_of_a_busy_lane_keep_their_length(manual: Harness, step: int) -> None:
    for number in range(10):
        if number == 5:
            clock_of(manual).step(step)
        ack = await manual.enqueue(subject_key="s", debounce_ms=1000, max_wait_ms=9050)
        assert ack["state"] == "SCHEDULED"
        await manual.advance(900)
    assert await events(manual, "job.started") == []
    await manual.advance(49)
    assert await events(manual, "job.started") == []
    await manual.advance(1)
    assert [one["job_id"] for one in await events(manual, "job.started")] == [ack["job_id"]]


async def at_its_door(harness: Harness, place: Door, **spec: Any) -> str:
    ack = await harness.enqueue("hold", payload={"door": "a"}, **spec)
    assert await asyncio.to_thread(place.entered.wait, 40)
    return str(ack["job_id"])


@pytest.mark.parametrize("ms", [*STEPS.values(), 8 * HOUR], ids=[*STEPS, "suspended"])
async def test_the_timeout_of_a_run_goes_by_the_monotonic_clock(timed: Harness, door: Doors, ms: int) -> None:
    """What the machine has slept the run has slept as well."""
    job_id = await at_its_door(timed, door("a"), timeout_ms=MINUTE)
    await timed.advance(20_000)
    (clock_of(timed).suspend if ms == 8 * HOUR else clock_of(timed).step)(ms)
    await timed.advance(39_999)
    assert await timed.state(job_id) == "RUNNING"
    await timed.advance(1)
    job = await timed.job(job_id)
    assert (job["state"], job["error"]["code"]) == ("FAILED", "E_TIMEOUT")


@pytest.mark.parametrize("how", ["set forward", "suspended"])
async def test_the_deadline_of_a_run_that_was_passed_over_ends_it_within_thirty_seconds(
    timed: Harness, door: Doors, how: str
) -> None:
    job_id = await at_its_door(timed, door("a"), deadline=START + HOUR, max_attempts=3)
    await timed.advance(20_000)
    (clock_of(timed).step if how == "set forward" else clock_of(timed).suspend)(HOUR)
    await timed.advance(30_000)
    job = await timed.job(job_id)
    assert (job["state"], job["error"]["code"], job["attempts"]) == ("FAILED", "E_DEADLINE", 1)


async def test_the_deadline_of_a_run_waits_for_the_clock_on_the_wall(timed: Harness, door: Doors) -> None:
    job_id = await at_its_door(timed, door("a"), deadline=START + MINUTE)
    clock_of(timed).step(-MINUTE)
    await timed.advance(2 * MINUTE - 1)
    assert await timed.state(job_id) == "RUNNING"
    await timed.advance(1)
    assert (await timed.job(job_id))["error"]["code"] == "E_DEADLINE"


async def test_what_is_due_after_a_suspend_is_not_late(manual: Harness) -> None:
    """Its timer was set before, and did not go on meanwhile: it is set anew within 5 s of waking."""
    at = START + 10 * HOUR
    job_id = (await manual.enqueue(schedule={"type": "AT", "scheduled_at": at}))["job_id"]
    await manual.settle()
    clock_of(manual).suspend(10 * HOUR - 20_000)
    await manual.advance(19_999)
    assert await manual.state(job_id) == "SCHEDULED"
    await manual.advance(1)
    assert (await manual.job(job_id))["started_at"] == at


async def test_what_is_asked_for_right_after_a_suspend_is_not_late(manual: Harness) -> None:
    """Before anybody has noticed: something else became due meanwhile, and its timer sleeps on."""
    await manual.enqueue(schedule={"type": "AFTER", "delay_ms": HOUR})
    await manual.settle()
    clock_of(manual).suspend(2 * HOUR)
    job_id = (await manual.enqueue(schedule={"type": "AFTER", "delay_ms": 1000}))["job_id"]
    await manual.advance(1000)
    assert (await manual.job(job_id))["started_at"] == START + 2 * HOUR + 1000
