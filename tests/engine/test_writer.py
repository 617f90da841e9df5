"""The single writer: many commands a commit, bounded, synced in time; held up or out of space, nothing is lost."""

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from semantica_daemon.engine import commands
from semantica_daemon.store.database import Command, CommitResult
from semantica_daemon.store.tx import Tx
from tests.engine.manual_time import fire_only, rest
from tests.engine.sample_handlers import Door
from tests.harness import PATIENCE_S, START, Client, Harness, RpcError

Doors = Callable[[str], Door]
LARGE = {"filler": "x" * 200_000}


@contextmanager
def held(harness: Harness) -> Iterator[sqlite3.Connection]:
    """Somebody else is writing to the database, and takes long."""
    connection = sqlite3.connect(harness.paths.database, isolation_level=None, check_same_thread=False)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield connection
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        connection.close()


def fact(harness: Harness, name: str) -> str | None:
    connection = sqlite3.connect(f"file:{harness.paths.database}?mode=ro", uri=True)
    row = connection.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
    connection.close()
    return row[0] if row else None


async def pipelined(client: Client, count: int, **spec: Any) -> list[Any]:
    """The answers of `count` enqueues sent without waiting for any; a refusal is one of them."""
    sent = [client.send("job.enqueue", job_type="semantica.noop", **spec) for _ in range(count)]
    return await asyncio.gather(*(client.result(number) for number in sent), return_exceptions=True)


async def test_many_pipelined_enqueues_share_few_commits(real: Harness) -> None:
    await real.call("queue.pause")
    clients = [await real.client() for _ in range(8)]
    before = real.daemon.writer.batches
    answers = await asyncio.gather(*(pipelined(client, 250) for client in clients))
    commits = real.daemon.writer.batches - before
    assert len({ack["job_id"] for one in answers for ack in one}) == 2000
    assert commits < 200
    for client in clients:
        await client.close()


async def test_runs_share_commits_too(real: Harness) -> None:
    """The end of one run and the claim of the next are one commit: about one for a pair of slots, not four a job."""
    client = await real.client()
    before = real.daemon.writer.batches
    acks = await pipelined(client, 500)
    for ack in acks:
        await real.ended(ack["job_id"])
    assert real.daemon.writer.batches - before < 2 * 500
    await client.close()


async def test_the_command_queue_is_bounded_and_everybody_is_answered(
    real: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three times as many calls as fit: while the database is held, a batch of them is refused every second."""
    monkeypatch.setattr(commands, "MAX_WAITING", 1000)
    monkeypatch.setattr(commands, "ROOM_AGAIN", 500)
    await real.call("queue.pause")
    clients = [await real.client() for _ in range(12)]
    queue = real.daemon.commands
    most = 0
    with held(real):
        tasks = [asyncio.create_task(pipelined(client, 250)) for client in clients]
        while len(queue) < 1000:
            await asyncio.sleep(0)
            most = max(most, len(queue))
    answers = [answer for one in await asyncio.gather(*tasks) for answer in one]
    refused = [answer for answer in answers if isinstance(answer, RpcError)]
    assert most <= 1000
    assert all(one.data["retryable"] for one in refused)
    stats = (await real.call("admin.stats"))["queues"][0]
    assert stats["queued"] == 3000 - len(refused)
    for client in clients:
        await client.close()


async def test_a_database_held_for_a_while_only_costs_time(real: Harness) -> None:
    with held(real) as holder:
        threading.Timer(0.5, lambda: holder.execute("ROLLBACK")).start()
        job = await real.ended((await real.enqueue())["job_id"])
    assert job["state"] == "DONE"


async def test_a_database_held_for_long_refuses_callers_and_keeps_the_ends_of_runs(
    working: Harness, door: Doors
) -> None:
    place = door("a")
    running = (await working.enqueue("hold", payload={"door": "a"}))["job_id"]
    assert await asyncio.to_thread(place.entered.wait, 40)
    with held(working):
        place.open.set()
        for _ in range(2):
            with pytest.raises(RpcError) as refused:
                await working.enqueue(user_tag="refused")
            assert (refused.value.code, refused.value.data["code"]) == (5001, "E_DATABASE_BUSY")
            assert refused.value.data["retryable"] is True
        assert await working.state(running) == "RUNNING", "reads go on"
        assert (await working.call("admin.health"))["status"] == "degraded"
    assert (await working.ended(running))["result_summary"] == "held"
    assert (await working.ended((await working.enqueue())["job_id"]))["state"] == "DONE"
    assert (await working.call("job.list", user_tag="refused"))["items"] == []
    assert (await working.call("admin.health"))["status"] == "ready"


def limit_pages(harness: Harness, more: int) -> None:
    """As if the disk had so many pages left. Between commands, so that the writer's thread is not at work."""
    connection = harness.daemon.writer._database._connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + more}")


