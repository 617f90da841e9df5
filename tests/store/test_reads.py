"""Questions: a job by id or prefix with its runs, pages of jobs, the stream, stats; each against a plain count."""

from collections.abc import AsyncIterator
from typing import Any

import aiosqlite
import msgspec
import pytest

from semantica_daemon.errors import AmbiguousId, JobNotFound
from semantica_daemon.model.event import Filter
from semantica_daemon.store import listing, reads
from semantica_daemon.store.writes.report import Report, report
from semantica_daemon.wire.job import ListParams
from semantica_daemon.wire.job_view import Condition, JobView
from semantica_daemon.wire.run import Progress
from semantica_daemon.wire.run import Progress as Said
from tests.builders import NOW, Store
from tests.store.steps import BAD, GOOD, LATER, begin, claims, emitted, end, make, put, tick
from tests.store.timetable import made, schedule, template


@pytest.fixture
async def db(forged: Store) -> AsyncIterator[aiosqlite.Connection]:
    async with aiosqlite.connect(f"file:{forged.path}?mode=ro", uri=True, isolation_level=None) as connection:
        yield connection


async def test_a_job_is_shown_with_its_runs_oldest_first(store: Store, db: aiosqlite.Connection) -> None:
    first = begin(store, max_attempts=2, payload={"a": 1}, subject_key="s", generation=7)
    end(store, first, BAD)
    tick(store, 2000)
    (second,) = claims(store)
    store.run(report, Report(second.run, progress=Said(percent=50)))
    end(store, second, GOOD)
    job = await reads.job(db, first.run.job_id)
    assert (job.job_id, job.id, job.state, job.attempts) == (first.run.job_id, first.run.job_id, "DONE", 2)
    assert (bytes(job.payload), bytes(job.result_summary), bytes(job.env_vars)) == (b'{"a":1}', b'{"n":1}', b"null")
    assert (job.subject_key, job.generation, job.execution_mode) == ("s", 7, "IN_PROCESS")
    assert job.progress == Progress(100, None, None, None, None)
    assert [(run.attempt, run.status) for run in job.runs] == [(1, "FAILED"), (2, "DONE")]
    assert job.runs[0].error["code"] == "E_HANDLER"
    assert (job.runs[0].params_snapshot, job.runs[1].error) == ({"a": 1}, None)


async def test_a_waiting_job_is_shown_with_what_it_waits_for_and_what_has_come(
    store: Store, db: aiosqlite.Connection
) -> None:
    waits = {"type": "CONDITION", "wait_for_event": "e", "wait_for_idle": True, "conditions": {"a": "1", "b": "2"}}
    ack = put(store, subject_key="s", debounce_ms=5, max_wait_ms=9, stop_when_lost=True, schedule=waits)
    store.now += 5
    emitted(store, "e"), emitted(store, "b", "2")
    job = await reads.job(db, ack.job_id)
    assert job.conditions == [Condition("a", "1", None), Condition("b", "2", NOW + 5)]
    assert (job.wait_for_event, job.event_met_at, job.wait_for_idle, job.require_charging) == (
        "e", NOW + 5, True, False,
    )  # fmt: skip
    assert (job.debounce_ms, job.max_wait_ms, job.stop_when_lost) == (5, 9, True)
    assert (job.template_id, job.schedule_id, job.schedule_type) == (None, None, "CONDITION")
    (listed_job,) = (await listing.jobs(db, ListParams())).items
    assert (listed_job.event_met_at, listed_job.stop_when_lost) == (NOW + 5, True)


async def test_a_job_of_a_schedule_names_it_and_its_template(store: Store, db: aiosqlite.Connection) -> None:
    kept_template, kept_schedule = template(store), schedule(store)
    tick(store, 60_000)
    (row,) = made(store)
    job = await reads.job(db, row["id"])
    assert (job.template_id, job.schedule_id) == (kept_template.template_id, kept_schedule.schedule_id)
    assert job.conditions == []


async def test_a_failed_job_shows_its_error_and_a_job_without_a_lane_no_generation(
    store: Store, db: aiosqlite.Connection
) -> None:
    claimed = begin(store)
    end(store, claimed, BAD)
    job = await reads.job(db, claimed.run.job_id)
    assert job.error == BAD.error
    assert (job.subject_key, job.generation, job.progress) == (None, None, None)


