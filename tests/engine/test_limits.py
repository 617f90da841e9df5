"""Rates and groups in a whole daemon: time alone starts the next job, and a reload puts new limits into force."""

import asyncio
from pathlib import Path

import pytest

from tests.harness import START, Harness, ManualClock, Process, RpcError, daemon

RATED = "[daemon]\nmax_slots = 2\n[queues.api]\nrate = {count = 2, per_ms = 1000}\n"


async def states(harness: Harness, job_ids: list[str]) -> list[str]:
    return [await harness.state(job_id) for job_id in job_ids]


async def test_time_alone_starts_the_next_jobs_of_a_rate(home: Path) -> None:
    async with daemon(home, ManualClock(), RATED) as harness:
        ids = [(await harness.enqueue(queue="api"))["job_id"] for _ in range(5)]
        await harness.settle()
        assert await states(harness, ids) == ["DONE", "DONE", "QUEUED", "QUEUED", "QUEUED"]
        why = await harness.call("job.explain", job_id=ids[2])
        assert [(one["kind"], one.get("at")) for one in why["reasons"]] == [("rate", START + 1000)]
        await harness.advance(999)
        assert await states(harness, ids[2:]) == ["QUEUED", "QUEUED", "QUEUED"]
        await harness.advance(1)
        assert await states(harness, ids[2:]) == ["DONE", "DONE", "QUEUED"]
        await harness.advance(1000)
        assert await states(harness, ids[2:]) == ["DONE", "DONE", "DONE"]


async def test_a_reload_puts_the_limits_of_the_file_into_force(home: Path) -> None:
    async with daemon(home, ManualClock(), RATED) as harness:
        ids = [(await harness.enqueue(queue="api", concurrency_key=f"k{n}"))["job_id"] for n in range(4)]
        await harness.settle()
        assert await states(harness, ids) == ["DONE", "DONE", "QUEUED", "QUEUED"]
        text = RATED.replace("rate", "keys").replace("{count = 2, per_ms = 1000}", '{"k3" = 0}')
        (harness.paths.data / "config.toml").write_text(text)
        found = await harness.call("admin.config", reload=True)
        assert found["file"]["changed"] == ["queues.api"]
        await harness.settle()
        assert await states(harness, ids[2:]) == ["DONE", "QUEUED"]
        why = await harness.call("job.explain", job_id=ids[3])
        assert why["summary"] == "no job with the key k3 may run"


async def test_a_group_is_waited_for_without_polling(manual: Harness) -> None:
    await manual.call("group.create", chain_group_id="g", on_failure="stop")
    await manual.call("queue.pause")
    for _ in range(3):
        await manual.enqueue(chain_group_id="g")
    waiting = asyncio.ensure_future(manual.call("group.wait", chain_group_id="g", timeout_ms=600_000))
    await manual.settle()
    assert not waiting.done()
    await manual.call("queue.resume")
    found = await waiting
    assert (found["finished"], found["group"]["counts"]) == (True, {"DONE": 3})


async def test_a_retried_member_counts_as_its_retry(real: Harness) -> None:
    failing = {"payload": {"argv": ["false"]}, "execution_mode": "SUBPROCESS", "chain_group_id": "g"}
    first = (await real.enqueue("false", **failing))["job_id"]
    await real.enqueue(chain_group_id="g")
    assert (await real.call("group.wait", chain_group_id="g"))["group"]["status"] == "PARTIAL"
    await real.call("job.retry", job_id=first, payload={"argv": ["true"]})
    found = (await real.call("group.wait", chain_group_id="g"))["group"]
    assert (found["status"], found["counts"]) == ("DONE", {"DONE": 2})


async def test_an_unknown_group_is_not_found(real: Harness) -> None:
    for method in ("group.get", "group.cancel", "group.wait"):
        with pytest.raises(RpcError) as refused:
            await real.call(method, chain_group_id="nobody")
        assert (refused.value.code, refused.value.data["code"]) == (4001, "E_GROUP_NOT_FOUND")


def test_keys_groups_and_rates_hold_after_kill_9(home: Path) -> None:
    """Three keys wait beside each other, so that the next daemon has to order their sources."""
    with Process(home) as process:
        process.start()
        process.call("queue.configure", queue="default", slots=1, rate={"count": 1, "per_ms": 3_600_000})
        process.call("group.create", chain_group_id="g", mode="sequential")
        jobs = [{"job_type": "semantica.noop", "concurrency_key": key, "chain_group_id": "g"} for key in "abc"]
        acks = process.call("job.enqueue_many", jobs=[*jobs, {"job_type": "semantica.noop"}])["jobs"]
        process.call("job.wait", job_id=acks[0]["job_id"])
        process.kill()
        process.start()
        states = [process.call("job.get", job_id=ack["job_id"])["state"] for ack in acks]
        assert states == ["DONE", "QUEUED", "QUEUED", "QUEUED"]
        process.call("queue.configure", queue="default", rate={"count": 0, "per_ms": 1})
        assert process.call("group.wait", chain_group_id="g")["group"]["status"] == "DONE"
        assert process.stop() == 0
