"""Methods of the protocol itself: the greeting and goodbye of LSP clients, and cancelling a call."""

from typing import Annotated, Any

from msgspec import Struct

from semantica_daemon.wire.types import about


class AnyParams(Struct, frozen=True):
    """For methods that editors call with their own params: unknown fields are accepted and ignored."""


class CancelRequestParams(AnyParams, frozen=True):
    id: Annotated[Any, about("id of the call to end")] = None


class InitializeResult(Struct, frozen=True):
    """`capabilities` and `serverInfo` are for LSP clients."""

    capabilities: Annotated[dict[str, Any], about("empty: no LSP features are offered")]
    serverInfo: Annotated[dict[str, str], about("name and version")]
    version: Annotated[str, about("version of the daemon")]
    protocol: Annotated[int, about("version of this protocol")]
    epoch: Annotated[str, about("epoch of the event stream")]
    limits: Annotated[dict[str, int], about("limits of a connection, in bytes and counts")]
