"""The floor of a round trip: an asyncio server that sends every line back, in a process of its own. Ends with stdin."""

import asyncio
import sys


class Echo(asyncio.BufferedProtocol):
    def __init__(self) -> None:
        self._chunk = memoryview(bytearray(65_536))
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._chunk

    def buffer_updated(self, nbytes: int) -> None:
        assert self._transport is not None
        self._buffer += self._chunk[:nbytes]
        while (end := self._buffer.find(b"\n")) >= 0:
            line = bytes(self._buffer[: end + 1])
            del self._buffer[: end + 1]
            self._transport.write(line)


async def serve(path: str) -> None:
    loop = asyncio.get_running_loop()
    await loop.create_unix_server(Echo, path)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await loop.run_in_executor(None, sys.stdin.readline)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1]))
