"""The client for anyio: the same results as the other one, and many calls at once over one connection."""

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from semantica_daemon import paths
from semantica_daemon.client import CallRefused, ConnectionLost
from semantica_daemon.client.async_client import AsyncClient
from tests.harness import PATIENCE_S, Process

LATER = {"type": "AFTER", "delay_ms": 3_600_000}


def client_of(process: Process) -> AsyncClient:
    return AsyncClient(paths.find({"SEMANTICA_HOME": str(process.home)}), autostart=False)


@pytest.fixture
async def client(daemon: Process) -> AsyncIterator[AsyncClient]:
    async with client_of(daemon) as found:
        yield found


async def test_a_command_is_run_and_its_end_is_returned(client: AsyncClient, tmp_path: Path) -> None:
    job = await client.run(["sh", "-c", "pwd > here; exit 3"], cwd=str(tmp_path), user_tag="mine")
    assert (job["state"], job["exit_code"], job["user_tag"]) == ("FAILED", 3, "mine")
    assert (tmp_path / "here").read_text() == f"{tmp_path}\n"


async def test_calls_are_made_at_once_over_one_connection(client: AsyncClient) -> None:
    """The one that waits is asked first, and ends last."""
    ack = await client.enqueue("semantica.noop", schedule=LATER)
    ended: list[str] = []

    async def wait() -> None:
        ended.append((await client.wait(ack["job_id"]))["state"])

    async def echo(number: int) -> None:
        job_id = (await client.enqueue("semantica.echo", {"n": number}))["job_id"]
        assert (await client.wait(job_id))["result_summary"] == {"n": number}
        ended.append("echo")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(wait)
        for number in range(20):
            tasks.start_soon(echo, number)
        while len(ended) < 20:
            await client.call("admin.health")
        assert (await client.cancel(ack["job_id"]))["cancelled"] == [ack["job_id"]]
    assert ended == ["echo"] * 20 + ["CANCELLED"]


async def test_a_refusal_is_raised_as_it_is(daemon: Process) -> None:
    with pytest.raises(CallRefused, match="no job 0000"):
        async with client_of(daemon) as client:
            await client.get("00000000")


async def test_a_cancelled_caller_cancels_its_call_at_the_daemon(client: AsyncClient) -> None:
    """Twice 900 waits that are given up: the daemon takes 1,000 calls of a connection at once."""
    ack = await client.enqueue("semantica.noop", schedule=LATER)
    with anyio.fail_after(PATIENCE_S):
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                for _ in range(900):
                    tasks.start_soon(client.wait, ack["job_id"])
                await anyio.wait_all_tasks_blocked()
                assert (await client.call("admin.health"))["status"] == "ready"
                tasks.cancel_scope.cancel()
    await client.cancel(ack["job_id"])


async def test_a_job_is_followed_from_its_first_event_to_its_end(client: AsyncClient) -> None:
    ack = await client.enqueue("semantica.sleep", {"ms": 50})
    types = ["job.queued", "job.started", "job.done"]
    assert [event["event_type"] async for event in client.follow(ack["job_id"])] == types
    assert [event["event_type"] async for event in client.follow(ack["job_id"])] == types, "when it has ended, too"


async def test_logs_come_with_their_streams_run_after_run(client: AsyncClient) -> None:
    argv = ["sh", "-c", "echo out $SEMANTICA_ATTEMPT; echo err >&2; printf '\\377'; exit 1"]
    ack = await client.add(argv, "/", max_attempts=2, backoff_base_ms=50)
    found = [piece async for piece in client.logs(ack["job_id"])]
    assert b"".join(data for stream, data in found if stream == "stdout") == b"out 1\n\xffout 2\n\xff"
    assert b"".join(data for stream, data in found if stream == "stderr") == b"err\nerr\n"


async def test_subscriptions_get_their_own_events_and_end_at_the_daemon_too(client: AsyncClient) -> None:
    for _ in range(150):  # 100 at once are the limit
        async with client.subscribe(user_tag="none"):
            pass
    async with client.subscribe(user_tag="one") as first, client.subscribe(user_tag="two") as second:
        one = (await client.enqueue("semantica.noop", user_tag="one"))["job_id"]
        two = (await client.enqueue("semantica.noop", user_tag="two"))["job_id"]
        assert [(await second.receive())["job_id"] for _ in range(3)] == [two] * 3
        assert [(await first.receive())["job_id"] for _ in range(3)] == [one] * 3


async def test_a_large_answer_comes_whole(client: AsyncClient) -> None:
    payload = {"text": "ä" * 3_000_000}
    job = await client.wait((await client.enqueue("semantica.echo", payload))["job_id"])
    assert job["result_summary"] == payload


async def test_when_the_daemon_is_gone_every_call_and_subscription_ends(home: Path) -> None:
    with Process(home).start() as process:
        async with client_of(process) as client:
            ack = await client.enqueue("semantica.noop", schedule=LATER)
            async with client.subscribe() as events:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(wait_until_lost, client, ack["job_id"])
                    await client.call("admin.health")
                    process.kill()
                assert [event async for event in events] == []
            with pytest.raises(ConnectionLost):
                await client.get(ack["job_id"])


HANDLER = """
from semantica_daemon.client.async_client import AsyncClient

async def parent(ctx, payload):
    async with AsyncClient() as client:
        ack = await client.enqueue("semantica.echo", payload, user_tag=ctx.job_id)
        return (await client.wait(ack["job_id"]))["result_summary"]
"""


def test_an_async_handler_adds_a_job_and_waits_for_it(home: Path, tmp_path: Path) -> None:
    (tmp_path / "parents.py").write_text(HANDLER)
    config = f'handler_path = ["{tmp_path}"]\n[daemon]\nmax_slots = 2\n[handlers]\nPARENT = "parents:parent"\n'
    (home / "config.toml").write_text(config)
    with Process(home).start() as process:
        job_id = process.call("job.enqueue", job_type="PARENT", payload={"a": 1})["job_id"]
        job = process.call("job.wait", job_id=job_id, timeout_ms=PATIENCE_S * 1000)["job"]
        assert (job["state"], job["result_summary"]) == ("DONE", {"a": 1}), job["error"]


async def wait_until_lost(client: AsyncClient, job_id: str) -> None:
    with pytest.raises(ConnectionLost):
        await client.wait(job_id)
