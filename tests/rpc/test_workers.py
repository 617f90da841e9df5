"""External workers over the socket: claims that wait, clients that go away, races, and everything that is refused."""

import asyncio
import itertools
import sqlite3
from typing import Any

import pytest

from tests.harness import Client, Harness, RpcError
from tests.rpc.wire import Wire, request
from tests.rpc.worker_examples import begin, external, new_worker
from tests.stopwatch import Stopwatch


async def waiting_claim(harness: Harness, client: Client, worker_id: str, **params: Any) -> int:
    """Sends a claim, and returns its id when the daemon has found no job for it."""
    number = client.send("worker.claim", worker_id=worker_id, wait_ms=60_000, **params)
    await client.call("initialized")
    await harness.settle()
    return number


async def states(harness: Harness, *job_ids: str) -> list[str]:
    return [await harness.state(job_id) for job_id in job_ids]


async def test_a_claim_waits_until_there_is_a_job(real: Harness) -> None:
    worker_id, client = await new_worker(real), await real.client()
    number = await waiting_claim(real, client, worker_id)
    watch = Stopwatch()
    job_id = await external(real)
    (claimed,) = (await client.result(number))["jobs"]
    assert claimed["job"]["job_id"] == job_id
    assert watch.seconds() < 1


async def test_a_claim_that_finds_nothing_returns_in_time(real: Harness) -> None:
    worker_id, watch = await new_worker(real), Stopwatch()
    for wait_ms in (0, 1, 100):
        assert (await real.call("worker.claim", worker_id=worker_id, wait_ms=wait_ms))["jobs"] == []
    assert watch.seconds() < 3
    document = await real.call("rpc.discover")
    (claim,) = [method for method in document["methods"] if method["name"] == "worker.claim"]
    (wait,) = [param for param in claim["params"] if param["name"] == "wait_ms"]
    assert wait["schema"]["default"] == 8000


async def test_each_job_wakes_one_claim_in_the_order_of_their_arrival(real: Harness) -> None:
    worker_id = await new_worker(real)
    clients = [await real.client() for _ in range(3)]
    numbers = [await waiting_claim(real, client, worker_id) for client in clients]
    for client, number in zip(clients, numbers, strict=True):
        job_id = await external(real)
        (claimed,) = (await client.result(number))["jobs"]
        assert claimed["job"]["job_id"] == job_id


async def test_many_jobs_at_once_wake_every_claim(real: Harness) -> None:
    worker_id = await new_worker(real)
    clients = [await real.client() for _ in range(5)]
    numbers = [await waiting_claim(real, client, worker_id) for client in clients]
    acks = await real.call("job.enqueue_many", jobs=[{"job_type": "t", "execution_mode": "EXTERNAL"}] * 5)
    found = [await client.result(number) for client, number in zip(clients, numbers, strict=True)]
    assert [one["jobs"][0]["job"]["job_id"] for one in found] == [ack["job_id"] for ack in acks["jobs"]]


async def test_a_claim_is_woken_only_by_a_job_of_its_filter(real: Harness) -> None:
    worker_id, client = await new_worker(real), await real.client()
    number = await waiting_claim(real, client, worker_id, queues=["q"], job_types=["work"])
    other = await external(real)
    await real.settle()
    wanted = await external(real, queue="q")
    (claimed,) = (await client.result(number))["jobs"]
    assert claimed["job"]["job_id"] == wanted
    assert await states(real, other) == ["QUEUED"]


async def test_a_resumed_queue_and_a_released_reservation_wake_claims(real: Harness) -> None:
    worker_id, client = await new_worker(real), await real.client()
    await real.call("queue.pause", queue="default")
    job_id = await external(real)
    number = await waiting_claim(real, client, worker_id)
    await real.call("queue.resume", queue="default")
    assert (await client.result(number))["jobs"][0]["job"]["job_id"] == job_id
    reserved = await real.call("reservation.acquire", reserved_by="me")
    job_id = await external(real)
    number = await waiting_claim(real, client, worker_id)
    assert await states(real, job_id) == ["QUEUED"]
    await real.call("reservation.release", reservation_id=reserved["reservation_id"])
    assert (await client.result(number))["jobs"][0]["job"]["job_id"] == job_id


