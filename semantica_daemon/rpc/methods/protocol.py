"""Methods of the protocol itself: discovery, the greeting and goodbye of LSP clients, and cancelling a call."""

from functools import cache
from typing import Any

from semantica_daemon import PROTOCOL, VERSION
from semantica_daemon.rpc.binding import Binding, Call, SessionCall
from semantica_daemon.rpc.calls import MAX_BATCH, MAX_IN_FLIGHT
from semantica_daemon.rpc.connections import MAX_CONNECTIONS
from semantica_daemon.rpc.discover import openrpc
from semantica_daemon.rpc.framing import MAX_HEADER, MAX_MESSAGE
from semantica_daemon.rpc.session import Session
from semantica_daemon.wire.methods import METHODS
from semantica_daemon.wire.protocol import AnyParams, InitializeResult
from semantica_daemon.wire.types import Params

LIMITS = {
    "message_bytes": MAX_MESSAGE, "header_bytes": MAX_HEADER, "batch": MAX_BATCH,
    "in_flight": MAX_IN_FLIGHT, "connections": MAX_CONNECTIONS,
}  # fmt: skip


class ProtocolMethods:
    def __init__(self, epoch: str) -> None:
        self._epoch = epoch

    def bindings(self) -> dict[str, Binding]:
        return {
            "rpc.discover": Call(_discover),
            "initialize": Call(self._initialize),
            "initialized": Call(_accept),
            "shutdown": Call(_accept),
            "exit": SessionCall(_exit),
            "$/cancelRequest": SessionCall(_cancel_request),
        }

    async def _initialize(self, _: AnyParams) -> InitializeResult:
        info = {"name": "semanticad", "version": VERSION}
        return InitializeResult({}, info, VERSION, PROTOCOL, self._epoch, LIMITS)


@cache
def _document() -> dict[str, Any]:
    return openrpc(METHODS)


async def _discover(_: Params) -> dict[str, Any]:
    return _document()


async def _accept(_: AnyParams) -> None:
    """Replies without doing anything, as LSP clients expect it."""


async def _exit(session: Session, _: AnyParams) -> None:
    """Ends this connection, never the daemon."""
    session.close()


async def _cancel_request(session: Session, params: AnyParams) -> None:
    session.cancel_call(params.id)
