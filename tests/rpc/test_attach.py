"""job.attach and job.input beyond the usual: an attachment used twice, and jobs that never read from theirs."""

import asyncio
from typing import Any

import pytest

from tests.cases import each_case
from tests.harness import Harness, RpcError

CAT = {"job_type": "cat", "payload": {"argv": ["cat"], "cwd": "/"}, "execution_mode": "SUBPROCESS"}
STORED = {**CAT, "payload": {"argv": ["cat"], "cwd": "/", "stdin": "stored"}}
MISSING = {**CAT, "payload": {"argv": ["/nonexistent"], "cwd": "/"}}
LATER = {"schedule": {"type": "AFTER", "delay_ms": 3_600_000}}
ECHO = {"job_type": "semantica.echo"}


async def attach(harness: Harness) -> str:
    attach_id: str = (await harness.call("job.attach", stdin=True))["attach_id"]
    return attach_id


async def is_open(harness: Harness, attach_id: str) -> bool:
    """The answer to a key; the test fails if there is none."""
    answer = await asyncio.wait_for(harness.call("job.input", attach_id=attach_id, data="eA=="), 20)
    return bool(answer["is_open"])


async def test_an_attachment_is_for_one_job(shared: Harness) -> None:
    attach_id = await attach(shared)
    first = await shared.call("job.enqueue", **CAT, attach_id=attach_id)
    again: dict[str, Any] = {**CAT, "attach_id": attach_id}
    for method, params in (("job.enqueue", again), ("job.enqueue_many", {"jobs": [again]})):
        with pytest.raises(RpcError, match=r"-32602 .*used for another job\.enqueue"):
            await shared.call(method, **params)
    assert (await shared.call("job.input", attach_id=attach_id, eof=True))["is_open"] is False
    assert (await shared.ended(first["job_id"]))["state"] == "DONE"


@each_case("spec", [STORED, MISSING, ECHO])
async def test_input_for_a_job_that_does_not_take_it_is_answered(shared: Harness, spec: dict[str, Any]) -> None:
    attach_id = await attach(shared)
    await shared.call("job.enqueue", **spec, attach_id=attach_id)
    assert await is_open(shared, attach_id) is False


async def test_input_for_a_job_that_is_cancelled_before_it_starts_is_answered(shared: Harness) -> None:
    attach_id = await attach(shared)
    ack = await shared.call("job.enqueue", **CAT, **LATER, attach_id=attach_id)
    answer = asyncio.ensure_future(is_open(shared, attach_id))
    await shared.call("job.cancel", job_id=ack["job_id"])
    assert await answer is False


async def test_input_for_a_job_that_existed_before_is_answered(shared: Harness) -> None:
    spec = {**CAT, **LATER, "idempotency_key": "once"}
    ack = await shared.call("job.enqueue", **spec)
    attach_id = await attach(shared)
    assert (await shared.call("job.enqueue", **spec, attach_id=attach_id))["existing"] is True
    assert await is_open(shared, attach_id) is False
    await shared.call("job.cancel", job_id=ack["job_id"])
