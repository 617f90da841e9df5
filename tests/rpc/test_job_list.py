"""job.list: every filter, pages without duplicates or holes while jobs come in, and short rows."""

from itertools import product
from typing import Any

import pytest

from tests.cases import each_case
from tests.harness import Harness, RpcError

LONG = {"type": "AFTER", "delay_ms": 3_600_000}


async def names(harness: Harness, **filters: Any) -> list[str]:
    """The user_tags of what is listed, oldest first."""
    found = await harness.call("job.list", sort="oldest", limit=200, **filters)
    assert found["next_cursor"] is None
    return [job["user_tag"] for job in found["items"]]


async def some_jobs(manual: Harness) -> None:
    """a … f, a second apart; two of them have ended, two are of one subject, two of one group."""
    specs: list[dict[str, Any]] = [
        {"user_tag": "a", "queue": "one"},
        {"user_tag": "b", "queue": "two", "chain_group_id": "g", "schedule": LONG},
        {"user_tag": "c", "job_type": "semantica.echo", "chain_group_id": "g", "subject_key": "repo::x"},
        {"user_tag": "d", "subject_key": "repo::xy", "schedule": LONG},
        {"user_tag": "e", "subject_key": "other", "queue": "one", "schedule": LONG},
        {"user_tag": "f", "subject_key": "repo::x", "queue": "held", "job_type": "semantica.echo"},
    ]
    await manual.call("queue.configure", queue="held", slots=0)
    for spec in specs:
        await manual.call("job.enqueue", **{"job_type": "semantica.noop"} | spec)
        await manual.advance(1000)


FILTERS: list[tuple[dict[str, Any], str]] = [
    ({}, "abcdef"),
    ({"state": ["DONE"]}, "ac"),
    ({"state": ["DONE", "QUEUED"]}, "acf"),
    ({"state": ["DONE", "DONE"]}, "ac"),
    ({"state": []}, "abcdef"),
    ({"state": ["FAILED"]}, ""),
    ({"queue": ["one"]}, "ae"),
    ({"queue": ["one", "two", "one"]}, "abe"),
    ({"queue": ["nowhere"]}, ""),
    ({"queue": ["one"], "state": ["SCHEDULED"]}, "e"),
    ({"job_type": ["semantica.echo"]}, "cf"),
    ({"job_type": ["semantica.echo", "semantica.noop"], "state": ["DONE"]}, "ac"),
    ({"user_tag": "b"}, "b"),
    ({"chain_group_id": "g"}, "bc"),
    ({"chain_group_id": "g", "state": ["DONE"]}, "c"),
    ({"chain_group_id": "g", "user_tag": "b"}, "b"),
    ({"chain_group_id": "g", "subject_prefix": "repo"}, "c"),
    ({"subject_key": "repo::x"}, "cf"),
    ({"subject_key": "repo::x", "queue": ["held"]}, "f"),
    ({"subject_key": "repo::x", "subject_prefix": "other"}, ""),
    ({"subject_prefix": "repo::"}, "cdf"),
    ({"subject_prefix": "repo::x"}, "cdf"),
    ({"subject_prefix": "repo::xy"}, "d"),
    ({"subject_prefix": "%"}, ""),
    ({"user_tag": "a", "subject_prefix": "repo::"}, ""),
]


async def test_a_filter_lists_what_it_says(manual: Harness) -> None:
    await some_jobs(manual)
    for filters, expected in FILTERS:
        assert ("".join(await names(manual, **filters)), filters) == (expected, filters)


async def test_the_times_are_exclusive(manual: Harness) -> None:
    await some_jobs(manual)
    times = {job["user_tag"]: job["created_at"] for job in (await manual.call("job.list"))["items"]}
    assert "".join(await names(manual, created_after=times["b"])) == "cdef"
    assert "".join(await names(manual, created_before=times["c"])) == "ab"
    between = {"created_after": times["a"], "created_before": times["d"]}
    assert "".join(await names(manual, **between)) == "bc"
    assert "".join(await names(manual, **between, state=["SCHEDULED"])) == "b"


async def pages(harness: Harness, **asked: Any) -> list[str]:
    """All ids, page by page; between the first pages a job comes and ends."""
    found: list[str] = []
    more = 3
    cursor: dict[str, str] = {}
    while True:
        page = await harness.call("job.list", **asked, **cursor)
        assert len(page["items"]) <= asked["limit"]
        found += [job["job_id"] for job in page["items"]]
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}
        if more:
            more -= 1
            await harness.ended((await harness.enqueue(queue="meanwhile"))["job_id"])


async def test_pages_have_no_duplicates_and_no_holes(real: Harness) -> None:
    specs = [
        {"job_type": "semantica.noop", "queue": "ab"[number % 2], "user_tag": "t", "schedule": LONG}
        for number in range(25)
    ]
    ids = [ack["job_id"] for ack in (await real.call("job.enqueue_many", jobs=specs))["jobs"]]
    all_filters: list[dict[str, Any]] = [
        {}, {"state": ["SCHEDULED", "DONE"]}, {"queue": ["a", "b"]}, {"user_tag": "t"}
    ]  # fmt: skip
    for sort, filters, limit in product(["newest", "oldest"], all_filters, [1, 7, 25, 200]):
        found = await pages(real, sort=sort, limit=limit, **filters)
        assert len(found) == len(set(found))
        expected = ids if sort == "oldest" else ids[::-1]
        assert [job_id for job_id in found if job_id in set(ids)] == expected, (sort, filters, limit)


async def test_a_page_holds_fifty_unless_told_otherwise_and_at_most_two_hundred(real: Harness) -> None:
    specs = [{"job_type": "semantica.noop", "schedule": LONG}] * 201
    await real.call("job.enqueue_many", jobs=specs)
    assert len((await real.call("job.list"))["items"]) == 50
    assert len((await real.call("job.list", limit=200))["items"]) == 200
    for limit in (0, 201, -1):
        with pytest.raises(RpcError) as caught:
            await real.call("job.list", limit=limit)
        assert (caught.value.code, caught.value.data["path"]) == (-32602, "$.limit")


@each_case("cursor", ["", "x", "-1", "1.5", "1" * 19, "٣", "1 OR 1"])
async def test_a_cursor_that_is_none_is_refused(shared: Harness, cursor: str) -> None:
    with pytest.raises(RpcError) as caught:
        await shared.call("job.list", cursor=cursor)
    assert (caught.value.code, caught.value.data["path"]) == (-32602, "$.cursor")


async def test_long_payloads_and_results_are_left_out_of_the_list_only(real: Harness) -> None:
    short, long = {"t": "x" * (4096 - 8)}, {"t": "x" * (4096 - 7)}
    for payload in (short, long):
        await real.ended((await real.enqueue("semantica.echo", payload=payload))["job_id"])
    cut, whole = (await real.call("job.list"))["items"]
    assert (whole["payload"], whole["result_summary"], whole["truncated"]) == (short, short, False)
    assert (cut["payload"], cut["result_summary"], cut["truncated"]) == (None, None, True)
    full = await real.job(cut["job_id"])
    assert (full["payload"], full["result_summary"], full["truncated"]) == (long, long, False)


async def test_too_long_means_bytes_not_characters(real: Harness) -> None:
    await real.ended((await real.enqueue("semantica.noop", payload={"t": "€" * 2000}))["job_id"])
    (job,) = (await real.call("job.list"))["items"]
    assert (job["payload"], job["truncated"]) == (None, True)
