"""The stream from what is at hand and from the table: the same pages from any cursor."""

import asyncio
from random import Random
from typing import Any

from semantica_daemon.engine import feed as feeds
from semantica_daemon.engine.feed import Feed, Page
from semantica_daemon.model.event import Filter
from tests.harness import Harness


async def fill(harness: Harness, jobs: int) -> list[str]:
    specs = [{"job_type": "semantica.noop", "user_tag": f"t{n % 3}", "queue": f"q{n % 2}"} for n in range(jobs)]
    ids = []
    for start in range(0, jobs, 500):
        acks = await harness.call("job.enqueue_many", jobs=specs[start : start + 500])
        ids += [ack["job_id"] for ack in acks["jobs"]]
    await harness.settle()
    return ids


def only_table(feed: Feed) -> Feed:
    """A feed with nothing at hand, as after a restart."""
    return Feed(feed._readers, feed.epoch, feed.newest)


def shown(page: Page) -> tuple[list[Any], int, Any]:
    events = [(one.sequence, one.job_id, one.event_type, one.message, bytes(one.payload)) for one in page.events]
    return events, page.cursor, page.gap


async def test_ring_and_table_give_the_same_pages_from_any_cursor(manual: Harness) -> None:
    await fill(manual, 400)
    ring = manual.daemon.feed
    table = only_table(ring)
    wanted = [Filter(), Filter(queue="q0"), Filter(user_tag="t1"), Filter(event_types=("job.done",))]
    wanted += [Filter(levels=("error",)), Filter(queue="q1", event_types=("job.started",))]
    random = Random(7)
    for cursor in [0, 1, ring.newest - 1, ring.newest, *(random.randrange(ring.newest) for _ in range(60))]:
        for one in wanted:
            limit = random.choice((1, 7, 200, 1000))
            assert shown(await ring.page(cursor, one, limit)) == shown(await table.page(cursor, one, limit))


async def test_one_jobs_events_are_the_same_from_ring_and_table(manual: Harness) -> None:
    """Its own index lets the table skip faster, so the cursors may differ; what is told may not."""
    ids = await fill(manual, 30)
    ring = manual.daemon.feed
    for feed in (ring, only_table(ring)):
        told, cursor = [], 0
        while cursor < ring.newest:
            page = await feed.page(cursor, Filter(job_id=ids[11]), 7)
            assert page.cursor > cursor
            told += [one.event_type for one in page.events]
            cursor = page.cursor
        assert told == ["job.queued", "job.started", "job.done"]


async def test_a_walk_from_the_beginning_meets_the_table_and_the_ring_without_a_seam(manual: Harness) -> None:
    await fill(manual, 2500)
    ring = manual.daemon.feed
    assert ring._recent[0].event.sequence > 1, "the oldest events are only in the table by now"
    seen, cursor = [], 0
    while cursor < ring.newest:
        page = await ring.page(cursor, Filter(), 300)
        seen += [one.sequence for one in page.events]
        cursor = page.cursor
    assert seen == list(range(1, ring.newest + 1))


async def test_what_is_at_hand_is_bounded_in_number_and_in_size(working: Harness) -> None:
    await fill(working, 1500)
    await working.ended((await working.enqueue("chatter", payload={"lines": 20_000}))["job_id"])
    ring = working.daemon.feed
    assert len(ring._recent) <= 2 * feeds.CACHED_EVENTS
    assert ring._recent_size <= feeds.CACHED_BYTES


async def test_a_subscriber_from_far_back_gets_everything_once_and_in_order_while_more_happens(real: Harness) -> None:
    await fill(real, 1500)
    client = await real.client()
    await client.call("event.subscribe", since=0)
    more = asyncio.create_task(fill(real, 500))
    sequences = [one["sequence"] for one in await client.events(4500)]
    await more
    until = (await real.call("admin.stats"))["system"]["sequence"]
    while sequences[-1] < until:
        sequences += [one["sequence"] for one in await client.events(1)]
    assert sequences == list(range(1, until + 1))
    await client.close()
