"""The reader pool: a few read-only connections, each question on one of them."""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Concatenate, ParamSpec, TypeVar
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

    async def ask(
        self,
        question: Callable[Concatenate[aiosqlite.Connection, P], Awaitable[T]],
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> T:
        """Most recently used first, so that the others' caches stay small. An asker that goes away does not take the
        question back from the connection's thread: the connection is free again only when that has ended."""
        connection = await self._idle.get()
        asked = asyncio.ensure_future(question(connection, *args, **kwargs))
        asked.add_done_callback(lambda done: self._put_back(connection, done))
        return await asyncio.shield(asked)

    def _put_back(self, connection: aiosqlite.Connection, done: "asyncio.Future[T]") -> None:
        if not done.cancelled():
            done.exception()  # told to the asker; one that has gone need not hear it
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
