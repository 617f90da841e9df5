"""Claims whose client goes away or cancels while the writer is busy, and what a worker gets besides the job."""

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.harness import Harness, RpcError, daemon
from tests.rpc.worker_examples import begin, external, new_worker


@asynccontextmanager
async def busy_writer(harness: Harness) -> AsyncIterator[None]:
    """A command that takes until the end of the block, in the writer's thread."""
    end = threading.Event()
    command = asyncio.ensure_future(harness.daemon.commands.run(lambda tx, _: end.wait(), None))
    await asyncio.sleep(0)
    try:
        yield
    finally:
        end.set()
        await command


@pytest.mark.parametrize("way", ["cancel", "gone"])
async def test_a_claim_that_is_committed_too_late_gives_its_job_back(real: Harness, way: str) -> None:
    worker_id, job_id, client = await new_worker(real), await external(real), await real.client()
    async with busy_writer(real):
        number = client.send("worker.claim", worker_id=worker_id)
        await client.call("initialized")
        if way == "cancel":
            await client.call("$/cancelRequest", **{"id": number})
            with pytest.raises(RpcError, match="-32800"):
                await client.result(number)
        else:
            client.writer.transport.abort()
    await real.settle()
    job = await real.job(job_id)
    assert (job["state"], job["attempts"], job["run_count"]) == ("QUEUED", 0, 1)
    assert job["claim_attempts"] == (0 if way == "cancel" else 1), "only a client that is gone counts"
    again = (await real.call("worker.claim", worker_id=worker_id))["jobs"]
    assert [one["job"]["job_id"] for one in again] == [job_id]


async def test_a_secret_that_was_set_by_name_and_is_lost_fails_the_job(home: Path) -> None:
    async with daemon(home) as first:
        lost = await external(first, env_vars={"API_TOKEN": "x", "PLAIN": "p"})
        kept = await external(first, env_vars={"PLAIN": "p"})
    async with daemon(home) as second:
        worker_id = await new_worker(second)
        (claimed,) = (await second.call("worker.claim", worker_id=worker_id, max=5))["jobs"]
        assert (claimed["job"]["job_id"], claimed["env_vars"]) == (kept, {"PLAIN": "p"})
        job = await second.ended(lost)
        assert (job["state"], job["error"]["code"]) == ("FAILED", "E_SECRET_LOST")


async def test_a_child_gets_the_results_of_its_parents(real: Harness) -> None:
    worker_id = await new_worker(real)
    parent = await begin(real, worker_id)
    assert parent["parents"] == []
    child = await external(real, parent_job_id=parent["job"]["job_id"])
    waiting = asyncio.ensure_future(real.call("worker.claim", worker_id=worker_id, wait_ms=20_000))
    other = await real.client()
    await other.call("worker.complete", worker_id=worker_id, run_id=parent["run_id"], result={"n": 1})
    (claimed,) = (await waiting)["jobs"]
    assert claimed["job"]["job_id"] == child
    expected: dict[str, Any] = {"job_id": parent["job"]["job_id"], "state": "DONE", "result": {"n": 1}}
    assert claimed["parents"] == [expected | {"truncated": False}]


async def test_a_template_can_be_for_workers(real: Harness) -> None:
    worker_id = await new_worker(real)
    spec = {"job_type": "work", "execution_mode": "EXTERNAL", "payload": {"a": 1}}
    await real.call("template.put", name="t", spec=spec)
    ack = await real.call("job.enqueue", job_type="work", template_id="t", payload={"b": 2})
    (claimed,) = (await real.call("worker.claim", worker_id=worker_id))["jobs"]
    assert (claimed["job"]["job_id"], claimed["job"]["payload"]) == (ack["job_id"], {"a": 1, "b": 2})
