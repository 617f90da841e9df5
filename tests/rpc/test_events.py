"""The stream: replay is live, filters, pages, resuming across a restart, and a gap for whatever cannot be kept.

Subscribers that do not read are in `test_slow_readers`.
"""

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Client, Harness, Process, RpcError, daemon

LONG = {"type": "AFTER", "delay_ms": 3_600_000}
CONFIG = '[daemon]\nmax_slots = 2\n[handlers]\nTALK = "tests.rpc.talk:talk"\n'


async def some_life(harness: Harness) -> list[str]:
    """A few jobs in two queues that end in several ways; their ids."""
    ids = [
        (await harness.enqueue(queue="one", user_tag="a"))["job_id"],
        (await harness.enqueue("semantica.echo", queue="two", user_tag="b", payload={"x": 1}))["job_id"],
    ]
    for job_id in ids:
        await harness.ended(job_id)
    ids.append((await harness.enqueue(queue="one", subject_key="s", schedule=LONG))["job_id"])
    ids.append((await harness.enqueue(queue="two", subject_key="s", schedule=LONG, user_tag="a"))["job_id"])
    await harness.call("job.cancel", job_id=ids[-1])
    await harness.call("queue.pause", queue="two")
    await harness.call("queue.resume", queue="two")
    await harness.settle()
    return ids


async def every_event(harness: Harness) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await harness.call("event.list", limit=1000))["events"]
    return found


async def events_so_far(client: Client, harness: Harness) -> list[dict[str, Any]]:
    """All events that have come: the last is a mark of our own, put behind them. Gaps are not expected here."""
    (mark,) = [job["job_id"] for job in (await harness.call("job.enqueue_many", jobs=[MARK]))["jobs"]]
    found: list[dict[str, Any]] = []
    while not (found and found[-1]["job_id"] == mark):
        found += await client.events(1)
    return found[:-1]


MARK = {"job_type": "semantica.noop", "schedule": LONG}


async def test_replay_and_live_tell_the_same_events(real: Harness) -> None:
    live = await real.client()
    await live.call("event.subscribe", since=0)
    await some_life(real)
    seen = await events_so_far(live, real)
    replay = await real.client()
    await replay.call("event.subscribe", since=0)
    again = await replay.events(len(seen))
    assert again[: len(seen)] == seen
    assert seen == (await every_event(real))[: len(seen)]
    assert [event["sequence"] for event in seen] == list(range(1, len(seen) + 1))


@pytest.mark.parametrize("since", [0, 1, 5, 9])
async def test_since_means_what_comes_after_it(real: Harness, since: int) -> None:
    await some_life(real)
    client = await real.client()
    answer = await client.call("event.subscribe", since=since)
    assert answer["sequence"] == since
    assert (await client.events(1))[0]["sequence"] == since + 1


async def test_without_since_a_subscription_begins_now(real: Harness) -> None:
    await some_life(real)
    client = await real.client()
    answer = await client.call("event.subscribe")
    assert answer["sequence"] == (await every_event(real))[-1]["sequence"]
    assert await events_so_far(client, real) == []


def chosen(events: list[dict[str, Any]], filters: dict[str, Any], ids: list[str]) -> list[int]:
    """The same choice by hand, from what each event says of itself and what we know of its job."""
    queues = dict(zip(ids, ("one", "two", "one", "two"), strict=True))
    tags = dict(zip(ids, ("a", "b", None, "a"), strict=True))
    rules: dict[str, Callable[[dict[str, Any], Any], bool]] = {
        "job_id": lambda event, value: event["job_id"] == value,
        "queue": lambda event, value: value in (queues.get(event["job_id"]), event["payload"].get("queue")),
        "user_tag": lambda event, value: tags.get(event["job_id"]) == value,
        "event_types": lambda event, value: event["event_type"] in value,
        "levels": lambda event, value: event["level"] in value,
    }
    return [event["sequence"] for event in events if all(rules[key](event, value) for key, value in filters.items())]


