"""AT, AFTER and CONDITION together: a job starts when the last of them is met, and what has come stays.

Idleness and power by themselves are in `test_idle_and_power`.
"""

from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.engine.machines import FakeSources, use_fake_sources
from tests.engine.sample_handlers import Door
from tests.engine.stream import events, types_of
from tests.harness import START, Harness, ManualClock, daemon

STEP_MS = 10_000
THINGS = ("at", "after", "idle", "power", "event", "condition")
COMBINATIONS = [set(some) for size in range(1, 7) for some in combinations(THINGS, size)]
ORDERS = [order[turn:] + order[:turn] for order in (THINGS, THINGS[::-1]) for turn in range(6)]


def spec_of(wanted: set[str], order: tuple[str, ...]) -> dict[str, Any]:
    """A schedule that wants these things, of which the n-th of `order` is met at the end of the n-th step."""
    met_after = {thing: (order.index(thing) + 1) * STEP_MS for thing in THINGS}
    fields: dict[str, Any] = {
        "at": {"scheduled_at": START + met_after["at"]},
        "after": {"delay_ms": met_after["after"]},
        "idle": {"wait_for_idle": True},
        "power": {"require_charging": True},
        "event": {"wait_for_event": "git:commit"},
        "condition": {"conditions": {"branch": "main"}},
    }
    kind = "AT" if "at" in wanted else "AFTER" if "after" in wanted else "CONDITION"
    return {"type": kind} | {key: value for thing in wanted for key, value in fields[thing].items()}


async def meet(harness: Harness, machine: FakeSources, thing: str) -> None:
    """Time and idleness come by themselves."""
    if thing == "power":
        machine.mains = True
    elif thing == "event":
        await harness.call("event.emit", key="git:commit", value="abc")
    elif thing == "condition":
        await harness.call("event.emit", key="branch", value="main")
    await harness.advance(STEP_MS)


async def states(harness: Harness) -> dict[str, str]:
    listed = await harness.call("job.list", limit=200)
    return {job["job_id"]: job["state"] for job in listed["items"]}


def test_every_combination_is_there_and_each_thing_is_once_the_last() -> None:
    assert len(COMBINATIONS) == 2**6 - 1
    assert {order[-1] for order in ORDERS} == set(THINGS)


@pytest.mark.parametrize("order", ORDERS, ids=["-".join(order) for order in ORDERS])
async def test_a_job_starts_when_the_last_thing_that_it_waits_for_is_met(home: Path, order: tuple[str, ...]) -> None:
    idle_ms = (order.index("idle") + 1) * STEP_MS
    async with daemon(home, ManualClock(), f"[daemon]\nmax_slots = 2\n[machine]\nidle_ms = {idle_ms}\n") as harness:
        machine = use_fake_sources(harness)
        await harness.call("machine.activity", source="editor")
        specs = [{"job_type": "semantica.noop", "schedule": spec_of(wanted, order)} for wanted in COMBINATIONS]
        acks = (await harness.call("job.enqueue_many", jobs=specs))["jobs"]
        wants = {ack["job_id"]: wanted for ack, wanted in zip(acks, COMBINATIONS, strict=True)}
        met: set[str] = set()
        for thing in order:
            found = await states(harness)
            assert found == {job_id: "DONE" if wanted <= met else "SCHEDULED" for job_id, wanted in wants.items()}
            await meet(harness, machine, thing)
            met.add(thing)
        assert set((await states(harness)).values()) == {"DONE"}


async def test_of_two_times_the_later_one_counts(manual: Harness) -> None:
    early, late = {"scheduled_at": START + 1000, "delay_ms": 5000}, {"scheduled_at": START + 5000, "delay_ms": 1000}
    specs: list[dict[str, Any]] = [{"type": kind, **times} for kind in ("AT", "AFTER") for times in (early, late)]
    ids = [(await manual.enqueue(schedule=spec))["job_id"] for spec in specs]
    await manual.advance(4999)
    assert {await manual.state(job_id) for job_id in ids} == {"SCHEDULED"}
    await manual.advance(1)
    assert [(await manual.job(job_id))["started_at"] for job_id in ids] == [START + 5000] * 4


