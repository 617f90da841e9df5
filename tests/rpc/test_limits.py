"""Every limit of the protocol, at its edge: what is allowed passes, what is over it is told so, nobody else notices.

What a slow reader costs is in `test_slow_readers`, a thousand connections in `test_connections`.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from semantica_daemon.rpc import transport
from tests.cases import each_case
from tests.harness import Harness, RpcError
from tests.rpc.wire import Wire, exchange, frame, nobody_notices, request, stored

MESSAGE = 16 * 1024 * 1024
LONG = {"type": "AFTER", "delay_ms": 3_600_000}


def padded(size: int) -> bytes:
    """A call of exactly that many bytes."""
    body = request("initialized", id="big")
    return body[:-1] + b" " * (size - len(body)) + b"}"


@each_case("headers", [False, True])
async def test_a_message_of_the_limit_passes(real: Harness, home: Path, headers: bool) -> None:
    body = padded(MESSAGE)
    async with nobody_notices(real, home):
        text = await exchange(real.paths.socket, frame(body) if headers else body + b"\n")
    assert json.loads(text.split(b"\r\n\r\n")[-1])["id"] == "big"


@each_case("headers", [False, True])
async def test_a_message_over_the_limit_is_refused_and_the_connection_closed(
    real: Harness, home: Path, headers: bool
) -> None:
    body = padded(MESSAGE + 1)
    async with nobody_notices(real, home):
        text = await exchange(real.paths.socket, frame(body) if headers else body + b"\n", half_close=False)
    reply = json.loads(text.split(b"\r\n\r\n")[-1])
    assert (reply["id"], reply["error"]["code"]) == (None, -32600)
    assert str(MESSAGE) in reply["error"]["message"]


@each_case("length", [b"16777217", b"999999999999", b"9" * 4000])
async def test_a_frame_is_refused_by_its_header_before_its_body_comes(real: Harness, length: bytes) -> None:
    wire = await Wire.open(real.paths.socket, headers=True)
    wire.send(b"Content-Length: " + length + b"\r\n\r\n")
    reply = await wire.message()
    assert reply["error"]["code"] in (-32600, -32700)
    await wire.ended()


async def test_no_newline_ever_is_refused_at_the_limit(real: Harness, home: Path) -> None:
    async with nobody_notices(real, home):
        text = await exchange(real.paths.socket, b"{" + b"x" * (MESSAGE + 70_000), half_close=False)
    (reply,) = text.splitlines()
    assert json.loads(reply)["error"]["code"] == -32600


async def test_a_header_block_may_be_as_long_as_its_limit_and_not_longer(real: Harness) -> None:
    body = request("initialized")
    length = b"Content-Length: %d\r\n" % len(body)
    filler = b"X-Fill: "
    fits = filler + b"x" * (8192 - len(length) - len(filler) - 4)
    wire = await Wire.open(real.paths.socket, headers=True)
    wire.send(length + fits + b"\r\n\r\n" + body)
    assert (await wire.message())["id"] == 1
    wire.send(length + fits + b"x" * 5000)
    reply = await wire.message()
    assert (reply["error"]["code"], "8192" in reply["error"]["message"]) == (-32700, True)
    await wire.ended()


async def test_headers_that_never_end_are_refused_at_the_limit(real: Harness, home: Path) -> None:
    async with nobody_notices(real, home):
        text = await exchange(real.paths.socket, b"Content-Type: x\r\n" * 1000, half_close=False)
    assert b'"code":-32700' in text


# Half a frame


@pytest.mark.parametrize(
    "half", [b'{"jsonrpc":', b"Content-Le", b"Content-Length: 10\r\n\r\n", b"Content-Length: 10\r\n\r\n{"]
)
async def test_half_a_frame_is_closed_after_its_time(
    real: Harness, monkeypatch: pytest.MonkeyPatch, half: bytes
) -> None:
    assert transport.IDLE_HALF_FRAME_S == 30
    monkeypatch.setattr(transport, "IDLE_HALF_FRAME_S", 0.1)
    wire = await Wire.open(real.paths.socket, headers=half.startswith(b"C"))
    wire.send(half)
    reply = await wire.message()
    assert (reply["id"], reply["error"]["code"]) == (None, -32600)
    assert "half a message" in reply["error"]["message"]
    await wire.ended()


async def test_the_time_of_half_a_frame_counts_from_its_newest_byte(
    real: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transport, "IDLE_HALF_FRAME_S", 0.5)
    job = await real.enqueue(schedule=LONG)
    wire = await Wire.open(real.paths.socket)
    whole = request("initialized") + b"\n"
    for begin in range(0, 60, 10):  # together more than the time, each far less
        wire.send(whole[begin : begin + 10] if begin < 50 else whole[begin:])
        await real.call("job.wait", job_id=job["job_id"], timeout_ms=130)
    assert (await wire.message())["id"] == 1


@pytest.mark.parametrize("headers", [False, True], ids=["lines", "lsp"])
async def test_a_connection_between_messages_may_be_idle_for_ever(
    real: Harness, monkeypatch: pytest.MonkeyPatch, headers: bool
) -> None:
    """The call in between takes longer than half a frame may: neither waiting for it nor after it is half a frame."""
    monkeypatch.setattr(transport, "IDLE_HALF_FRAME_S", 0.05)
    job = await real.enqueue(schedule=LONG)
    wire = await Wire.open(real.paths.socket, headers)
    for _ in range(2):
        reply = await wire.request(request("job.wait", job_id=job["job_id"], timeout_ms=200))
        assert reply["result"]["finished"] is False


async def test_a_client_held_back_by_the_daemon_is_not_taken_for_half_a_frame(
    real: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More calls than may be in flight, cut in the middle of one: the rest is there, the daemon does not read it."""
    monkeypatch.setattr(transport, "IDLE_HALF_FRAME_S", 0.2)
    job = await real.enqueue(schedule=LONG)
    calls = b"".join(
        request("job.wait", id=number, job_id=job["job_id"], timeout_ms=700) + b"\n" for number in range(1500)
    )
    wire = await Wire.open(real.paths.socket)
    wire.send(calls[:150])
    await real.settle()
    wire.send(calls[150:])
    replies = await wire.messages(1500)
    assert sorted(reply.get("id") for reply in replies) == list(range(1500))
    assert not any(reply["result"]["finished"] for reply in replies)


