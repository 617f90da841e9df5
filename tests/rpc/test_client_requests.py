"""Requests that the daemon sends to a client over the real socket: the response, an error, a timeout, the end."""

import asyncio
import json
from typing import Any

import pytest

from semantica_daemon.rpc.client_requests import NoResponse, RequestFailed
from semantica_daemon.rpc.connection import Connection
from tests.harness import Harness
from tests.rpc.wire import Wire, request

CREATE = "window/workDoneProgress/create"


async def connected(harness: Harness, headers: bool) -> tuple[Wire, Connection]:
    """A client and the daemon's side of it."""
    before = set(harness.daemon.server._connections)
    wire = await Wire.open(harness.paths.socket, headers)
    assert (await wire.request(request("initialized", id=1)))["id"] == 1
    (connection,) = set(harness.daemon.server._connections) - before
    return wire, connection


def asking(connection: Connection, timeout_s: float = 10) -> "asyncio.Task[Any]":
    return asyncio.create_task(connection.requests.request(CREATE, {"token": 7}, timeout_s))


def response(sent: dict[str, Any], **answer: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": sent["id"], **answer}).encode()


@pytest.mark.parametrize("headers", [False, True], ids=["lines", "lsp"])
async def test_a_request_is_answered_by_the_response_with_its_id(real: Harness, headers: bool) -> None:
    wire, connection = await connected(real, headers)
    first, second = asking(connection), asking(connection)
    sent = [await wire.message(), await wire.message()]
    assert [(one["jsonrpc"], one["method"], one["params"]) for one in sent] == [("2.0", CREATE, {"token": 7})] * 2
    assert len({one["id"] for one in sent}) == 2
    wire.put(response(sent[1], result="second"))
    wire.put(response(sent[0], result=None))
    assert (await first, await second) == (None, "second")


@pytest.mark.parametrize("headers", [False, True], ids=["lines", "lsp"])
async def test_calls_of_the_client_go_on_meanwhile_also_with_ids_that_look_the_same(
    real: Harness, headers: bool
) -> None:
    wire, connection = await connected(real, headers)
    asked = asking(connection)
    sent = await wire.message()
    assert (await wire.request(request("initialized", id=sent["id"])))["id"] == sent["id"]
    assert not asked.done()
    wire.put(response(sent, result=1))
    assert await asked == 1


@pytest.mark.parametrize("headers", [False, True], ids=["lines", "lsp"])
async def test_an_error_of_the_client_is_raised(real: Harness, headers: bool) -> None:
    wire, connection = await connected(real, headers)
    asked = asking(connection)
    error = {"code": -32601, "message": "no such method", "data": {"hint": "none"}}
    wire.put(response(await wire.message(), error=error))
    with pytest.raises(RequestFailed, match="no such method") as raised:
        await asked
    assert (raised.value.code, raised.value.data) == (-32601, {"hint": "none"})


async def test_a_client_that_does_not_answer_in_time_is_no_response_and_its_late_answer_is_refused(
    real: Harness,
) -> None:
    wire, connection = await connected(real, False)
    with pytest.raises(NoResponse, match=r"within 0\.05 s"):
        await asking(connection, 0.05)
    late = await wire.request(response(await wire.message(), result=1))
    assert late["error"]["code"] == -32600
    assert (await wire.request(request("initialized", id=2)))["id"] == 2


@pytest.mark.parametrize("end", [Wire.close, Wire.half_close])
async def test_a_connection_that_ends_ends_the_wait(real: Harness, end: Any) -> None:
    wire, connection = await connected(real, False)
    asked = asking(connection)
    await wire.message()
    end(wire)
    with pytest.raises(NoResponse, match="connection has ended"):
        await asyncio.wait_for(asked, 5)
    with pytest.raises(NoResponse, match="connection has ended"):
        await connection.requests.request(CREATE, None)
