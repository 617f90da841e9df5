"""What a method may do with the connection it was called on."""

import asyncio
from typing import Any, Protocol


class Session(Protocol):
    @property
    def following(self) -> int: ...

    async def turn(self) -> None:
        """Wait until this call may bring an answer into memory; a call that `waits` asks for it when it is done."""

    async def notify(self, method: str, params: Any) -> None: ...

    def follow(self, name: str, task: "asyncio.Task[None]") -> None: ...

    def unfollow(self, name: str) -> bool: ...

    def cancel_request(self, request_id: Any) -> None: ...

    def close(self) -> None: ...
