"""event.emit over the socket: who is matched, what the stream says of it, and very many that wait for one key."""

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.engine.stream import events
from tests.harness import START, Harness, ManualClock, daemon
from tests.rpc.wire import rows


def waits_for(key: str, **conditions: str) -> dict[str, Any]:
    return {"type": "CONDITION", "wait_for_event": key, **({"conditions": conditions} if conditions else {})}


async def test_the_event_is_in_the_stream_also_when_nobody_waits_for_it(manual: Harness) -> None:
    client = await manual.client()
    await client.call("event.subscribe", event_types=["event.emitted"])
    assert await manual.call("event.emit", key="git:commit", value="abc") == {"matched": []}
    assert await manual.call("event.emit", key="bare") == {"matched": []}
    told = await client.events(2)
    assert [one["payload"] for one in told] == [{"key": "git:commit", "value": "abc"}, {"key": "bare", "value": None}]
    assert [(one["job_id"], one["timestamp_at"]) for one in told] == [(None, START)] * 2
    assert ["git:commit=abc" in told[0]["message"], "bare" in told[1]["message"]] == [True, True]


async def test_a_match_is_told_of_the_job_with_what_it_still_waits_for(manual: Harness) -> None:
    job_id = (await manual.enqueue(schedule=waits_for("e", a="1")))["job_id"]
    await manual.call("event.emit", key="e", value="x")
    await manual.call("event.emit", key="a", value="1")
    await manual.settle()
    logged = [one["payload"] for one in await events(manual, "job.log", job_id=job_id)]
    assert logged == [
        {"key": "e", "value": "x", "still_waits_for": 1},
        {"key": "a", "value": "1", "still_waits_for": 0},
    ]
    sequence = [one["job_sequence"] for one in await events(manual, job_id=job_id)]
    assert sequence == list(range(1, len(sequence) + 1))


async def test_keys_and_values_are_any_text(manual: Harness) -> None:
    pairs = [("ä b\n\"'=%_*", "x=y"), ("k" * 256, "v" * 1024), ("🎉", ""), ("a=b", "c"), ("a", "b=c")]
    ids = []
    for key, value in pairs:
        ids.append((await manual.enqueue(schedule={"type": "CONDITION", "conditions": {key: value}}))["job_id"])
    for job_id, (key, value) in zip(ids, pairs, strict=True):
        assert await manual.call("event.emit", key=key, value=value) == {"matched": [job_id]}
    await manual.settle()
    assert {await manual.state(job_id) for job_id in ids} == {"DONE"}


async def test_those_who_are_matched_start_in_the_order_in_which_they_came(home: Path) -> None:
    async with daemon(home, ManualClock(), "[daemon]\nmax_slots = 1\n") as harness:
        by_value = {"type": "CONDITION", "conditions": {"e": "v"}}
        specs = [{"job_type": "semantica.noop", "schedule": by_value if n % 3 else waits_for("e")} for n in range(200)]
        ids = [ack["job_id"] for ack in (await harness.call("job.enqueue_many", jobs=specs))["jobs"]]
        assert (await harness.call("event.emit", key="e", value="v"))["matched"] == ids
        await harness.advance(0)
        assert [one["job_id"] for one in await events(harness, "job.started")] == ids


@pytest.mark.parametrize("by", ["event", "condition"])
async def test_a_thousand_that_wait_for_one_key_are_all_latched_and_started_once(manual: Harness, by: str) -> None:
    schedule = waits_for("e") if by == "event" else {"type": "CONDITION", "conditions": {"e": "v"}}
    spec = {"job_type": "semantica.noop", "schedule": schedule}
    ids = {ack["job_id"] for ack in (await manual.call("job.enqueue_many", jobs=[spec] * 1000))["jobs"]}
    matched = (await manual.call("event.emit", key="e", value="v"))["matched"]
    assert (len(matched), set(matched)) == (1000, ids)
    await manual.advance(0)
    stats = (await manual.call("admin.stats"))["queues"][0]
    assert (stats["done"], stats["queued"], stats["scheduled"]) == (1000, 0, 0)
    starts = Counter(one["job_id"] for one in await events(manual, "job.started"))
    assert set(starts) == ids
    assert set(starts.values()) == {1}
    latches = Counter(one["job_id"] for one in await events(manual, "job.log"))
    assert set(latches.values()) == {1}
    assert len(await events(manual, "event.emitted")) == 1
    assert await manual.call("event.emit", key="e", value="v") == {"matched": []}


async def test_who_comes_while_an_event_is_worked_off_has_missed_it(manual: Harness) -> None:
    """It is worked off in parts; between two of them others are answered."""
    spec = {"job_type": "semantica.noop", "schedule": waits_for("e")}
    await manual.call("job.enqueue_many", jobs=[spec] * 1000)
    one, other = await manual.client(), await manual.client()
    emitted = one.send("event.emit", key="e")
    await one.writer.drain()
    late: list[str] = []
    while not one._replies[emitted].done():
        late.append((await other.call("job.enqueue", **spec))["job_id"])
    matched = set((await one.result(emitted))["matched"])
    states = {job_id: await manual.state(job_id) for job_id in late}
    began = (await events(manual, "event.emitted"))[0]["sequence"]
    arrived = {one["job_id"]: one["sequence"] for one in await events(manual, "job.scheduled")}
    for job_id in late:
        assert (job_id in matched) == (arrived[job_id] < began), states[job_id]
    assert len(matched) >= 1000


@pytest.mark.parametrize("how", ["cancelled", "gone"])
async def test_an_event_whose_caller_has_gone_is_worked_off_all_the_same(manual: Harness, home: Path, how: str) -> None:
    """A write that was begun is finished: half of those who wait would else wait for ever."""
    spec = {"job_type": "semantica.noop", "schedule": waits_for("e")}
    await manual.call("job.enqueue_many", jobs=[spec] * 1000)
    client = await manual.client()
    number = client.send("event.emit", key="e")
    await client.writer.drain()
    while not await events(manual, "event.emitted"):
        pass
    if how == "cancelled":
        client.send("$/cancelRequest", id=number)
        await client.writer.drain()
    else:
        await client.close()
    await manual.settle()
    assert rows(home, "SELECT count(met_at), sum(waiting) FROM job_conditions") == [(1000, 0)]


async def test_twenty_at_once_match_each_job_once(manual: Harness) -> None:
    spec = {"job_type": "semantica.noop", "schedule": waits_for("e")}
    await manual.call("job.enqueue_many", jobs=[spec] * 500)
    clients = [await manual.client() for _ in range(20)]
    answers = await asyncio.gather(*(client.call("event.emit", key="e") for client in clients))
    matched = Counter(job_id for answer in answers for job_id in answer["matched"])
    assert (len(matched), set(matched.values())) == (500, {1})


async def test_an_answered_event_is_stored_before_the_answer(manual: Harness, home: Path) -> None:
    job_id = (await manual.enqueue(schedule=waits_for("e", a="1")))["job_id"]
    await manual.call("event.emit", key="e")
    met = "SELECT met_at FROM job_conditions WHERE job_id = ? ORDER BY key"
    assert rows(home, met, job_id) == [(None,), (START,)]
    await manual.call("event.emit", key="a", value="1")
    assert rows(home, met, job_id) == [(START,), (START,)]
