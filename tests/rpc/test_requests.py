"""JSON-RPC itself: ids, params, batches, notifications, cancellation, errors, and the greetings of LSP clients."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cases import each_case
from tests.harness import Harness, RpcError
from tests.rpc.wire import Wire, exchange, request, stored

LATER = {"type": "AFTER", "delay_ms": 3_600_000}


async def wired(harness: Harness, headers: bool = False) -> Wire:
    return await Wire.open(harness.paths.socket, headers)


async def waiting_job(harness: Harness) -> str:
    """A job that nobody will ever run here: job.wait on it waits."""
    return str((await harness.enqueue(schedule=LATER))["job_id"])


@each_case(
    "text",
    [
        "0",
        "-7",
        "1.5",
        "1e2",
        '""',
        '"0"',
        '"a\\nb\\u00e4"',
        '"ä€😀"',
        "9007199254740993",
        "123456789012345678901234567890",
    ],
)
@each_case("method", ["initialized", "job.plan", "no.such"])
async def test_an_id_comes_back_as_it_was_written(shared: Harness, text: str, method: str) -> None:
    """By a call that is a question, one that goes through the writer, and one that is refused."""
    wire = await wired(shared)
    params = '{"job_type": "semantica.noop"}' if method == "job.plan" else "null"
    wire.put(f'{{"jsonrpc":"2.0","id":{text},"method":"{method}","params":{params}}}'.encode())
    reply = await wire.message()
    assert reply["id"] == json.loads(text)
    assert type(reply["id"]) is type(json.loads(text))


async def test_a_null_id_is_a_request_and_is_answered_with_null(real: Harness) -> None:
    wire = await wired(real)
    reply = await wire.request(request("initialized", id=None))
    assert reply == {"jsonrpc": "2.0", "id": None, "result": None}


async def test_one_id_used_twice_at_once_gets_two_answers(real: Harness) -> None:
    """The client's mistake, but each call is answered, and both end with the connection."""
    job_id = await waiting_job(real)
    wire = await wired(real)
    for timeout_ms in (50, 60_000):
        wire.put(request("job.wait", id=None, job_id=job_id, timeout_ms=timeout_ms))
    assert (await wire.message())["result"]["finished"] is False
    wire.put(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":null}}')
    assert (await wire.message())["error"]["code"] == -32800


async def test_every_call_ends_with_its_connection_also_those_that_share_an_id(manual: Harness) -> None:
    """A client that is gone looks like one that has half-closed; the daemon finds out within seconds."""
    job_id = await waiting_job(manual)
    wire = await wired(manual)
    before = calls_under_way()
    for number in (1, 1, 2, None, None):
        wire.put(request("job.wait", id=number, job_id=job_id, timeout_ms=60_000))
    while calls_under_way() < before + 5:
        await manual.settle()
    wire.close()
    for _ in range(10):
        await manual.advance(1000)
    assert calls_under_way() == before


def calls_under_way() -> int:
    return sum("Calls._run" in repr(task.get_coro()) for task in asyncio.all_tasks())


@each_case(
    "params",
    ["", ',"params":null', ',"params":[]', ',"params":{}', ',"params":[ ]', ',"params":[null]', ',"params": { }'],
)
async def test_no_arguments_may_be_written_in_any_way(shared: Harness, params: str) -> None:
    wire = await wired(shared)
    reply = await wire.request(f'{{"jsonrpc":"2.0","id":1,"method":"admin.health"{params}}}'.encode())
    assert reply["result"]["status"] == "ready"
    reply = await wire.request(f'{{"jsonrpc":"2.0","id":1,"method":"job.get"{params}}}'.encode())
    assert reply["error"]["code"] == -32602
    assert "job_id" in reply["error"]["message"]


@each_case("params", ["[1]", "7", '"x"', "true", '[{"job_id":"abcd"}]'])
async def test_arguments_that_are_no_object_are_refused(shared: Harness, params: str) -> None:
    wire = await wired(shared)
    error = (await wire.request(f'{{"jsonrpc":"2.0","id":1,"method":"job.get","params":{params}}}'.encode()))["error"]
    assert (error["code"], error["data"]["path"]) == (-32602, "$")


async def test_a_slash_in_a_method_name_may_be_escaped(real: Harness) -> None:
    job_id = await waiting_job(real)
    wire = await wired(real)
    wire.put(request("job.wait", id=0, job_id=job_id, timeout_ms=60_000))
    wire.put(rb'{"jsonrpc":"2.0","method":"$\/cancelRequest","params":{"id":0}}')
    reply = await wire.message()
    assert (reply["id"], reply["error"]["code"]) == (0, -32800)


async def test_answers_come_as_they_are_ready_not_in_order(real: Harness) -> None:
    job_id = await waiting_job(real)
    wire = await wired(real)
    wire.put(request("job.wait", id="slow", job_id=job_id, timeout_ms=100))
    wire.put(request("initialized", id="quick"))
    assert [reply["id"] for reply in await wire.messages(2)] == ["quick", "slow"]


async def test_a_notification_is_carried_out_and_never_answered(real: Harness, home: Path) -> None:
    wire = await wired(real)
    for body in (
        b'{"jsonrpc":"2.0","method":"job.enqueue","params":{"job_type":"semantica.noop","user_tag":"told"}}',
        b'{"jsonrpc":"2.0","method":"no.such"}',
        b'{"jsonrpc":"2.0","method":"job.get","params":{"job_id":7}}',
        b'{"jsonrpc":"2.0","method":"job.get","params":{"job_id":"ffffffff"}}',
        b'{"jsonrpc":"2.0","method":"job.list"}',
    ):
        wire.put(body)
    await wire.silent(real)
    assert len((await real.call("job.list", user_tag="told"))["items"]) == 1
    wire.half_close()
    await wire.ended()


# Batches


async def test_a_batch_is_answered_as_an_array_of_its_requests(real: Harness) -> None:
    wire = await wired(real)
    parts: list[Any] = [
        {"jsonrpc": "2.0", "id": 1, "method": "job.enqueue", "params": {"job_type": "semantica.noop"}},
        {"jsonrpc": "2.0", "method": "initialized"},
        {"jsonrpc": "2.0", "id": "x", "method": "no.such"},
        {"jsonrpc": "2.0", "id": 2.5, "method": "admin.health"},
        {"jsonrpc": "1.0", "id": 4, "method": "admin.health"},
        {"foo": "bar"},
        17,
        [],
    ]
    replies = await wire.request(json.dumps(parts).encode())
    assert sorted(str(reply["id"]) for reply in replies) == ["1", "2.5", "4", "None", "None", "None", "x"]
    codes = {reply["id"]: reply["error"]["code"] for reply in replies if "error" in reply}
    assert codes == {"x": -32601, 4: -32600, None: -32600}
    assert {reply["id"] for reply in replies if "result" in reply} == {1, 2.5}


async def test_a_batch_of_notifications_gets_no_answer(real: Harness) -> None:
    wire = await wired(real)
    part = {"jsonrpc": "2.0", "method": "job.enqueue", "params": {"job_type": "semantica.noop"}}
    wire.put(json.dumps([part, part, {"jsonrpc": "2.0", "method": "no.such"}]).encode())
    await wire.silent(real)
    assert len((await real.call("job.list"))["items"]) == 2


async def test_a_poison_request_in_a_batch_fails_alone(real: Harness) -> None:
    """What goes wrong inside the writer's transaction takes back nothing but itself."""
    wire = await wired(real)
    await wire.request(request("job.enqueue", job_type="semantica.noop", idempotency_key="k"))
    specs = [{"job_type": "semantica.noop", "subject_key": "a", "generation": 5}] * 2
    specs += [{"job_type": "semantica.noop", "idempotency_key": "k", "priority": 1}]
    specs += [{"job_type": "semantica.noop", "subject_key": "a"}]
    specs += [{"job_type": "semantica.noop", "user_tag": "after"}]
    parts = [{"jsonrpc": "2.0", "id": n, "method": "job.enqueue", "params": spec} for n, spec in enumerate(specs)]
    replies = {reply["id"]: reply for reply in await wire.request(json.dumps(parts).encode())}
    assert replies[0]["result"]["job_id"] == replies[1]["result"]["job_id"]
    assert [replies[n]["error"]["code"] for n in (2, 3)] == [4002, 4002]
    assert await real.ended(replies[4]["result"]["job_id"])


@each_case("count", [0, 1001])
async def test_an_empty_batch_and_one_over_the_limit_are_refused_whole(real: Harness, home: Path, count: int) -> None:
    wire = await wired(real)
    before = stored(home)
    part = {"jsonrpc": "2.0", "id": 1, "method": "job.enqueue", "params": {"job_type": "semantica.noop"}}
    reply = await wire.request(json.dumps([part] * count).encode())
    assert (reply["id"], reply["error"]["code"]) == (None, -32600)
    assert "1 to 1000" in reply["error"]["message"]
    assert stored(home) == before


async def test_a_batch_of_a_thousand_is_taken(real: Harness) -> None:
    wire = await wired(real)
    parts = [{"jsonrpc": "2.0", "id": number, "method": "initialized"} for number in range(1000)]
    replies = await wire.request(json.dumps(parts).encode())
    assert sorted(reply["id"] for reply in replies) == list(range(1000))


async def test_a_batch_is_answered_when_the_last_of_it_is(real: Harness) -> None:
    job_id = await waiting_job(real)
    wire = await wired(real)
    parts = [
        {"jsonrpc": "2.0", "id": 1, "method": "job.wait", "params": {"job_id": job_id, "timeout_ms": 60_000}},
        {"jsonrpc": "2.0", "id": 2, "method": "initialized"},
    ]
    wire.put(json.dumps(parts).encode())
    await wire.silent(real)
    wire.put(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}')
    assert {reply["id"]: reply.get("error", {}).get("code") for reply in await wire.message()} == {1: -32800, 2: None}


# Cancellation


@pytest.mark.parametrize("number", [0, 7, "seven", 1.5, 123456789012345678901234567890])
async def test_a_cancelled_wait_is_answered_and_its_job_goes_on(real: Harness, number: Any) -> None:
    job_id = await waiting_job(real)
    wire = await wired(real, headers=True)
    wire.put(request("job.wait", id=number, job_id=job_id, timeout_ms=60_000))
    wire.put(json.dumps({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": number}}).encode())
    reply = await wire.message()
    assert (reply["id"], reply["error"]["code"]) == (number, -32800)
    assert reply["error"]["data"]["code"] == "E_REQUEST_CANCELLED"
    assert await real.state(job_id) == "SCHEDULED"


@each_case("order", ["cancel first", "call first"])
async def test_a_call_sent_together_with_its_cancellation_is_answered(real: Harness, order: str) -> None:
    """A cancellation ends only calls that came before it. The connection ends too: no call is left over."""
    call = request("job.list", id=7) + b"\n"
    cancel = b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":7}}\n'
    sent = cancel + call if order == "cancel first" else call + cancel
    reply = json.loads(await exchange(real.paths.socket, sent))
    assert reply["id"] == 7
    assert ("result" in reply) == (order == "cancel first")


async def test_cancelling_an_unknown_or_finished_call_is_harmless(real: Harness) -> None:
    wire = await wired(real)
    await wire.request(request("initialized", id=5))
    for body in (b'{"id":5}', b'{"id":99}', b'{"id":"5"}', b'{"id":[1]}', b'{"id":{"a":1}}', b"{}", b"null"):
        wire.put(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":' + body + b"}")
    await wire.silent(real)


async def test_a_write_already_queued_finishes_and_answers(real: Harness) -> None:
    wire = await wired(real)
    wire.send(
        request("job.enqueue", id=1, job_type="semantica.noop")
        + b'\n{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}\n'
    )
    reply = await wire.message()
    assert await real.ended(reply["result"]["job_id"])


async def test_a_cancelled_call_ends_only_on_its_own_connection(real: Harness) -> None:
    job_id = await waiting_job(real)
    mine, other = await wired(real), await wired(real)
    mine.put(request("job.wait", id=1, job_id=job_id, timeout_ms=300))
    other.put(b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":1}}')
    await other.silent(real)
    assert (await mine.message())["result"]["finished"] is False


# Greetings and ends


async def test_an_lsp_client_greets_and_leaves_and_the_daemon_stays(real: Harness) -> None:
    wire = await wired(real, headers=True)
    sent: dict[str, Any] = {"processId": 1, "rootUri": None, "capabilities": {"textDocument": {}}}
    hello = (await wire.request(request("initialize", id=0, **sent)))["result"]
    assert hello["capabilities"] == {}
    assert hello["serverInfo"] == {"name": "semanticad", "version": hello["version"]}
    assert hello["limits"]["message_bytes"] == 16 * 1024 * 1024
    assert (
        hello["limits"] | {"header_bytes": 8192, "batch": 1000, "in_flight": 1000, "connections": 1000}
        == hello["limits"]
    )
    wire.put(b'{"jsonrpc":"2.0","method":"initialized","params":{}}')
    assert await wire.request(request("shutdown", id=1)) == {"jsonrpc": "2.0", "id": 1, "result": None}
    wire.put(b'{"jsonrpc":"2.0","method":"exit"}')
    await wire.ended()
    assert (await real.call("admin.health"))["status"] == "ready"


async def test_calls_need_no_greeting(real: Harness) -> None:
    (reply,) = (await exchange(real.paths.socket, request("job.list"))).splitlines()
    assert json.loads(reply)["result"] == {"items": [], "next_cursor": None}


# Errors


async def refused(harness: Harness, method: str, /, **params: Any) -> RpcError:
    with pytest.raises(RpcError) as caught:
        await harness.call(method, **params)
    error = caught.value
    assert error.data["code"].startswith("E_")
    assert isinstance(error.data["retryable"], bool)
    assert error.data["hint"]
    return error


@each_case(
    ("wrong", "meant"),
    [
        ("job.enqeue", "job.enqueue"),
        ("jobs.list", "job.list"),
        ("admin.helth", "admin.health"),
        ("initialise", "initialize"),
    ],
)
async def test_a_misspelt_method_is_told_the_nearest(shared: Harness, wrong: str, meant: str) -> None:
    error = await refused(shared, wrong)
    assert (error.code, error.data["code"]) == (-32601, "E_METHOD_NOT_FOUND")
    assert error.data["hint"] == f"did you mean {meant}?"


async def test_a_method_like_no_other_is_pointed_to_discover(real: Harness) -> None:
    error = await refused(real, "zzzzzzzzzzzz")
    assert (error.code, error.data["hint"]) == (-32601, "rpc.discover lists the methods")


@each_case(
    ("method", "params", "path", "hint"),
    [
        ("job.enqueue", {"job_type": "semantica.noop", "prioritty": 1}, "$.prioritty", "priority"),
        ("job.enqueue", {"job_type": "semantica.noop", "schedule": {"typ": "AT"}}, "$.schedule.typ", ""),
        ("job.enqueue_many", {"jobs": [{"job_type": "semantica.noop", "x": 1}]}, "$.jobs[0].x", ""),
        ("job.list", {"user_tags": "a"}, "$.user_tags", "user_tag"),
        ("job.get", {"job": "abcd"}, "$.job", "job_id"),
        ("event.subscribe", {"level": ["info"]}, "$.level", "levels"),
        ("queue.configure", {"queue": "q", "slot": 1}, "$.slot", "slots"),
        ("admin.health", {"x": 1}, "$.x", ""),
    ],
)
async def test_an_unknown_field_is_refused_with_its_path_and_the_nearest(
    shared: Harness, method: str, params: dict[str, Any], path: str, hint: str
) -> None:
    error = await refused(shared, method, **params)
    assert (error.code, error.data["code"], error.data["path"]) == (-32602, "E_PARAMS", path)
    assert f"`{path}`" in error.message
    assert error.data["hint"] == (f"did you mean {hint}?" if hint else "rpc.discover lists what each method takes")


@each_case(
    ("params", "path"),
    [
        ({"job_type": 1}, "$.job_type"),
        ({"job_type": "semantica.noop", "ttl_ms": -1}, "$.ttl_ms"),
        ({"job_type": "semantica.noop", "priority": 101}, "$.priority"),
        ({"job_type": "semantica.noop", "schedule": {"type": "NEVER"}}, "$.schedule.type"),
        ({"job_type": "semantica.noop", "schedule": {"type": "AT"}}, "$.schedule.scheduled_at"),
        ({"job_type": "semantica.noop", "generation": 1}, "$.generation"),
        ({}, "$"),
    ],
)
async def test_a_wrong_value_is_refused_with_its_path_in_message_and_data(
    shared: Harness, params: dict[str, Any], path: str
) -> None:
    error = await refused(shared, "job.enqueue", **params)
    assert (error.code, error.data["path"]) == (-32602, path)
    assert f"`{path}`" in error.message


async def test_what_depends_on_the_daemon_is_4000_with_its_path(real: Harness) -> None:
    error = await refused(real, "job.enqueue", job_type="semantica.sleep", payload={"ms": "long"})
    assert (error.code, error.data["code"], error.data["path"]) == (4000, "E_PAYLOAD", "$.payload.ms")
    error = await refused(real, "job.enqueue", job_type="semantica.slep", execution_mode="IN_PROCESS")
    assert (error.code, error.data["code"], error.data["path"]) == (4000, "E_NO_HANDLER", "$.job_type")
    assert error.data["hint"] == "did you mean semantica.sleep?"


async def test_in_enqueue_many_message_and_data_name_the_element(real: Harness) -> None:
    specs = [{"job_type": "semantica.noop"}, {"job_type": "semantica.noop", "generation": 1}]
    error = await refused(real, "job.enqueue_many", jobs=specs)
    assert (error.code, error.data["path"]) == (-32602, "$.jobs[1].generation")
    assert "`$.jobs[1].generation`" in error.message


async def test_a_full_queue_is_retryable(real: Harness) -> None:
    await real.call("queue.configure", queue="small", slots=0, max_queued=1)
    await real.enqueue(queue="small")
    error = await refused(real, "job.enqueue", job_type="semantica.noop", queue="small")
    assert (error.code, error.data["code"], error.data["retryable"]) == (4003, "E_QUEUE_FULL", True)
