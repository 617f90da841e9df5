"""job.wait and ids: at once when it has ended, not beyond its time, and by any unique prefix."""

import asyncio
import contextlib
import sqlite3
import time
from pathlib import Path

import pytest

from tests.cases import each_case
from tests.harness import Harness, RpcError
from tests.stopwatch import Stopwatch

LONG = {"type": "AFTER", "delay_ms": 3_600_000}


async def test_a_finished_job_is_answered_at_once(real: Harness) -> None:
    ack = await real.enqueue()
    await real.ended(ack["job_id"])
    watch = Stopwatch()
    waited = await real.call("job.wait", job_id=ack["job_id"], timeout_ms=60_000)
    assert waited["finished"]
    assert watch.seconds() < 1


@each_case("state", ["CANCELLED", "SUPERSEDED"])
async def test_every_end_is_an_end(real: Harness, state: str) -> None:
    client = await real.client()
    ack = await real.enqueue(subject_key="s", schedule=LONG)
    waiting = client.send("job.wait", job_id=ack["job_id"], timeout_ms=60_000)
    await client.call("initialized")
    if state == "CANCELLED":
        await real.call("job.cancel", job_id=ack["job_id"])
    else:
        await real.enqueue(subject_key="s")
    waited = await client.result(waiting)
    assert (waited["finished"], waited["job"]["state"]) == (True, state)


@pytest.mark.parametrize("timeout_ms", [0, 1, 150])
async def test_a_wait_ends_when_its_time_is_up_with_the_newest_state(real: Harness, timeout_ms: int) -> None:
    ack = await real.enqueue(schedule=LONG)
    watch, began = Stopwatch(), time.monotonic()
    waited = await real.call("job.wait", job_id=ack["job_id"], timeout_ms=timeout_ms)
    took, without_load = time.monotonic() - began, watch.seconds()
    assert (waited["finished"], waited["job"]["state"]) == (False, "SCHEDULED")
    assert timeout_ms / 1000 <= took
    assert without_load < timeout_ms / 1000 + 1


async def test_without_a_timeout_a_wait_gives_up_before_the_clients_do(real: Harness) -> None:
    """Emacs gives up at 10 s. The table says so, without eight seconds of anybody's life."""
    document = await real.call("rpc.discover")
    (wait,) = [method for method in document["methods"] if method["name"] == "job.wait"]
    (timeout,) = [param for param in wait["params"] if param["name"] == "timeout_ms"]
    assert timeout["schema"]["default"] == 8000


async def test_a_thousand_waits_for_one_job_end_together(real: Harness) -> None:
    ack = await real.enqueue(schedule=LONG)
    clients = [await real.client() for _ in range(10)]
    waiting = [(client, client.send("job.wait", job_id=ack["job_id"])) for client in clients for _ in range(100)]
    for client in clients:
        await client.call("initialized")
    await real.call("job.cancel", job_id=ack["job_id"])
    ended = await asyncio.gather(*(client.result(number) for client, number in waiting))
    assert {one["job"]["state"] for one in ended} == {"CANCELLED"}


@pytest.mark.parametrize("method", ["job.get", "job.wait", "job.cancel", "event.subscribe", "event.list"])
async def test_a_prefix_of_four_or_more_stands_for_the_job(real: Harness, method: str) -> None:
    ack = await real.enqueue()
    await real.ended(ack["job_id"])
    for length in (4, 8, 9, 20, 35, 36):
        await real.call(method, job_id=ack["job_id"][:length])
        await real.call(method, job_id=ack["job_id"][:length].upper())


@pytest.mark.parametrize("method", ["job.get", "job.wait", "job.cancel", "event.subscribe", "event.list"])
async def test_unknown_malformed_and_ambiguous_ids_are_told_apart(real: Harness, method: str) -> None:
    specs = [{"job_type": "semantica.noop", "schedule": LONG}] * 1000
    first = [ack["job_id"] for ack in (await real.call("job.enqueue_many", jobs=specs))["jobs"]]
    taken = {job_id[:4] for job_id in first}
    unknown = next(f"{number:04x}" for number in range(2000) if f"{number:04x}" not in taken)
    for asked in (unknown, unknown + "0000-0000-4000-8000-000000000000"):
        code, data = await refusal(real, method, asked)
        assert (code, data) == (4001, "E_JOB_NOT_FOUND")
    for asked in ("abc", "", "abcg", "abcd%", "a" * 37, "ab\x00cd"):
        assert await refusal(real, method, asked) == (-32602, "E_PARAMS")


async def refusal(harness: Harness, method: str, job_id: str) -> tuple[int, str]:
    with pytest.raises(RpcError) as caught:
        await harness.call(method, job_id=job_id)
    return caught.value.code, caught.value.data["code"]


async def test_an_ambiguous_prefix_is_a_conflict_that_names_some(real: Harness, home: Path) -> None:
    first = (await real.enqueue(schedule=LONG))["job_id"]
    second = first[:8] + "-0000-4000-8000-000000000000"
    await real.settle()
    twin(home, first, second)
    for method in ("job.get", "job.wait", "job.cancel", "event.subscribe"):
        with pytest.raises(RpcError) as caught:
            await real.call(method, job_id=first[:8])
        assert (caught.value.code, caught.value.data["code"]) == (4002, "E_AMBIGUOUS_ID")
        assert set(caught.value.data["matches"]) == {first, second}
    assert {await real.state(first), await real.state(second)} == {"SCHEDULED"}


def twin(home: Path, job_id: str, other: str) -> None:
    """A second job with the same beginning: the daemon's own ids repeat four digits only after 65,536 jobs."""
    with contextlib.closing(sqlite3.connect(home / "meta.db", timeout=5)) as connection, connection:
        connection.execute("CREATE TEMP TABLE twin AS SELECT * FROM jobs WHERE id = ?", [job_id])
        connection.execute("UPDATE twin SET number = number + 1, id = ?", [other])
        connection.execute("INSERT INTO jobs SELECT * FROM twin")