FILTERS: list[dict[str, Any]] = [
    {"queue": "one"},
    {"queue": "two"},
    {"user_tag": "a"},
    {"event_types": ["job.done", "job.cancelled"]},
    {"event_types": ["queue.paused", "daemon.started"]},
    {"levels": ["info"]},
    {"levels": ["warn", "error"]},
    {"job_id": 1},
    {"job_id": 3, "event_types": ["job.cancelled"]},
    {"queue": "two", "user_tag": "a", "event_types": ["job.queued", "job.scheduled"]},
]


@pytest.mark.parametrize("filters", FILTERS)
@pytest.mark.parametrize("way", ["live", "replay"])
async def test_filters_let_through_what_they_name_and_nothing_else(
    real: Harness, filters: dict[str, Any], way: str
) -> None:
    filtered = await real.client()
    if way == "live" and "job_id" not in filters:
        subscribed = await filtered.call("event.subscribe", since=0, **filters)
    ids = await some_life(real)
    filters = filters | ({"job_id": ids[filters["job_id"]]} if "job_id" in filters else {})
    if way == "replay" or "job_id" in filters:
        subscribed = await filtered.call("event.subscribe", since=0, **filters)
    expected = chosen(await every_event(real), filters, ids)
    found = [event["sequence"] for event in (await filtered.events(len(expected)) if expected else [])]
    await real.settle()
    assert (found, filtered.notifications.empty()) == (expected, True)
    assert (await filtered.call("event.unsubscribe", subscription_id=subscribed["subscription_id"]))["unsubscribed"]


async def test_a_subscription_of_one_job_follows_it_live(real: Harness) -> None:
    client = await real.client()
    job = await real.enqueue(schedule={"type": "AFTER", "delay_ms": 100})
    await client.call("event.subscribe", job_id=job["job_id"][:8])
    await real.enqueue()
    await real.ended(job["job_id"])
    assert [event["event_type"] for event in await client.events(3)] == ["job.queued", "job.started", "job.done"]


async def test_two_subscriptions_of_one_connection_are_told_apart(real: Harness) -> None:
    client = await real.client()
    first = (await client.call("event.subscribe", event_types=["job.queued"]))["subscription_id"]
    second = (await client.call("event.subscribe", event_types=["job.done"]))["subscription_id"]
    await real.ended((await real.enqueue())["job_id"])
    seen = {}
    for _ in range(2):
        message = (await client.notifications.get())["params"]
        (event,) = message["events"]
        seen[message["subscription_id"]] = event["event_type"]
    assert seen == {first: "job.queued", second: "job.done"}


async def test_levels_of_what_a_handler_says_can_be_filtered(home: Path) -> None:
    async with daemon(home, None, CONFIG) as harness:
        client = await harness.client()
        await client.call("event.subscribe", levels=["warn"])
        await harness.ended((await harness.enqueue("TALK"))["job_id"])
        (event,) = await client.events(1)
        assert (event["event_type"], event["level"], event["message"]) == ("job.log", "warn", "careful")


async def test_unsubscribing_leaves_the_others_alone(real: Harness) -> None:
    client = await real.client()
    first = (await client.call("event.subscribe"))["subscription_id"]
    await client.call("event.subscribe", event_types=["job.done"])
    assert await client.call("event.unsubscribe", subscription_id=first) == {"unsubscribed": True}
    await real.ended((await real.enqueue())["job_id"])
    assert [event["event_type"] for event in await client.events(1)] == ["job.done"]
    for unknown in (first, "", "x"):
        assert await client.call("event.unsubscribe", subscription_id=unknown) == {"unsubscribed": False}


async def test_a_subscription_belongs_to_its_connection(real: Harness) -> None:
    mine, other = await real.client(), await real.client()
    name = (await mine.call("event.subscribe"))["subscription_id"]
    assert await other.call("event.unsubscribe", subscription_id=name) == {"unsubscribed": False}
    await real.enqueue(schedule=LONG)
    assert len(await mine.events(1)) == 1