# In flight


async def test_refusals_at_the_edge_of_what_may_be_in_flight_are_answered_each(real: Harness) -> None:
    """999 calls wait; each of the many that follow is refused at once and frees its place again."""
    job = await real.enqueue(schedule=LONG)
    wire = await Wire.open(real.paths.socket)
    for number in range(999):
        wire.put(request("job.wait", id=number, job_id=job["job_id"], timeout_ms=60_000))
    await wire.silent(real)
    wire.send(b"".join(b'{"jsonrpc":"2.0","id":%d,"method":"x"}\n' % number for number in range(1000, 6000)))
    assert {reply["error"]["code"] for reply in await wire.messages(5000)} == {-32601}
    await real.call("job.cancel", job_id=job["job_id"])
    assert sorted(reply["id"] for reply in await wire.messages(999)) == list(range(999))


# Fields


async def refusal(harness: Harness, **spec: Any) -> tuple[int, str]:
    with pytest.raises(RpcError) as caught:
        await harness.enqueue(**spec)
    return caught.value.code, caught.value.data["path"]


@each_case(
    ("field", "fits", "wrong"),
    [
        ("queue", ["q" * 64, "aZ09_.-"], ["q" * 65, "", "a b", "ä", "a/b", "a\n", "a\x00"]),
        ("subject_key", ["s" * 512, "ä" * 512, "a b/::\n"], ["s" * 513, "", "a\x00b", "\x00"]),
        ("user_tag", ["t" * 256], ["t" * 257, "", "a\x00"]),
        ("idempotency_key", ["k" * 256], ["k" * 257, "", "a\x00"]),
        ("priority", [-100, 100], [-101, 101, 1.5, "1", None, True]),
        ("generation", [], [-1, 2**63, 1.5]),
        ("max_attempts", [0, 1_000_000], [-1, 1_000_001, 2**63]),
        ("backoff_factor", [1, 100], [0.5, 101, "2"]),
        ("ttl_ms", [10**15], [-1, 10**15 + 1, 2**63, 2**70]),
        ("deadline", [10**15], [-1, 10**15 + 1]),
        ("timeout_ms", [1], [0, -1]),
        ("traceparent", ["00-" + "a" * 32 + "-" + "b" * 16 + "-01"], ["", "00-a-b-01", "x"]),
        ("payload", [{}], [None, [], "x", 1]),
        ("durable", [True], ["yes", 1]),
    ],
)
async def test_a_field_is_taken_up_to_its_limit_and_refused_beyond(
    real: Harness, home: Path, field: str, fits: list[Any], wrong: list[Any]
) -> None:
    for value in fits:
        assert (await real.enqueue(schedule=LONG, **{field: value}))["existing"] is False
    await real.settle()
    before = stored(home)
    for value in wrong:
        assert await refusal(real, schedule=LONG, **{field: value}) == (-32602, f"$.{field}"), value
    assert stored(home) == before