async def test_a_full_disk_refuses_writes_reads_go_on_and_it_recovers_by_itself(working: Harness, door: Doors) -> None:
    place = door("a")
    kept = (await working.enqueue(user_tag="kept"))["job_id"]
    running = (await working.enqueue("hold", payload={"door": "a"}))["job_id"]
    assert await asyncio.to_thread(place.entered.wait, 40)
    await working.settle()
    limit_pages(working, 0)
    with pytest.raises(RpcError) as refused:
        await working.enqueue(payload=LARGE)
    assert (refused.value.code, refused.value.data["code"]) == (5001, "E_STORAGE_FULL")
    assert refused.value.data["retryable"] is True
    assert [one["job_id"] for one in (await working.call("job.list", user_tag="kept"))["items"]] == [kept]
    limit_pages(working, 100_000)
    place.open.set()
    assert (await working.ended(running))["state"] == "DONE"
    assert (await working.ended((await working.enqueue(payload=LARGE))["job_id"]))["state"] == "DONE"


async def test_the_end_of_a_run_that_finds_no_room_is_kept_until_there_is(working: Harness) -> None:
    """Its result is larger than what is left; once there is room again it ends as it had ended."""
    await working.call("queue.pause")
    job_id = (await working.enqueue("give", payload={"what": "large"}))["job_id"]
    await working.settle()
    limit_pages(working, 20)
    await working.call("queue.resume")
    writer = working.daemon.writer
    while writer.trouble is None:
        await rest()
    assert writer.trouble == "E_STORAGE_FULL"
    assert await working.state(job_id) == "RUNNING"
    limit_pages(working, 100_000)
    job = await working.ended(job_id)
    assert (job["state"], len(job["result_summary"]), job["run_count"]) == ("DONE", 9_000_000, 1)
    assert (await working.call("admin.health"))["status"] == "ready"


async def test_one_too_large_for_the_disk_fails_and_a_small_one_after_it_is_taken(working: Harness) -> None:
    limit_pages(working, 20)
    client = await working.client()
    large = client.send("job.enqueue", job_type="semantica.noop", payload=LARGE)
    with pytest.raises(RpcError) as refused:
        await client.result(large)
    assert refused.value.data["code"] == "E_STORAGE_FULL"
    assert (await working.ended((await working.enqueue())["job_id"]))["state"] == "DONE"
    await client.close()


async def test_health_is_ready_again_after_the_trouble_though_no_client_writes(manual: Harness) -> None:
    await manual.advance(2000)  # nothing is left to sync
    limit_pages(manual, 20)
    with pytest.raises(RpcError):
        await manual.enqueue(payload=LARGE)
    assert (await manual.call("admin.health"))["status"] == "degraded"
    limit_pages(manual, 100_000)
    await fire_only(manual, 500)
    await tried(manual)
    assert (await manual.call("admin.health"))["status"] == "ready"