async def test_a_rate_and_a_key_that_get_room_wake_claims(manual: Harness) -> None:
    worker_id, client = await new_worker(manual), await manual.client()
    await manual.call("queue.configure", queue="default", rate={"count": 1, "per_ms": 10_000})
    await begin(manual, worker_id)
    number = await waiting_claim(manual, client, worker_id)
    job_id = await external(manual)
    await manual.advance(9_999)
    assert await states(manual, job_id) == ["QUEUED"]
    await manual.advance(1)
    assert (await client.result(number))["jobs"][0]["job"]["job_id"] == job_id
    first = await begin(manual, worker_id, queue="other", concurrency_key="k")
    second = await external(manual, queue="other", concurrency_key="k")
    number = await waiting_claim(manual, client, worker_id)
    await manual.call("worker.complete", worker_id=worker_id, run_id=first["run_id"])
    assert (await client.result(number))["jobs"][0]["job"]["job_id"] == second


async def test_a_client_that_is_gone_takes_no_job(real: Harness) -> None:
    worker_id, client, other = await new_worker(real), await real.client(), await real.client()
    await waiting_claim(real, client, worker_id)
    number = await waiting_claim(real, other, worker_id)
    client.writer.transport.abort()
    job_id = await external(real)
    (claimed,) = (await other.result(number))["jobs"]
    assert claimed["job"]["job_id"] == job_id
    assert (claimed["job"]["claim_attempts"], claimed["job"]["run_count"]) == (0, 1)


async def test_a_client_that_goes_away_while_its_claim_is_committed_gives_the_job_back(real: Harness) -> None:
    worker_id = await new_worker(real)
    job_id = await external(real)
    wire = await Wire.open(real.paths.socket)
    wire.put(request("worker.claim", worker_id=worker_id))
    wire.writer.transport.abort()
    (claimed,) = (await real.call("worker.claim", worker_id=worker_id, wait_ms=20_000))["jobs"]
    assert claimed["job"]["job_id"] == job_id


async def test_a_client_that_has_half_closed_gets_its_job(real: Harness) -> None:
    worker_id = await new_worker(real)
    wire = await Wire.open(real.paths.socket)
    wire.put(request("worker.claim", worker_id=worker_id, wait_ms=60_000))
    wire.writer.write_eof()
    await real.settle()
    job_id = await external(real)
    answer = await wire.message()
    assert answer["result"]["jobs"][0]["job"]["job_id"] == job_id
    await wire.ended()


async def test_a_claim_that_its_client_cancels_takes_no_job(real: Harness) -> None:
    worker_id, client = await new_worker(real), await real.client()
    number = await waiting_claim(real, client, worker_id)
    await client.call("$/cancelRequest", **{"id": number})
    with pytest.raises(RpcError) as refused:
        await client.result(number)
    assert refused.value.code == -32800
    job_id = await external(real)
    await real.settle()
    assert await states(real, job_id) == ["QUEUED"]


async def test_a_worker_that_waits_is_alive(manual: Harness) -> None:
    worker_id, client = await new_worker(manual), await manual.client()
    await waiting_claim(manual, client, worker_id)
    await manual.advance(600_000)
    (waiting,) = (await manual.call("worker.list"))["workers"]
    assert waiting["alive"]
    await client.close()
    await manual.advance(10_000)
    (gone,) = (await manual.call("worker.list"))["workers"]
    assert not gone["alive"]


async def test_a_silent_worker_loses_its_run_by_a_timer(manual: Harness) -> None:
    worker_id = await new_worker(manual)
    claimed = await begin(manual, worker_id)
    await manual.advance(29_000)
    await manual.call("worker.heartbeat", worker_id=worker_id)
    await manual.advance(29_999)
    assert await states(manual, claimed["job"]["job_id"]) == ["RUNNING"]
    await manual.advance(1)
    job = await manual.job(claimed["job"]["job_id"])
    assert (job["state"], job["error"]["code"]) == ("FAILED", "E_LEASE_LOST")


async def test_a_run_reports_by_its_token(real: Harness) -> None:
    worker_id = await new_worker(real)
    claimed = await begin(real, worker_id)
    token, job_id = claimed["run_token"], claimed["job"]["job_id"]
    await real.call("run.progress", run_token=token, percent=40, message="on its way")
    await real.call("run.log", run_token=token, message="a line")
    await real.call("run.result", run_token=token, result=[1])
    job = await real.job(job_id)
    assert (job["progress"]["percent"], job["result_summary"]) == (40, [1])
    await real.call("worker.complete", worker_id=worker_id, run_id=claimed["run_id"])
    assert (await real.job(job_id))["result_summary"] == [1], "complete without a result keeps it"
    with pytest.raises(RpcError, match="E_RUN_OVER"):
        await real.call("run.progress", run_token=token, percent=50)