async def test_a_job_type_is_at_most_128_characters(real: Harness) -> None:
    assert await refusal(real, job_type="x" * 129) == (-32602, "$.job_type")
    assert await refusal(real, job_type="") == (-32602, "$.job_type")
    assert await refusal(real, job_type="a\x00b") == (-32602, "$.job_type")
    ack = await real.enqueue("x" * 128, payload={"argv": ["true"]})
    assert (await real.ended(ack["job_id"]))["state"] == "DONE"


async def test_a_payload_of_ten_megabytes_passes_and_one_byte_more_does_not(real: Harness, home: Path) -> None:
    fits = {"t": "x" * (10_000_000 - 8)}
    ack = await real.enqueue("semantica.noop", payload=fits)
    assert (await real.ended(ack["job_id"]))["payload"] == fits
    async with nobody_notices(real, home):
        assert await refusal(real, payload={"t": "x" * (10_000_000 - 7)}) == (-32602, "$.payload")


async def test_a_payload_is_kept_decoded_never_raw(real: Harness, home: Path) -> None:
    wire = await Wire.open(real.paths.socket)
    spec = rb'{"job_type":"semantica.noop","payload":{ "a" :  "\u00e4\/",  "b": 1.0, "a": 2}}'
    reply = await wire.request(b'{"jsonrpc":"2.0","id":1,"method":"job.enqueue","params":' + spec + b"}")
    assert (await real.ended(reply["result"]["job_id"]))["payload"] == {"a": 2, "b": 1.0}


@each_case("count", [0, 1001])
async def test_enqueue_many_takes_one_to_a_thousand(real: Harness, home: Path, count: int) -> None:
    async with nobody_notices(real, home):
        with pytest.raises(RpcError) as caught:
            await real.call("job.enqueue_many", jobs=[{"job_type": "semantica.noop"}] * count)
    assert (caught.value.code, caught.value.data["path"]) == (-32602, "$.jobs")


async def test_enqueue_many_is_all_or_nothing(real: Harness, home: Path) -> None:
    """Refused by its own fields before the writer, and by the state of the queue inside its transaction."""
    await real.call("queue.configure", queue="small", max_queued=2, slots=0)
    async with nobody_notices(real, home):
        for specs in ([{}, {"priority": 101}], [{"queue": "small"}] * 3):
            with pytest.raises(RpcError):
                await real.call("job.enqueue_many", jobs=[{"job_type": "semantica.noop", **spec} for spec in specs])


@each_case(
    ("method", "params"),
    [
        ("job.list", {"job_type": ["x"] * 40_000}),
        ("job.list", {"queue": ["x"] * 40_000}),
        ("job.list", {"state": ["DONE"] * 40_000}),
        ("job.list", {"user_tag": "x", "state": ["DONE"] * 40_000, "queue": ["x"] * 40_000}),
        ("event.list", {"event_types": ["x"] * 40_000}),
        ("event.subscribe", {"event_types": ["x"] * 40_000, "levels": ["info"] * 40_000}),
    ],
)
async def test_lists_of_any_length_are_answered_or_refused_never_an_internal_error(
    real: Harness, home: Path, method: str, params: dict[str, Any]
) -> None:
    wire = await Wire.open(real.paths.socket)
    async with nobody_notices(real, home):
        reply = await wire.request(request(method, **params))
    assert "result" in reply or reply["error"]["code"] == -32602
