"""Bytes to messages over the shared socket: two framings told apart by the first byte, in any pieces they may come."""

import json
from typing import Any

from tests.cases import each_case
from tests.harness import Harness
from tests.rpc.wire import Wire, exchange, frame, request

HELLO = request("admin.health")


def lines(text: bytes) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


async def wired(harness: Harness, headers: bool = False) -> Wire:
    return await Wire.open(harness.paths.socket, headers)


@each_case("headers", [False, True])
async def test_both_framings_answer_in_kind(shared: Harness, headers: bool) -> None:
    wire = await wired(shared, headers)
    for number in range(3):
        reply = await wire.request(request("admin.health", id=number))
        assert (reply["id"], reply["result"]["status"]) == (number, "ready")


@each_case("blanks", [b"\n", b" \t\r\n \n", b"\r\n\r\n"])
@each_case("headers", [False, True])
async def test_leading_blanks_do_not_decide_the_framing(shared: Harness, headers: bool, blanks: bytes) -> None:
    wire = await wired(shared, headers)
    wire.send(blanks)
    assert (await wire.request(HELLO))["result"]["status"] == "ready"


async def test_a_connection_that_begins_with_a_batch_is_one_of_lines(shared: Harness) -> None:
    wire = await wired(shared)
    (reply,) = await wire.request(b"[" + HELLO + b"]")
    assert reply["result"]["status"] == "ready"


@each_case(
    "head",
    [
        b"content-length: %d\r\n\r\n",
        b"CONTENT-LENGTH:%d\r\n\r\n",
        b"Content-Length : \t%d \r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
        b'Content-Length: %d\r\nContent-Type: application/json; Charset="UTF8"\r\n\r\n',
        b"Content-Length: %d\r\nX-Other: Content-Length: 7\r\n\r\n",
    ],
)
async def test_headers_are_read_without_case_and_others_are_ignored(shared: Harness, head: bytes) -> None:
    wire = await wired(shared, headers=True)
    for _ in range(2):
        wire.send(head % len(HELLO) + HELLO)
        assert (await wire.message())["result"]["status"] == "ready"


async def test_header_and_body_may_come_in_two_writes(shared: Harness) -> None:
    wire = await wired(shared, headers=True)
    wire.send(b"Content-Length: %d\r\n\r\n" % len(HELLO))
    await shared.settle()
    wire.send(HELLO)
    assert (await wire.message())["result"]["status"] == "ready"


@each_case("headers", [False, True])
async def test_a_message_may_come_byte_by_byte(shared: Harness, headers: bool) -> None:
    wire = await wired(shared, headers)
    for byte in frame(HELLO) if headers else HELLO + b"\n":
        wire.send(bytes([byte]))
        await shared.settle()
    assert (await wire.message())["result"]["status"] == "ready"


@each_case("headers", [False, True])
async def test_many_messages_may_come_in_one_write(shared: Harness, headers: bool) -> None:
    wire = await wired(shared, headers)
    bodies = [request("initialized", id=number) for number in range(300)]
    wire.send(b"".join(frame(body) if headers else body + b"\n" for body in bodies))
    assert {reply["id"] for reply in await wire.messages(300)} == set(range(300))


async def test_empty_lines_between_messages_are_nothing(shared: Harness) -> None:
    wire = await wired(shared)
    wire.send(b"\n\r\n" + HELLO + b"\r\n\n  \n" + request("initialized", id=2) + b"\n")
    assert {reply["id"] for reply in await wire.messages(2)} == {1, 2}


async def test_a_framed_body_may_span_lines_and_begin_with_blanks(shared: Harness) -> None:
    wire = await wired(shared, headers=True)
    reply = await wire.request(b'\n {"jsonrpc": "2.0",\n "id": 1,\n "method": "initialized"}\n')
    assert reply == {"jsonrpc": "2.0", "id": 1, "result": None}
    (reply,) = await wire.request(b'\n [{"jsonrpc": "2.0", "id": 2, "method": "initialized"}]\n')
    assert reply == {"jsonrpc": "2.0", "id": 2, "result": None}


async def test_the_framing_is_kept_for_the_connection(shared: Harness) -> None:
    """Headers on a connection of lines are lines that are no JSON; the connection goes on."""
    wire = await wired(shared)
    await wire.request(HELLO)
    wire.send(b"Content-Length: 10\r\n")
    assert (await wire.message())["error"]["code"] == -32700
    assert (await wire.request(HELLO))["result"]["status"] == "ready"