async def test_a_job_is_found_by_a_unique_prefix(store: Store, db: aiosqlite.Connection) -> None:
    one, two = put(store).job_id, put(store).job_id
    assert (await reads.job(db, one[:4])).job_id == one
    assert (await reads.job(db, one.upper())).job_id == one
    shared = next(length for length in range(36) if one[length] != two[length])
    with pytest.raises(AmbiguousId):
        await reads.job(db, one[:shared])
    for unknown in ("ffff", "f" * 36):
        with pytest.raises(JobNotFound):
            await reads.job(db, unknown)


CROWD = ("SCHEDULED", "DONE", "FAILED", "CANCELLED", "SKIPPED_TTL")


def crowd(store: Store) -> None:
    """Jobs of many states in two queues, with tags, groups, types and subjects of their own; two wait at the end."""
    for queue in ("default", "other"):
        for number, state in enumerate(CROWD):
            about = {"user_tag": f"tag{number % 2}", "chain_group_id": f"group{number % 3}"}
            store.now += 1
            make(store, state, queue=queue, subject_key=f"s::{queue}::{number}", **about)
    for queue in ("default", "other"):
        put(store, "semantica.echo", queue=queue, subject_key=f"t::{queue}")


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "1"),
    ({"state": ["DONE"]}, "state = 'DONE'"),
    ({"state": ["DONE", "FAILED", "DONE"]}, "state IN ('DONE', 'FAILED')"),
    ({"queue": ["other"]}, "queue = 'other'"),
    ({"queue": ["other", "default", "unknown"]}, "1"),
    ({"queue": ["unknown"]}, "0"),
    ({"queue": ["other"], "state": ["SCHEDULED", "DONE"]}, "queue = 'other' AND state IN ('SCHEDULED', 'DONE')"),
    ({"except_queue": ["other"]}, "queue <> 'other'"),
    ({"except_queue": ["other"], "state": ["DONE", "QUEUED"]}, "queue <> 'other' AND state IN ('DONE', 'QUEUED')"),
    ({"job_type": ["semantica.echo"]}, "job_type = 'semantica.echo'"),
    ({"job_type": ["semantica.echo"], "state": ["QUEUED"]}, "job_type = 'semantica.echo' AND state = 'QUEUED'"),
    ({"user_tag": "tag1"}, "user_tag = 'tag1'"),
    ({"user_tag": "tag1", "queue": ["other"], "state": ["FAILED"]},
     "user_tag = 'tag1' AND queue = 'other' AND state = 'FAILED'"),
    ({"chain_group_id": "group2"}, "chain_group_id = 'group2'"),
    ({"subject_key": "s::other::2"}, "subject_key = 's::other::2'"),
    ({"subject_prefix": "s::other::"}, "subject_key LIKE 's::other::%'"),
    ({"subject_prefix": "s", "state": ["DONE"], "user_tag": "tag0"}, "state = 'DONE' AND user_tag = 'tag0'"),
    ({"schedule_id": "nosuch"}, "0"),
    ({"contains": "S::OTHER::2"}, "subject_key = 's::other::2'"),
    ({"contains": "tag1", "state": ["FAILED"]}, "user_tag = 'tag1' AND state = 'FAILED'"),
    ({"contains": "echo"}, "job_type = 'semantica.echo'"),
    ({"created_after": NOW + 3}, f"created_at > {NOW + 3}"),
    ({"created_before": NOW + 3}, f"created_at < {NOW + 3}"),
    ({"created_after": NOW + 1, "created_before": NOW + 9, "state": ["DONE", "QUEUED"]},
     f"created_at > {NOW + 1} AND created_at < {NOW + 9} AND state IN ('DONE', 'QUEUED')"),
]  # fmt: skip


async def listed(db: aiosqlite.Connection, filters: dict[str, Any], sort: str, limit: int) -> list[JobView]:
    """All pages, one after the other."""
    found: list[JobView] = []
    cursor: str | None = None
    for _ in range(50):
        params = {**filters, "sort": sort, "limit": limit, "cursor": cursor}
        page = await listing.jobs(db, msgspec.convert(params, ListParams))
        assert len(page.items) <= limit
        found += page.items
        cursor = page.next_cursor
        if cursor is None:
            return found
    raise AssertionError("no end of pages")


ORDERS = {
    "newest": "{} ORDER BY rowid DESC",
    "oldest": "{} ORDER BY rowid",
    "ended": "{} AND finished_at IS NOT NULL ORDER BY finished_at DESC, rowid DESC",
}