# Pages


@pytest.mark.parametrize("limit", [1, 3, 7, 1000])
async def test_pages_of_the_stream_make_the_whole(real: Harness, limit: int) -> None:
    await some_life(real)
    whole = await every_event(real)
    found: list[dict[str, Any]] = []
    since = 0
    while True:
        page = await real.call("event.list", since=since, limit=limit)
        assert len(page["events"]) <= limit
        found += page["events"]
        if page["next_sequence"] == since:
            break
        since = page["next_sequence"]
    assert found == whole


async def test_pages_with_filters_make_the_whole(real: Harness) -> None:
    ids = await some_life(real)
    for filters in ({"job_id": ids[0]}, {"event_types": ["job.done"]}, {"job_id": ids[1], "event_types": ["job.done"]}):
        expected = chosen(await every_event(real), filters, ids)
        found: list[int] = []
        since, before = 0, -1
        while since != before:
            page = await real.call("event.list", since=since, limit=2, **filters)
            found += [event["sequence"] for event in page["events"]]
            before, since = since, page["next_sequence"]
        assert found == expected


async def test_the_newest_events_come_first_and_by_every_filter(real: Harness) -> None:
    ids = await some_life(real)
    whole = await every_event(real)
    for filters in FILTERS:
        asked = {**filters, "job_id": ids[filters["job_id"]]} if "job_id" in filters else filters
        expected = chosen(whole, asked, ids)[::-1]
        found: list[int] = []
        before: dict[str, int] = {}
        while page := await real.call("event.list", sort="newest", limit=3, **asked, **before):
            assert page["next_sequence"] == whole[-1]["sequence"]
            if not page["events"]:
                break
            found += [event["sequence"] for event in page["events"]]
            before = {"before": found[-1]}
        assert found == expected, filters
    with pytest.raises(RpcError) as caught:
        await real.call("event.list", before=5)
    assert caught.value.data["path"] == "$.before"


async def test_a_page_has_its_limits(real: Harness) -> None:
    jobs = [{"job_type": "semantica.noop", "schedule": LONG}] * 300
    await real.call("job.enqueue_many", jobs=jobs)
    assert len((await real.call("event.list"))["events"]) == 200
    for limit in (0, 1001):
        with pytest.raises(RpcError) as caught:
            await real.call("event.list", limit=limit)
        assert (caught.value.code, caught.value.data["path"]) == (-32602, "$.limit")


# Restart and gaps


def test_a_subscriber_resumes_across_a_restart_without_a_gap(home: Path) -> None:
    with Process(home).start() as process:
        epoch = process.call("event.list")["epoch"]
        job = process.call("job.enqueue", job_type="semantica.noop")
        process.call("job.wait", job_id=job["job_id"])
        before = process.call("event.list", since=0)
        process.kill()
        process.start()
        after = process.call("event.list", since=before["next_sequence"], epoch=epoch)
        assert (after["epoch"], after.get("gap")) == (epoch, None)
        assert after["events"][0]["sequence"] == before["next_sequence"] + 1
        assert after["events"][-1]["event_type"] == "daemon.started"
        assert process.call("event.list", since=0)["events"][: len(before["events"])] == before["events"]


async def test_a_live_subscription_goes_on_after_a_restart_where_it_was(home: Path) -> None:
    async with daemon(home) as harness:
        client = await harness.client()
        begun = await client.call("event.subscribe", since=0)
        await some_life(harness)
        seen = await events_so_far(client, harness)
    async with daemon(home, seed=1) as harness:
        client = await harness.client()
        await client.call("event.subscribe", since=seen[-1]["sequence"], epoch=begun["epoch"])
        seen += await events_so_far(client, harness)
        assert [event["sequence"] for event in seen] == list(range(1, len(seen) + 1))
        assert [event["event_type"] for event in seen[-2:]] == ["daemon.stopping", "daemon.started"]


