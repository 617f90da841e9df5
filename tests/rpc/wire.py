"""Raw bytes on the socket: what a client of any make may send, and exactly what comes back.

`Wire` is one connection in either framing; `exchange` writes everything, half-closes and reads to the end.
"""

import asyncio
import contextlib
import json
import socket
import sqlite3
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.harness import Client, Harness
from tests.stopwatch import Stopwatch

IN_TIME_S = 1.0
"""What a bystander's call may take at most while somebody else misbehaves; idle it takes about a millisecond."""


def request(method: str, /, id: Any = 1, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


def frame(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class Wire:
    """One connection; `message` reads the next message in the connection's framing."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, headers: bool) -> None:
        self.reader = reader
        self.writer = writer
        self.headers = headers

    @classmethod
    async def open(cls, path: Path, headers: bool = False) -> "Wire":
        return cls(*await asyncio.open_unix_connection(path, limit=64 * 1024 * 1024), headers)

    def send(self, data: bytes) -> None:
        """The bytes as they are."""
        self.writer.write(data)

    def put(self, body: bytes) -> None:
        """One document, framed."""
        self.writer.write(frame(body) if self.headers else body + b"\n")

    async def request(self, body: bytes) -> Any:
        self.put(body)
        return await self.message()

    async def message(self, seconds: float = 40) -> Any:
        async with asyncio.timeout(seconds):
            text = await self.text()
        assert text, "the connection has ended"
        return json.loads(text)

    async def text(self) -> bytes:
        """The next message as it came; empty at the end of a connection of lines."""
        return await (self._framed() if self.headers else self.reader.readline())

    async def messages(self, count: int, seconds: float = 40) -> list[Any]:
        async with asyncio.timeout(seconds):
            return [await self.message(seconds) for _ in range(count)]

    async def ended(self) -> None:
        """Nothing more comes, and the daemon has closed."""
        with contextlib.suppress(ConnectionResetError):
            rest = await asyncio.wait_for(self.reader.read(), 40)
            assert rest == b"", rest[:500]

    async def silent(self, harness: Harness) -> None:
        """Nothing more comes: what was sent is dealt with after a round trip behind it."""
        assert (await self.request(request("initialized", id="behind")))["id"] == "behind"
        await harness.settle()

    def half_close(self) -> None:
        self.writer.write_eof()

    def close(self) -> None:
        self.writer.close()

    async def _framed(self) -> bytes:
        head = await self.reader.readuntil(b"\r\n\r\n")
        name, _, length = head.strip().partition(b": ")
        assert name == b"Content-Length", head
        return await self.reader.readexactly(int(length))


async def exchange(path: Path, data: bytes, half_close: bool = True) -> bytes:
    """All bytes in and, at the same time, all bytes out until the daemon closes; from threads, since a refused write
    must not lose the refusal that was sent before it."""
    return await asyncio.to_thread(_exchange, path, data, half_close)


def _exchange(path: Path, data: bytes, half_close: bool) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        sending = threading.Thread(target=_send_all, args=(connection, data, half_close))
        sending.start()
        try:
            return _to_the_end(connection)
        finally:
            sending.join()


def _send_all(connection: socket.socket, data: bytes, half_close: bool) -> None:
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.sendall(data)
        if half_close:
            connection.shutdown(socket.SHUT_WR)


def _to_the_end(connection: socket.socket) -> bytes:
    found = bytearray()
    with contextlib.suppress(ConnectionResetError):
        while chunk := connection.recv(65_536):
            found += chunk
    return bytes(found)


def rows(home: Path, sql: str, *values: Any) -> list[Any]:
    """What the database holds, read beside the daemon."""
    with contextlib.closing(sqlite3.connect(f"file:{home}/meta.db?mode=ro", uri=True)) as connection:
        return connection.execute(sql, values).fetchall()


def stored(home: Path) -> tuple[int, int]:
    """(jobs, events)"""
    (found,) = rows(home, "SELECT (SELECT count(*) FROM jobs), (SELECT count(*) FROM job_events)")
    return int(found[0]), int(found[1])


class Bystander:
    """Calls one after the other until told to stop; `worst` is the longest time a call took."""

    def __init__(self, client: Client) -> None:
        self.worst = 0.0
        self._client = client
        self._stopping = False
        self._task = asyncio.create_task(self._call_on())

    async def stop(self) -> None:
        self._stopping = True
        await self._task
        await self._client.close()

    async def _call_on(self) -> None:
        while not self._stopping:
            watch = Stopwatch()
            await self._client.call("job.list", limit=1)
            self.worst = max(self.worst, watch.seconds())


@asynccontextmanager
async def nobody_notices(harness: Harness, home: Path) -> AsyncIterator[None]:
    """While the block runs another client is answered in time, and after it nothing was stored."""
    await harness.settle()
    before = stored(home)
    bystander = Bystander(await harness.client())
    try:
        yield
    finally:
        await bystander.stop()
    assert bystander.worst < IN_TIME_S, f"another client's call took {bystander.worst:.2f} s"
    assert (await harness.call("admin.health"))["status"] == "ready"
    await harness.settle()
    assert stored(home) == before
