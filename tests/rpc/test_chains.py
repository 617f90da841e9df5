"""Chains over the socket: what a caller may name as a parent, and the errors for everything else."""

from typing import Any

import pytest

from tests.cases import each_case
from tests.harness import Harness, RpcError

LONG = {"type": "AFTER", "delay_ms": 3_600_000}
NOOP = {"job_type": "semantica.noop"}


async def refused(harness: Harness, method: str, **params: Any) -> tuple[int, str | None]:
    """(code, path) of the error; nothing is stored."""
    before = await harness.call("job.list", limit=1)
    with pytest.raises(RpcError) as error:
        await harness.call(method, **params)
    assert await harness.call("job.list", limit=1) == before
    return error.value.code, error.value.data.get("path")


@each_case(
    ("spec", "code", "path"),
    [
        ({"parent_job_id": "deadbeef"}, 4001, "$.parent_job_id"),
        ({"parents": ["deadbeef"]}, 4001, "$.parents[0]"),
        ({"parents": ["x"]}, -32602, "$.parents[0]"),
        ({"parents": ["#0"]}, -32602, "$.parents[0]"),
        ({"parents": ["deadbeef"] * 10_001}, -32602, "$.parents"),
        ({"schedule": {"type": "CONDITION", "wait_for_event": "job:deadbeef"}}, 4001, "$.schedule.wait_for_event"),
        ({"schedule": {"type": "CONDITION", "wait_for_event": "job:x"}}, -32602, "$.schedule.wait_for_event"),
        (
            {"schedule": {"type": "CONDITION", "conditions": {"job:deadbeef": "LOST"}}},
            -32602,
            "$.schedule.conditions.job:deadbeef",
        ),
    ],
)
async def test_a_parent_that_cannot_be_is_refused_with_its_path(
    shared: Harness, spec: dict[str, Any], code: int, path: str
) -> None:
    assert await refused(shared, "job.enqueue", **NOOP, **spec) == (code, path)


@each_case(
    ("jobs", "code", "path"),
    [
        ([NOOP, {**NOOP, "parents": ["#0", "#1"]}], -32602, "$.jobs[1].parents[1]"),
        ([NOOP, {**NOOP, "parent_job_id": "deadbeef"}], 4001, "$.jobs[1].parent_job_id"),
        ([NOOP] + [{**NOOP, "parents": ["#0"] * 5001}] * 2, -32602, "$.jobs"),
    ],
)
async def test_a_chain_that_cannot_be_is_refused_as_a_whole(
    shared: Harness, jobs: list[Any], code: int, path: str
) -> None:
    assert await refused(shared, "job.enqueue_many", jobs=jobs) == (code, path)


async def test_a_prefix_that_more_than_one_job_begins_with_is_refused(shared: Harness) -> None:
    wanted, seen = "", set[str]()
    while not wanted:
        acks = await shared.call("job.enqueue_many", jobs=[{**NOOP, "schedule": LONG, "user_tag": "many"}] * 500)
        for ack in acks["jobs"]:
            prefix = ack["job_id"][:4]
            wanted = prefix if prefix in seen else wanted
            seen.add(prefix)
    assert await refused(shared, "job.enqueue", **NOOP, parents=[wanted]) == (4002, "$.parents[0]")
    await shared.call("job.cancel", user_tag="many")


async def test_a_parent_that_has_failed_is_refused_and_named(shared: Harness) -> None:
    parent = (await shared.enqueue(schedule=LONG))["job_id"]
    await shared.call("job.cancel", job_id=parent)
    with pytest.raises(RpcError) as error:
        await shared.enqueue(parents=[parent[:8]])
    assert (error.value.code, error.value.data["code"]) == (4002, "E_PARENT_ENDED")
    assert error.value.data["job_id"] == parent


async def test_the_page_of_a_list_names_a_hundred_parents_and_counts_all(shared: Harness) -> None:
    parents = [ack["job_id"] for ack in (await shared.call("job.enqueue_many", jobs=[NOOP] * 120))["jobs"]]
    child = (await shared.enqueue(parents=parents, user_tag="wide"))["job_id"]
    job = await shared.ended(child)
    assert (job["parents"], job["parent_count"], job["conditions"]) == (parents, 120, [])
    (listed,) = (await shared.call("job.list", user_tag="wide"))["items"]
    assert (listed["parents"], listed["parent_count"]) == (parents[:100], 120)