async def test_large_messages_pass_in_both_directions(shared: Harness) -> None:
    payload = {"text": "ä" * 2_000_000}
    for headers in (False, True):
        wire = await wired(shared, headers)
        ack = await wire.request(request("job.enqueue", job_type="semantica.echo", payload=payload))
        waited = await wire.request(request("job.wait", job_id=ack["result"]["job_id"]))
        assert waited["result"]["job"]["result_summary"] == payload


async def test_a_half_closed_client_still_gets_every_answer(shared: Harness) -> None:
    job = await shared.enqueue("semantica.sleep", payload={"ms": 100})
    waits = request("job.wait", id="wait", job_id=job["job_id"])
    replies = lines(await exchange(shared.paths.socket, waits + b"\n" + HELLO + b"\n"))
    by_id = {reply["id"]: reply["result"] for reply in replies}
    assert by_id["wait"]["job"]["state"] == "DONE"
    assert by_id[1]["status"] == "ready"


async def test_a_half_closed_client_with_frames_still_gets_its_answer(shared: Harness) -> None:
    text = await exchange(shared.paths.socket, frame(HELLO))
    head, _, body = text.partition(b"\r\n\r\n")
    assert head == b"Content-Length: %d" % len(body)
    assert json.loads(body)["result"]["status"] == "ready"


async def test_a_last_line_counts_without_its_newline(shared: Harness) -> None:
    first, last = lines(await exchange(shared.paths.socket, HELLO + b"\n" + request("initialized", id="last")))
    assert {first["id"], last["id"]} == {1, "last"}
    (only,) = lines(await exchange(shared.paths.socket, HELLO))
    assert only["result"]["status"] == "ready"


async def test_a_last_line_that_is_cut_off_is_refused(shared: Harness) -> None:
    (reply,) = lines(await exchange(shared.paths.socket, HELLO[:-5]))
    assert (reply["id"], reply["error"]["code"]) == (None, -32700)


async def test_half_a_frame_at_the_end_is_dropped_and_the_connection_closed(shared: Harness) -> None:
    assert await exchange(shared.paths.socket, frame(HELLO)[:-5]) == b""
    assert await exchange(shared.paths.socket, frame(HELLO)[:8]) == b""


async def test_a_client_that_sends_nothing_and_half_closes_is_closed(shared: Harness) -> None:
    assert await exchange(shared.paths.socket, b"") == b""
    assert await exchange(shared.paths.socket, b" \n") == b""


async def test_thousands_of_calls_before_a_half_close_are_all_answered(real: Harness) -> None:
    """More than may be in flight: the end of input is seen only after the last of them was taken."""
    calls = b"".join(request("job.list", id=number, limit=1) + b"\n" for number in range(3000))
    replies = lines(await exchange(real.paths.socket, calls))
    assert sorted(reply["id"] for reply in replies) == list(range(3000))


@each_case(
    "head",
    [b"Content-Length: x\r\n\r\n", b"Content-Length: -1\r\n\r\n", b"Content-Type: y\r\n\r\n", b"Cookie\r\n\r\n"],
)
async def test_a_bad_header_block_closes_the_connection(shared: Harness, head: bytes) -> None:
    wire = await wired(shared, headers=True)
    wire.send(head + HELLO)
    reply = await wire.message()
    assert (reply["id"], reply["error"]["code"]) == (None, -32700)
    assert "Content-Length" in reply["error"]["data"]["hint"]
    await wire.ended()


@each_case("charset", [b"latin-1", b"UTF-16", b'"utf-7"', b"us-ascii; x=1"])
async def test_another_charset_than_utf_8_is_refused(shared: Harness, charset: bytes) -> None:
    wire = await wired(shared, headers=True)
    kind = b"Content-Type: application/json; charset=%b" % charset
    wire.send(b"Content-Length: %d\r\n%b\r\n\r\n%b" % (len(HELLO), kind, HELLO))
    error = (await wire.message())["error"]
    assert error["code"] == -32700
    assert charset.strip(b'"').split(b";")[0].decode() in error["message"]
    assert "UTF-8" in error["data"]["hint"]
    await wire.ended()


async def test_an_empty_body_is_no_json_and_the_connection_goes_on(shared: Harness) -> None:
    wire = await wired(shared, headers=True)
    assert (await wire.request(b""))["error"]["code"] == -32700
    assert (await wire.request(HELLO))["result"]["status"] == "ready"


async def test_http_is_told_what_this_is_and_how_to_call(shared: Harness) -> None:
    text = await exchange(shared.paths.socket, b"GET /jobs HTTP/1.1\r\nHost: localhost\r\n\r\n", half_close=False)
    head, _, body = text.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"Content-Length: %d" % len(body) in head
    error = json.loads(body)["error"]
    assert (error["code"], error["data"]["code"]) == (-32700, "E_PARSE")
    assert "semantica rpc" in error["data"]["hint"]
