"""Requests that the daemon sends to a client, and their responses. LSP progress needs them."""

import asyncio
import itertools
from typing import Any

from semantica_daemon.rpc import protocol
from semantica_daemon.rpc.transport import Transport

TIMEOUT_S = 30.0


class RequestFailed(Exception):
    """The client responded with an error; `code` and `data` are the client's."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(f"{message} ({code})")
        self.code = code
        self.data = data


class NoResponse(Exception):
    """The client did not respond in time, or its connection has closed."""


class ClientRequests:
    """The ids of these requests are strings, independent of the ids that the client uses for its own requests."""

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._numbers = itertools.count(1)
        self._waiting: dict[str, asyncio.Future[Any]] = {}

    async def request(self, method: str, params: Any, timeout_s: float = TIMEOUT_S) -> Any:
        """Sends a request and returns the result of its response."""
        if self._transport.closing or self._transport.ended:
            raise NoResponse(f"{method}: the connection has ended")
        request_id = f"semantica-{next(self._numbers)}"
        response: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[request_id] = response
        self._transport.send(protocol.request(request_id, method, params))
        try:
            async with asyncio.timeout(timeout_s):
                return await response
        except TimeoutError:
            raise NoResponse(f"{method}: no response within {timeout_s:g} s") from None
        finally:
            del self._waiting[request_id]

    def resolve(self, message: bytes) -> bool:
        """Takes the message if it is the response to one of these requests."""
        response = protocol.parse_response(message) if self._waiting else None
        waiting = None if response is None else self._waiting.get(response.id)
        if response is None or waiting is None or waiting.done():
            return False
        if response.error is not None:
            waiting.set_exception(RequestFailed(response.error.code, response.error.message, response.error.data))
        else:
            waiting.set_result(response.result)
        return True

    def close(self) -> None:
        """Fails the open requests: no response will come any more."""
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(NoResponse("the connection has ended"))