async def gap_of(client: Client) -> dict[str, Any]:
    message = await client.notifications.get()
    assert message["method"] == "stream.gap", message
    return dict(message["params"])


async def test_another_epoch_is_a_gap(real: Harness) -> None:
    ids = await some_life(real)
    client = await real.client()
    answer = await client.call("event.subscribe", since=3, epoch="another")
    gap = await gap_of(client)
    assert gap == {"subscription_id": answer["subscription_id"], "from": 0, "to": 0, "epoch": answer["epoch"]}
    assert (await client.events(1))[0]["sequence"] == 1, "all of this epoch is news"
    page = await real.call("event.list", since=3, epoch="another")
    assert page["gap"] == {"from": 0, "to": 0, "epoch": answer["epoch"]}
    assert ids


async def test_a_since_ahead_of_the_end_is_a_gap_and_the_stream_goes_on(real: Harness) -> None:
    newest = (await every_event(real))[-1]["sequence"]
    client = await real.client()
    answer = await client.call("event.subscribe", since=newest + 1000)
    assert (answer["sequence"], (await gap_of(client))["to"]) == (newest, newest)
    await real.enqueue(schedule=LONG)
    assert (await client.events(1))[0]["sequence"] == newest + 1
    page = await real.call("event.list", since=2**63 - 1)
    assert (page["events"], page["gap"]["to"], page["next_sequence"]) == ([], newest + 1, newest + 1)


def prune(home: Path, first: int, last: int) -> None:
    with contextlib.closing(sqlite3.connect(home / "meta.db", timeout=5)) as connection, connection:
        connection.execute("DELETE FROM job_events WHERE sequence BETWEEN ? AND ?", [first, last])


@pytest.mark.parametrize("restart", [False, True], ids=["running", "restarted"])
async def test_what_was_pruned_is_a_gap_and_what_is_kept_follows(home: Path, restart: bool) -> None:
    """From the table and from what is at hand alike."""
    async with contextlib.AsyncExitStack() as stack:
        harness = await stack.enter_async_context(daemon(home))
        await some_life(harness)
        if restart:
            await stack.aclose()
            harness = await stack.enter_async_context(daemon(home))
        prune(home, 1, 5)
        client = await harness.client()
        await client.call("event.subscribe", since=2)
        gap = await gap_of(client)
        assert (gap["from"], gap["to"]) == (2, 5)
        assert (await client.events(1))[0]["sequence"] == 6
        page = await harness.call("event.list", since=2)
        assert (page["gap"]["from"], page["gap"]["to"], page["events"][0]["sequence"]) == (2, 5, 6)
        assert (await harness.call("event.list", since=5)).get("gap") is None


@pytest.mark.parametrize("since", [0, 3, 4, 5, 7, 8])
async def test_a_hole_in_what_is_kept_is_told_and_nothing_around_it_is_lost(home: Path, since: int) -> None:
    async with daemon(home) as harness:
        await some_life(harness)
    prune(home, 5, 8)
    async with daemon(home) as harness:
        client = await harness.client()
        await client.call("event.subscribe", since=since)
        seen: list[int] = []
        gaps: list[tuple[int, int]] = []
        newest = (await every_stored(home))[-1]
        while not seen or seen[-1] < newest:
            message = await client.notifications.get()
            if message["method"] == "stream.gap":
                gaps.append((message["params"]["from"], message["params"]["to"]))
            else:
                seen += [event["sequence"] for event in message["params"]["events"]]
        assert seen == [number for number in await every_stored(home) if number > since]
        assert gaps == ([(max(since, 4), 8)] if since < 8 else [])


async def every_stored(home: Path) -> list[int]:
    with contextlib.closing(sqlite3.connect(f"file:{home}/meta.db?mode=ro", uri=True)) as connection:
        return [row[0] for row in connection.execute("SELECT sequence FROM job_events ORDER BY sequence")]