async def test_an_event_counts_from_the_jobs_creation_on_never_backwards(manual: Harness) -> None:
    assert (await manual.call("event.emit", key="e", value="v"))["matched"] == []
    waits: list[dict[str, Any]] = [{"wait_for_event": "e"}, {"conditions": {"e": "v"}}]
    ids = [(await manual.enqueue(schedule={"type": "CONDITION", **wait}))["job_id"] for wait in waits]
    await manual.advance(60_000)
    assert {await manual.state(job_id) for job_id in ids} == {"SCHEDULED"}
    assert set((await manual.call("event.emit", key="e", value="v"))["matched"]) == set(ids)
    await manual.settle()
    assert {await manual.state(job_id) for job_id in ids} == {"DONE"}


@pytest.mark.parametrize("said", [{"key": "e"}, {"key": "e", "value": ""}, {"key": "e", "value": "anything"}])
async def test_wait_for_event_goes_by_the_key_alone(manual: Harness, said: dict[str, str]) -> None:
    job_id = (await manual.enqueue(schedule={"type": "CONDITION", "wait_for_event": "e"}))["job_id"]
    for other in ("E", "e ", "e2", "f"):
        assert (await manual.call("event.emit", key=other, value="e"))["matched"] == []
    assert (await manual.call("event.emit", **said))["matched"] == [job_id]
    await manual.settle()
    assert await manual.state(job_id) == "DONE"


async def test_a_condition_goes_by_key_and_value(manual: Harness) -> None:
    wanted = {"branch": "main", "tests": "green"}
    job_id = (await manual.enqueue(schedule={"type": "CONDITION", "conditions": wanted}))["job_id"]
    for said in ({}, {"value": "Main"}, {"value": ""}, {"value": "green"}):
        assert (await manual.call("event.emit", key="branch", **said))["matched"] == []
    await manual.advance(1000)
    assert (await manual.call("event.emit", key="branch", value="main"))["matched"] == [job_id]
    await manual.advance(1000)
    assert (await manual.call("event.emit", key="branch", value="main"))["matched"] == []
    job = await manual.job(job_id)
    assert (job["state"], job["conditions"]) == (
        "SCHEDULED",
        [
            {"key": "branch", "value": "main", "met_at": START + 1000},
            {"key": "tests", "value": "green", "met_at": None},
        ],
    )
    assert (await manual.call("event.emit", key="tests", value="green"))["matched"] == [job_id]
    await manual.settle()
    job = await manual.job(job_id)
    assert (job["state"], job["started_at"]) == ("DONE", START + 2000)
    assert [one["met_at"] for one in job["conditions"]] == [START + 1000, START + 2000]


async def test_one_event_may_be_both_the_event_and_the_condition(manual: Harness) -> None:
    wants = {"type": "CONDITION", "wait_for_event": "e", "conditions": {"e": "v"}}
    job_id = (await manual.enqueue(schedule=wants))["job_id"]
    assert (await manual.call("event.emit", key="e"))["matched"] == [job_id]
    assert (await manual.call("event.emit", key="e"))["matched"] == []
    await manual.settle()
    assert await manual.state(job_id) == "SCHEDULED"
    assert (await manual.call("event.emit", key="e", value="v"))["matched"] == [job_id]
    other = (await manual.enqueue(schedule=wants))["job_id"]
    assert (await manual.call("event.emit", key="e", value="v"))["matched"] == [other]
    await manual.settle()
    assert {await manual.state(one) for one in (job_id, other)} == {"DONE"}


async def test_what_has_come_stays_across_restarts(home: Path) -> None:
    """Event, conditions, and the rest of a delay; the clock goes on while no daemon runs."""
    clock = ManualClock()
    wants = {"type": "AFTER", "delay_ms": 60_000, "wait_for_event": "e", "conditions": {"a": "1", "b": "2"}}
    async with daemon(home, clock) as harness:
        job_id = (await harness.enqueue(schedule=wants))["job_id"]
        await harness.advance(1000)
        assert (await harness.call("event.emit", key="e"))["matched"] == [job_id]
    async with daemon(home, clock) as harness:
        assert (await harness.job(job_id))["event_met_at"] == START + 1000
        assert (await harness.call("event.emit", key="e"))["matched"] == []
        assert (await harness.call("event.emit", key="a", value="1"))["matched"] == [job_id]
    clock.suspend(90_000)
    async with daemon(home, clock) as harness:
        await harness.settle()
        job = await harness.job(job_id)
        assert (job["state"], [one["met_at"] for one in job["conditions"]]) == ("SCHEDULED", [START + 1000, None])
        assert (await harness.call("event.emit", key="b", value="2"))["matched"] == [job_id]
        await harness.settle()
        assert await harness.state(job_id) == "DONE"
        assert (await types_of(harness, job_id)).count("job.log") == 3