async def test_while_the_disk_is_full_the_writer_retries_and_logs_twice_a_second(
    manual: Harness, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ten commands that must be committed, each submitted while the others wait already: still one timer."""
    await manual.settle()
    limit_pages(manual, 0)
    results: list[Any] = []
    for _ in range(10):
        manual.daemon.commands.submit(Command(write_much, None), results.append, must_commit=True, slow=True)
        await tried(manual)
    capsys.readouterr()
    timers = 0
    for _ in range(20):
        timers += await fire_only(manual, 500)
        await tried(manual)
    assert timers <= 40, "in ten seconds: 20 of the writer, and those of other parts"
    assert capsys.readouterr().out.count("batch_lost") <= 20
    limit_pages(manual, 100_000)
    await fire_only(manual, 500)
    while len(results) < 10:
        await rest()
    assert results == [None] * 10


def write_much(tx: Tx, request: None) -> None:
    tx.announce("queue.paused", "x" * 200_000)


async def tried(harness: Harness) -> None:
    """Waits until the writer has tried what it has, and waits for its timer."""
    await rest()
    while harness.daemon.writer._is_busy:
        await rest()


def recorded(harness: Harness) -> list[CommitResult]:
    commits: list[CommitResult] = []
    harness.daemon.writer._listeners.append(commits.append)
    return commits


@pytest.mark.parametrize("durable", [False, True])
async def test_only_a_durable_enqueue_is_answered_after_a_synced_commit(manual: Harness, durable: bool) -> None:
    await manual.call("queue.pause")
    await manual.settle()
    commits = recorded(manual)
    await manual.enqueue(durable=durable)
    assert [commit.synced for commit in commits] == [durable]
    if durable:
        assert fact(manual, "synced_at") == str(START)


async def test_one_durable_of_many_makes_the_whole_commit_synced(manual: Harness) -> None:
    await manual.settle()
    commits = recorded(manual)
    jobs = [{"job_type": "semantica.noop"}, {"job_type": "semantica.noop", "durable": True}]
    await manual.call("job.enqueue_many", jobs=jobs)
    assert commits[0].synced


@pytest.mark.parametrize("method", ["job.enqueue", "job.enqueue_many", "schedule.trigger"])
async def test_a_job_of_a_durable_template_is_answered_after_a_synced_commit(manual: Harness, method: str) -> None:
    await manual.call("template.put", name="kept", spec={"job_type": "semantica.noop", "durable": True})
    await manual.call("schedule.put", name="yearly", template_id="kept", cron_expression="@yearly")
    await manual.call("queue.pause")
    await manual.settle()
    commits = recorded(manual)
    spec = {"job_type": "semantica.noop", "template_id": "kept"}
    params: dict[str, dict[str, Any]] = {
        "job.enqueue": spec,
        "job.enqueue_many": {"jobs": [{"job_type": "semantica.noop"}, spec]},
        "schedule.trigger": {"schedule_id": "yearly"},
    }
    await manual.call(method, **params[method])
    assert [commit.synced for commit in commits] == [False, True]
    assert fact(manual, "synced_at") == str(START)


async def test_a_busy_writer_syncs_once_a_second(manual: Harness) -> None:
    """Ten commits a second for five seconds: a synced one in every second, and few more."""
    await manual.settle()
    commits = recorded(manual)
    synced = set()
    for _ in range(50):
        await manual.enqueue()
        await fire_only(manual, 100)
        await manual.enqueue()
        synced.add(fact(manual, "synced_at"))
    assert 5 <= len(synced - {None}) <= 7
    assert sum(commit.synced for commit in commits) <= 7


async def test_the_last_burst_is_followed_by_one_synced_commit_and_then_by_none(manual: Harness) -> None:
    await manual.enqueue()
    await manual.settle()
    commits = recorded(manual)
    await fire_only(manual, 1000)
    while not commits:
        await rest()
    assert [commit.synced for commit in commits] == [True]
    assert fact(manual, "synced_at") == str(START + 1000)
    await fire_only(manual, 30_000)
    assert len(commits) == 1


async def test_what_cannot_be_stored_is_dropped_alone_and_nobody_else_notices(manual: Harness) -> None:
    def poison(tx: Tx, request: None) -> None:
        tx.announce("queue.paused", "a lone surrogate: \ud800")

    told: list[Any] = []
    manual.daemon.commands.submit(Command(poison, None), told.append, must_commit=True)
    client = await manual.client()
    numbers = [client.send("job.enqueue", job_type="semantica.noop") for _ in range(20)]
    acks = [await client.result(number) for number in numbers]
    await manual.settle()
    assert [error.code for error in told] == ["E_INTERNAL"]
    assert {await manual.state(ack["job_id"]) for ack in acks} == {"DONE"}
    await client.close()


async def test_a_command_submitted_while_a_batch_fails_in_the_thread_is_begun(manual: Harness) -> None:
    """The failed batch is answered, and so is everything that was submitted while it ran. On the manual clock no timer
    begins another batch."""
    reached, proceed = threading.Event(), threading.Event()

    def fails_late(tx: Tx, request: None) -> None:
        tx.announce("queue.paused", "not stored")
        reached.set()
        proceed.wait(PATIENCE_S)
        raise RuntimeError("after it has written")

    results: list[Any] = []
    manual.daemon.commands.submit(Command(fails_late, None), results.append, slow=True)
    await asyncio.to_thread(reached.wait, PATIENCE_S)
    client = await manual.client()
    number = client.send("job.enqueue", job_type="semantica.noop")
    while not len(manual.daemon.commands):  # noqa: ASYNC110 - submitting sets no event
        await asyncio.sleep(0)
    proceed.set()
    await client.result(number)
    assert [type(result) for result in results] == [RuntimeError]
    await client.close()
