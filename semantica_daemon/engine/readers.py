"""A pool of read-only database connections; each query runs on one of them."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar
from urllib.parse import quote

import aiosqlite
import anyio

from semantica_daemon.store import reads

P = ParamSpec("P")
T = TypeVar("T")

READERS = 3


class Readers:
    def __init__(self, idle: "asyncio.LifoQueue[aiosqlite.Connection]") -> None:
        self._idle = idle

    async def query(
        self,
        read: Callable[Concatenate[aiosqlite.Connection, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Runs `read` on the connection that was used last, so that the caches of the others stay small. When the
        caller is cancelled the query still runs in the connection's thread, so the connection is free only after it."""
        connection = await self._idle.get()
        task = asyncio.ensure_future(read(connection, *args, **kwargs))
        task.add_done_callback(lambda done: self._put_back(connection, done))
        return await asyncio.shield(task)

    def taking_params(self, read: Callable[[aiosqlite.Connection, Any], Awaitable[T]]) -> Callable[[Any], Awaitable[T]]:
        """A method whose params are the only argument of `read`."""
        return lambda params: self.query(read, params)

    def _put_back(self, connection: aiosqlite.Connection, done: "asyncio.Future[T]") -> None:
        if not done.cancelled():
            done.exception()  # marks it as retrieved: a caller that was cancelled does not take it
        self._idle.put_nowait(connection)


@asynccontextmanager
async def open_readers(path: Path, count: int = READERS) -> AsyncIterator[Readers]:
    idle: asyncio.LifoQueue[aiosqlite.Connection] = asyncio.LifoQueue()
    address = f"file://{quote(os.fsencode(path))}?mode=ro"
    async with AsyncExitStack() as stack:
        for _ in range(count):
            connection = aiosqlite.connect(address, uri=True, isolation_level=None)
            stack.push_async_callback(_close, await connection)
            for pragma in reads.PRAGMAS:
                await connection.execute(pragma)
            idle.put_nowait(connection)
        yield Readers(idle)


async def _close(connection: aiosqlite.Connection) -> None:
    """Shielded: an aiosqlite connection left open hangs the interpreter at exit."""
    with anyio.CancelScope(shield=True):
        await connection.close()