async def test_what_all_was_met_before_a_restart_starts_after_it(home: Path) -> None:
    clock = ManualClock()
    wants = {"type": "AT", "scheduled_at": START + 60_000, "wait_for_event": "e"}
    async with daemon(home, clock) as harness:
        job_id = (await harness.enqueue(schedule=wants))["job_id"]
        await harness.call("event.emit", key="e")
    clock.suspend(60_000)
    async with daemon(home, clock) as harness:
        await harness.settle()
        assert await harness.state(job_id) == "DONE"


async def test_a_retry_does_not_wait_for_the_event_again(timed: Harness) -> None:
    wants = {"type": "CONDITION", "wait_for_event": "e", "conditions": {"a": "1"}}
    spec = {"payload": {"how": "plain"}, "max_attempts": 2, "schedule": wants}
    job_id = (await timed.enqueue("fail_async", **spec))["job_id"]
    await timed.call("event.emit", key="e")
    await timed.call("event.emit", key="a", value="1")
    await timed.advance(1100)
    job = await timed.job(job_id)
    assert (job["state"], job["attempts"]) == ("FAILED", 2)
    assert len(await events(timed, "job.started", job_id=job_id)) == 2


@pytest.mark.parametrize("end", ["cancelled", "superseded", "deadline"])
async def test_who_has_ended_is_not_matched_any_more(manual: Harness, end: str) -> None:
    wants = {"type": "CONDITION", "wait_for_event": "e", "conditions": {"a": "1"}}
    spec: dict[str, Any] = {
        "subject_key": "s",
        "schedule": wants,
        "deadline": START + 1000 if end == "deadline" else None,
    }
    job_id = (await manual.enqueue(**spec))["job_id"]
    if end == "cancelled":
        await manual.call("job.cancel", job_id=job_id)
    elif end == "superseded":
        await manual.enqueue(subject_key="s")
    await manual.advance(1000)
    ended = await manual.job(job_id)
    assert ended["finished_at"] is not None
    for said in ({"key": "e"}, {"key": "a", "value": "1"}):
        assert (await manual.call("event.emit", **said))["matched"] == []
    await manual.settle()
    after = await manual.job(job_id)
    assert (after["state"], after["event_met_at"], after["conditions"][0]["met_at"]) == (ended["state"], None, None)


async def test_a_lane_that_waits_is_superseded_and_the_newest_wants_the_event_anew(manual: Harness) -> None:
    """What the old one had been told is not the new one's."""
    wants = {"type": "CONDITION", "wait_for_event": "e", "conditions": {"a": "1"}}
    old = (await manual.enqueue(subject_key="s", schedule=wants))["job_id"]
    await manual.call("event.emit", key="e")
    new = await manual.enqueue(subject_key="s", schedule=wants)
    assert new["superseded"] == [old]
    assert (await manual.call("event.emit", key="a", value="1"))["matched"] == [new["job_id"]]
    await manual.settle()
    assert [await manual.state(one) for one in (old, new["job_id"])] == ["SUPERSEDED", "SCHEDULED"]


async def test_who_waits_stands_in_nobodys_way(timed: Harness, door: Callable[[str], Door]) -> None:
    """A hundred jobs that wait for something, of the highest priority: the one that is ready starts."""
    wants = {"type": "CONDITION", "wait_for_event": "never", "wait_for_idle": True}
    spec = {"job_type": "semantica.noop", "priority": 100, "schedule": wants}
    await timed.call("job.enqueue_many", jobs=[spec] * 100)
    job_id = (await timed.enqueue(priority=-100))["job_id"]
    await timed.settle()
    assert await timed.state(job_id) == "DONE"
