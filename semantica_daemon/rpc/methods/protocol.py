"""Methods of the protocol itself: discovery, the greeting and goodbye of LSP clients, and cancelling a call."""

from typing import Any

from semantica_daemon import PROTOCOL, VERSION
from semantica_daemon.rpc.binding import Binding, Call, ConnectionCall, Immediate
from semantica_daemon.rpc.calls import MAX_BATCH, MAX_IN_FLIGHT
from semantica_daemon.rpc.connection import MAX_UNREAD_BYTES, Connection
from semantica_daemon.rpc.discover import openrpc
from semantica_daemon.rpc.framing import MAX_HEADER, MAX_MESSAGE
from semantica_daemon.rpc.server import MAX_CONNECTIONS
from semantica_daemon.wire.protocol import AnyParams, CancelRequestParams, InitializeResult
from semantica_daemon.wire.types import Params

LIMITS = {
    "message_bytes": MAX_MESSAGE, "header_bytes": MAX_HEADER, "batch": MAX_BATCH,
    "in_flight": MAX_IN_FLIGHT, "connections": MAX_CONNECTIONS, "unread_bytes": MAX_UNREAD_BYTES,
}  # fmt: skip


def bindings(epoch: str) -> dict[str, Binding]:
    async def initialize(_: AnyParams) -> InitializeResult:
        info = {"name": "semanticad", "version": VERSION}
        return InitializeResult({}, info, VERSION, PROTOCOL, epoch, LIMITS)

    return {
        "rpc.discover": Call(_discover),
        "initialize": Call(initialize),
        "initialized": Call(_accept),
        "shutdown": Call(_accept),
        "exit": ConnectionCall(_exit),
        "$/cancelRequest": Immediate(_cancel_request),
    }


async def _discover(_: Params) -> dict[str, Any]:
    return openrpc()


async def _accept(_: AnyParams) -> None:
    """Replies without doing anything, as LSP clients expect it."""


async def _exit(connection: Connection, _: AnyParams) -> None:
    """Ends this connection, never the daemon."""
    connection.transport.close()


def _cancel_request(connection: Connection, params: CancelRequestParams) -> None:
    connection.calls.cancel(params.id)