@pytest.mark.parametrize("sort", ORDERS)
async def test_the_pages_of_a_listing_are_what_the_table_holds(
    store: Store, db: aiosqlite.Connection, sort: str
) -> None:
    crowd(store)
    for filters, where in FILTERS:
        expected = [row["id"] for row in store.rows(f"SELECT id FROM jobs WHERE {ORDERS[sort].format(where)}")]
        for limit in (1, 3, 200):
            found = await listed(db, filters, sort, limit)
            assert [job.job_id for job in found] == expected, (filters, limit)


async def test_a_listing_by_state_is_as_many_statements_with_fifty_queues_as_with_one(
    store: Store, db: aiosqlite.Connection
) -> None:
    statements: list[str] = []
    await db.set_trace_callback(statements.append)
    waits = {"type": "AFTER", "delay_ms": 1000}
    counts = []
    for queues in (1, 50):
        made = [put(store, queue=f"q{n % queues}", user_tag=str(queues), schedule=waits).job_id for n in range(200)]
        statements.clear()
        page = await listing.jobs(db, ListParams(state=["SCHEDULED", "DONE"], limit=120))
        assert [job.job_id for job in page.items] == made[:-121:-1]
        counts.append(len(statements))
    assert counts[0] == counts[1]


async def test_long_texts_are_cut_from_a_listing_and_whole_in_the_job(store: Store, db: aiosqlite.Connection) -> None:
    long, short = "ä" * 2100, "ä" * 2000
    ids = [put(store, payload={"t": text}).job_id for text in (long, short)]
    page = (await listing.jobs(db, ListParams(sort="oldest"))).items
    assert [(bytes(job.payload) == b"null", job.truncated) for job in page] == [(True, True), (False, False)]
    assert msgspec.json.decode((await reads.job(db, ids[0])).payload) == {"t": long}


@pytest.mark.parametrize("since", [0, 1, 4, 100])
async def test_replay_from_any_cursor_is_the_table(store: Store, db: aiosqlite.Connection, since: int) -> None:
    claimed = begin(store, user_tag="t")
    put(store, schedule=LATER)
    end(store, claimed)
    rows = [row for row in store.events() if row["sequence"] > since]
    found = await reads.events(db, since, Filter(), 100)
    assert [one.event.sequence for one in found] == [row["sequence"] for row in rows]
    for one, row in zip(found, rows, strict=True):
        assert (one.event.event_type, one.event.job_id, one.user_tag) == (
            row["event_type"], row["job_id"], row["user_tag"],
        )  # fmt: skip
        assert bytes(one.event.payload).decode() == row["payload"]
    of_job = await reads.events(db, since, Filter(job_id=claimed.run.job_id), 100)
    assert [one.event.sequence for one in of_job] == [
        row["sequence"] for row in rows if row["job_id"] == claimed.run.job_id
    ]
    assert len(await reads.events(db, since, Filter(), 2)) == min(2, len(rows))


async def test_the_ends_of_the_stream(forged: Store, db: aiosqlite.Connection) -> None:
    assert await reads.stream_ends(db) == (1, 0)
    put(forged), put(forged)
    assert await reads.stream_ends(db) == (1, 2)
    forged.connection.execute("DELETE FROM job_events WHERE sequence = 1")
    assert await reads.stream_ends(db) == (2, 2)
    put(forged)
    assert [event["sequence"] for event in forged.events()] == [2, 3]


async def test_stats_are_the_maintained_counts(store: Store, db: aiosqlite.Connection) -> None:
    claimed = begin(store)
    store.now += 40
    end(store, claimed)
    put(store)
    store.now += 10
    claims(store)
    put(store, queue="other")
    default, other = await reads.stats(db)
    assert (default.queue, default.done, default.running, default.queued) == ("default", 1, 1, 0)
    assert (default.avg_wait_ms, default.avg_run_ms) == (0, 40), "of the runs that have ended"
    assert (other.queued, other.avg_wait_ms, other.avg_run_ms) == (1, None, None)


async def test_the_end_of_a_ttl_is_shown_only_while_a_job_is_queued(store: Store, db: aiosqlite.Connection) -> None:
    job_id = put(store, ttl_ms=500).job_id
    assert (await reads.job(db, job_id)).expires_at == store.now + 500
    (claimed,) = claims(store)
    assert (await reads.job(db, job_id)).expires_at is None
    end(store, claimed)
    assert (await reads.job(db, job_id)).expires_at is None
