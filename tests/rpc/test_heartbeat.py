"""job.queue_heartbeat: who watches a waiting job hears every 10 s why it waits; it is sent, and stored nowhere."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.engine.sample_handlers import doors
from tests.harness import START, Client, Harness, ManualClock
from tests.rpc.wire import stored

BEAT_MS = 10_000
FIELDS = {
    "subscription_id", "job_id", "state", "queue_position", "estimated_start_at", "estimated_wait_ms", "reason",
    "reasons", "claim_attempts",
}  # fmt: skip
WAITS = {"type": "CONDITION", "wait_for_event": "git:commit"}


async def next_told(client: Client) -> tuple[str, dict[str, Any]]:
    message = await asyncio.wait_for(client.notifications.get(), 40)
    return message["method"], message["params"]


async def beat(harness: Harness, client: Client) -> dict[str, Any]:
    """Ten seconds later: exactly one, and it is the next thing that is told."""
    await harness.advance(BEAT_MS)
    method, params = await next_told(client)
    assert method == "job.queue_heartbeat"
    assert set(params) >= FIELDS
    return params


async def watching(harness: Harness, job_id: str, **filters: Any) -> tuple[Client, str]:
    """A connection of its own that watches the job from now on."""
    client = await harness.client()
    told = await client.call("event.subscribe", job_id=job_id, **filters)
    return client, told["subscription_id"]


async def silent_until_the_next_event(harness: Harness, client: Client, ms: int) -> None:
    """Whatever a subscription has to say comes in order: so an event that is next had nothing before it."""
    await harness.advance(ms)
    await harness.call("event.emit", key="now")
    method, params = await next_told(client)
    assert (method, params["events"][0]["event_type"]) == ("event", "job.log")


async def test_every_ten_seconds_while_it_is_scheduled(desk: Harness) -> None:
    job_id = (await desk.enqueue(schedule=WAITS))["job_id"]
    client, subscription_id = await watching(desk, job_id)
    await desk.advance(BEAT_MS - 1)
    assert client.notifications.empty()
    await desk.advance(1)
    method, params = await next_told(client)
    assert (method, params["subscription_id"], params["job_id"]) == ("job.queue_heartbeat", subscription_id, job_id)
    assert (params["state"], params["queue_position"], params["claim_attempts"]) == ("SCHEDULED", None, 0)
    assert (params["reason"], [one["kind"] for one in params["reasons"]]) == (
        "event git:commit has not been emitted yet",
        ["event"],
    )
    assert (params["estimated_start_at"], params["estimated_wait_ms"]) == (None, None)
    for _ in range(3):
        assert (await beat(desk, client))["reason"] == "event git:commit has not been emitted yet"
    assert client.notifications.empty()


async def test_every_ten_seconds_while_it_is_queued(desk: Harness) -> None:
    """What it says is how things are then, not how they were."""
    await desk.call("queue.pause", queue="build", resume_after_ms=35_000)
    first = (await desk.enqueue(queue="build"))["job_id"]
    job_id = (await desk.enqueue(queue="build"))["job_id"]
    client, _ = await watching(desk, job_id)
    told = await beat(desk, client)
    assert (told["state"], told["queue_position"]) == ("QUEUED", 1)
    assert (told["estimated_start_at"], told["estimated_wait_ms"]) == (START + 35_000, 25_000)
    assert {one["kind"] for one in told["reasons"]} == {"paused", "ahead"}
    await desk.call("job.cancel", job_id=first)
    told = await beat(desk, client)
    assert (told["queue_position"], told["estimated_wait_ms"]) == (0, 15_000)


async def test_none_once_it_runs_and_again_when_it_waits_for_its_next_attempt(desk: Harness) -> None:
    spec = {"timeout_ms": 60_000, "max_attempts": 2, "backoff_base_ms": 60_000}
    job_id = (await desk.enqueue("hold", payload={"door": "a"}, schedule=WAITS, **spec))["job_id"]
    client, _ = await watching(desk, job_id)
    await beat(desk, client)
    await desk.call("event.emit", key="git:commit")
    await desk.advance(59_000)
    assert await desk.state(job_id) == "RUNNING"
    await desk.advance(1000)
    kinds: list[str] = []
    while "job.retrying" not in kinds:
        method, params = await next_told(client)
        assert method == "event", params
        kinds += [one["event_type"] for one in params["events"]]
    assert kinds == ["job.log", "job.queued", "job.started", "job.retrying"]
    await desk.advance(BEAT_MS)
    method, params = await next_told(client)
    assert (method, [one["kind"] for one in params["reasons"]]) == ("job.queue_heartbeat", ["retry"])


async def test_so_it_does_for_who_hears_only_of_the_end(desk: Harness) -> None:
    """Its filter leaves out the very events that tell of the run and of the next wait."""
    spec = {"timeout_ms": 35_000, "max_attempts": 2, "backoff_base_ms": 60_000}
    job_id = (await desk.enqueue("hold", payload={"door": "a"}, **spec))["job_id"]
    await desk.settle()
    client, _ = await watching(desk, job_id, event_types=["job.done"])
    await desk.advance(35_000)
    assert (await desk.state(job_id), client.notifications.empty()) == ("SCHEDULED", True)
    assert [one["kind"] for one in (await beat(desk, client))["reasons"]] == ["retry"]


@pytest.mark.parametrize("end", ["cancelled", "done"])
async def test_it_ends_with_the_job(desk: Harness, end: str) -> None:
    """And costs nothing afterwards, though the subscription is still there."""
    job_id = (await desk.enqueue(schedule=WAITS))["job_id"]
    client, _ = await watching(desk, job_id)
    await beat(desk, client)
    await (desk.call("job.cancel", job_id=job_id) if end == "cancelled" else desk.call("event.emit", key="git:commit"))
    await desk.advance(6 * BEAT_MS)
    told = []
    while not client.notifications.empty():
        told.append(await next_told(client))
    assert {method for method, _ in told} == {"event"}
    assert isinstance(desk.clock, ManualClock)
    await desk.advance(5000)
    live = [at for at, number, _ in desk.clock._timers if number not in desk.clock._cancelled]
    assert len([at for at in live if at > desk.clock._now]) <= 2  # the socket, and a commit that is to be synced


async def test_it_is_stored_nowhere(desk: Harness, home: Path) -> None:
    job_id = (await desk.enqueue(schedule=WAITS))["job_id"]
    clients = [await watching(desk, job_id) for _ in range(3)]
    await desk.settle()
    before, job = stored(home), await desk.job(job_id)
    for _ in range(3):
        await desk.advance(BEAT_MS)
        for client, _ in clients:
            assert (await next_told(client))[0] == "job.queue_heartbeat"
    assert (stored(home), await desk.job(job_id)) == (before, job)
    client, _ = clients[0]
    replay = await client.call("event.list", job_id=job_id)
    assert [one["event_type"] for one in replay["events"]] == ["job.scheduled"]


async def test_one_for_each_subscription(desk: Harness) -> None:
    """Of one connection as of many; and none for a subscription that names no job."""
    job_id = (await desk.enqueue(schedule=WAITS, queue="q", user_tag="t"))["job_id"]
    client, first = await watching(desk, job_id)
    second = (await client.call("event.subscribe", job_id=job_id, event_types=["job.done"]))["subscription_id"]
    for filters in ({}, {"queue": "q"}, {"user_tag": "t"}):
        await client.call("event.subscribe", **filters)
    await desk.advance(BEAT_MS)
    told = [await next_told(client) for _ in range(2)]
    assert {method for method, _ in told} == {"job.queue_heartbeat"}
    assert {params["subscription_id"] for _, params in told} == {first, second}
    await client.call("event.unsubscribe", subscription_id=first)
    assert (await beat(desk, client))["subscription_id"] == second
    assert client.notifications.empty()


async def test_who_comes_later_has_ten_seconds_of_its_own(desk: Harness) -> None:
    job_id = (await desk.enqueue(schedule=WAITS))["job_id"]
    first, _ = await watching(desk, job_id)
    await desk.advance(7000)
    second, _ = await watching(desk, job_id)
    await desk.advance(3000)
    assert (await next_told(first))[0] == "job.queue_heartbeat"
    assert second.notifications.empty()
    await desk.advance(7000)
    assert (await next_told(second))[0] == "job.queue_heartbeat"
    assert first.notifications.empty()


async def test_a_job_that_never_waits_gets_none(desk: Harness) -> None:
    wants = {"type": "CONDITION", "wait_for_event": "now"}
    other = (await desk.enqueue(schedule=wants))["job_id"]
    job_id = (await desk.enqueue("hold", payload={"door": "a"}))["job_id"]
    await desk.settle()
    client, _ = await watching(desk, job_id)
    await desk.advance(3 * BEAT_MS)
    doors["a"].open.set()
    method, params = await next_told(client)
    assert (method, params["events"][0]["event_type"]) == ("event", "job.done")
    assert await desk.state(other) == "SCHEDULED"


@pytest.mark.parametrize("step", [-86_400_000, 86_400_000])
async def test_a_clock_that_is_set_changes_nothing_about_it(desk: Harness, step: int) -> None:
    job_id = (await desk.enqueue(schedule=WAITS))["job_id"]
    client, _ = await watching(desk, job_id)
    await beat(desk, client)
    await desk.advance(4000)
    assert isinstance(desk.clock, ManualClock)
    desk.clock.step(step)
    await desk.advance(6000)
    assert (await next_told(client))[0] == "job.queue_heartbeat"
    for _ in range(2):
        await beat(desk, client)
    assert client.notifications.empty()


async def test_events_go_on_between_the_beats(desk: Harness) -> None:
    wants = {"type": "CONDITION", "wait_for_event": "now", "conditions": {"a": "1"}}
    job_id = (await desk.enqueue(schedule=wants))["job_id"]
    client, _ = await watching(desk, job_id)
    await silent_until_the_next_event(desk, client, BEAT_MS - 1)
    await desk.advance(1)
    assert (await next_told(client))[0] == "job.queue_heartbeat"