async def test_what_is_wrong_is_refused_and_changes_nothing(real: Harness) -> None:
    owner, other = await new_worker(real), await new_worker(real)
    run_id = (await begin(real, owner))["run_id"]
    refusals: list[tuple[str, dict[str, Any], int, str]] = [
        ("worker.claim", {"worker_id": "nobody", "wait_ms": 0}, 4001, "E_WORKER_NOT_FOUND"),
        ("worker.heartbeat", {"worker_id": "nobody"}, 4001, "E_WORKER_NOT_FOUND"),
        ("worker.leave", {"worker_id": "nobody"}, 4001, "E_WORKER_NOT_FOUND"),
        ("worker.complete", {"worker_id": "nobody", "run_id": run_id}, 4001, "E_WORKER_NOT_FOUND"),
        ("worker.complete", {"worker_id": other, "run_id": run_id}, 4002, "E_LEASE_LOST"),
        ("worker.complete", {"worker_id": owner, "run_id": "unknown"}, 4002, "E_LEASE_LOST"),
        ("worker.fail", {"worker_id": other, "run_id": run_id, "message": ""}, 4002, "E_LEASE_LOST"),
        ("worker.fail", {"worker_id": owner, "run_id": run_id}, -32602, "E_PARAMS"),
        ("worker.fail", {"worker_id": owner, "run_id": run_id, "message": "", "class": "x"}, -32602, "E_PARAMS"),
        ("worker.claim", {"worker_id": owner, "max": 0}, -32602, "E_PARAMS"),
        ("worker.claim", {"worker_id": owner, "lease_ms": 0}, -32602, "E_PARAMS"),
        ("worker.claim", {"worker_id": owner, "queues": ["not a queue"]}, -32602, "E_PARAMS"),
        ("worker.register", {"name": ""}, -32602, "E_PARAMS"),
    ]
    before = leases_and_runs(real)
    for method, params, number, code in refusals:
        with pytest.raises(RpcError) as refused:
            await real.call(method, **params)
        assert (refused.value.code, refused.value.data["code"]) == (number, code), (method, params)
        assert refused.value.data["hint"]
    assert leases_and_runs(real) == before


def leases_and_runs(harness: Harness) -> list[Any]:
    with sqlite3.connect(harness.paths.database) as db:
        tables = ("leases", "job_runs", "jobs")
        return [db.execute(f"SELECT * FROM {table}").fetchall() for table in tables]


async def test_eight_workers_that_race_end_each_item_exactly_once(real: Harness) -> None:
    """Some fail their first attempt, some leave in the middle and come again."""
    jobs = {await external(real, max_attempts=3, backoff_base_ms=0, payload={"n": n}) for n in range(60)}
    began: dict[str, list[tuple[str, str]]] = {}
    await asyncio.gather(*(work(real, f"w{number}", number, began) for number in range(8)))
    ended = [await real.job(job_id) for job_id in jobs]
    assert {job["state"] for job in ended} == {"DONE"}
    for job in ended:
        done = [run for run in job["runs"] if run["status"] == "DONE"]
        assert len(done) == 1
        assert [run["run_id"] for run in job["runs"]] == [run_id for run_id, _ in began[job["job_id"]]]
        assert [run["worker_id"] for run in job["runs"]] == [worker for _, worker in began[job["job_id"]]]
        spans = [(run["started_at"], run["finished_at"]) for run in job["runs"]]
        assert all(before[1] <= after[0] for before, after in itertools.pairwise(spans)), "runs overlap"
    workers = (await real.call("worker.list"))["workers"]
    assert sum(one["items_processed"] for one in workers) == 60


async def work(real: Harness, name: str, number: int, began: dict[str, list[tuple[str, str]]]) -> None:
    client = await real.client()
    worker_id = (await client.call("worker.register", name=name))["worker_id"]
    for turn in itertools.count(number):
        found = (await client.call("worker.claim", worker_id=worker_id, wait_ms=300, max=1 + turn % 3))["jobs"]
        for one in found:
            began.setdefault(one["job"]["job_id"], []).append((one["run_id"], worker_id))
        if not found:
            break
        if turn % 11 == 10:
            await client.call("worker.leave", worker_id=worker_id)
            worker_id = (await client.call("worker.register", name=name))["worker_id"]
            continue
        for one in found:
            fails = one["job"]["attempts"] == 1 and one["job"]["payload"]["n"] % 7 == 0
            end = ("worker.fail", {"message": "again"}) if fails else ("worker.complete", {})
            await client.call(end[0], worker_id=worker_id, run_id=one["run_id"], **end[1])
    await client.close()
