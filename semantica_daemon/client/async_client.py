"""The client for anyio: the same calls as `client`, many of them at once over one connection. Needs anyio, unlike the
rest of this package."""

import itertools
import math
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from semantica_daemon import paths as locations
from semantica_daemon.client import output
from semantica_daemon.client.client import (
    END_EVENTS,
    ENDED_STATES,
    EVENTS_PAGE,
    LONG_WAIT_MS,
    command_spec,
    result,
)
from semantica_daemon.client.connect import connect_or_start
from semantica_daemon.client.connection import decoded, line_of
from semantica_daemon.client.errors import ConnectionLost
from semantica_daemon.client.json_types import Json
from semantica_daemon.client.results import Ack, CancelResult, Event, Job
from semantica_daemon.client.subscription import events_of

BROKEN = (anyio.BrokenResourceError, anyio.ClosedResourceError, anyio.EndOfStream)


class AsyncClient:
    """`async with AsyncClient()` connects to this user's daemon and starts it if there is none.

    >>> async with AsyncClient() as client:
    ...     job = await client.run(["make", "test"])
    """

    def __init__(
        self,
        paths: locations.Paths | None = None,
        autostart: bool = True,
        report: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`report` gets a sentence when the daemon is started."""
        self._paths = locations.find(os.environ) if paths is None else paths
        self._connect = partial(connect_or_start, self._paths, start=autostart, report=report)
        self._numbers = itertools.count(1)
        self._replies: dict[int, MemoryObjectSendStream[Json]] = {}
        self._subscriptions: dict[str, MemoryObjectSendStream[Event]] = {}
        self._subscribing = 0
        self._early: dict[str, list[Event]] = {}  # of subscriptions whose reply is not handled yet
        self._lines, self._unsent = anyio.create_memory_object_stream[bytes](math.inf)
        self._is_lost = False

    async def __aenter__(self) -> "AsyncClient":
        connected = await anyio.to_thread.run_sync(self._connect)
        connected.setblocking(False)
        self._stream = await anyio.abc.UNIXSocketStream.from_socket(connected)
        self._tasks = await anyio.create_task_group().__aenter__()
        self._tasks.start_soon(self._receive)
        self._tasks.start_soon(self._write)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._tasks.cancel_scope.cancel()
        try:
            await self._tasks.__aexit__(None, None, None)  # given the exception, it would raise it inside a group
        finally:
            self._lines.close()
            self._unsent.close()
            with anyio.CancelScope(shield=True):
                await self._stream.aclose()

    # Calls

    async def call(self, method: str, /, **params: Any) -> Any:
        """The result; raises CallRefused or ConnectionLost. When the caller is cancelled, so is the call."""
        number = next(self._numbers)
        send, receive = anyio.create_memory_object_stream[Json](1)
        self._replies[number] = send
        with send, receive:
            try:
                self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
                return result(await receive.receive())
            except BROKEN:
                raise ConnectionLost("the daemon closed the connection") from None
            except anyio.get_cancelled_exc_class():
                self._notify("$/cancelRequest", id=number)
                raise
            finally:
                del self._replies[number]

    async def enqueue(self, job_type: str, payload: Json | None = None, **spec: Any) -> Ack:
        """Adds a job; `spec` has fields of JobSpec, see docs/protocol.md."""
        ack: Ack = await self.call("job.enqueue", job_type=job_type, payload=payload or {}, **spec)
        return ack

    async def add(self, argv: list[str], cwd: str | None = None, **spec: Any) -> Ack:
        """Adds a command as a job, with our environment."""
        return await self.enqueue(**command_spec(argv, cwd, spec))

    async def run(self, argv: list[str], cwd: str | None = None, **spec: Any) -> Job:
        """Runs a command as a job, with our environment; returns the finished job with its runs."""
        return await self.wait((await self.add(argv, cwd, **spec))["job_id"])

    async def get(self, job_id: str) -> Job:
        job: Job = await self.call("job.get", job_id=job_id)
        return job

    async def cancel(self, job_id: str, wait: float = 0) -> CancelResult:
        """Cancels a job, and waits up to `wait` seconds for the end of its run."""
        done: CancelResult = await self.call("job.cancel", job_id=job_id, wait_ms=round(wait * 1000))
        return done

    async def wait(self, job_id: str) -> Job:
        """The job, once it has ended; `anyio.fail_after` limits the time."""
        while not (waited := await self.call("job.wait", job_id=job_id, timeout_ms=LONG_WAIT_MS))["finished"]:
            pass
        job: Job = waited["job"]
        return job

    # Output and events

    async def logs(self, job_id: str) -> AsyncIterator[tuple[str, bytes]]:
        """Yields (stream, bytes) as the job writes them, run after run, until it has ended."""
        for number in itertools.count():
            if (run := await self._run(job_id, number)) is None:
                return
            reply: Json = {"next_offset": 0, "eof": False}
            while not reply["eof"]:
                position = {"offset": reply["next_offset"], "limit": output.CHUNK, "timeout_ms": LONG_WAIT_MS}
                reply = await self.call("job.logs", job_id=job_id, run_id=run, follow=True, **position)
                for piece in output.pieces(reply):
                    yield piece

    async def follow(self, job_id: str) -> AsyncIterator[Event]:
        """Yields the events of a job, from its first to its end."""
        if (await self.get(job_id))["state"] in ENDED_STATES:  # its last event may be gone, so it is not waited for
            since = 0
            while (page := await self.call("event.list", job_id=job_id, since=since, limit=EVENTS_PAGE))["events"]:
                for event in page["events"]:
                    yield event
                since = page["next_sequence"]
            return
        async with self.subscribe(job_id=job_id, since=0) as events:
            async for event in events:
                yield event
                if event["event_type"] in END_EVENTS:
                    return

    @asynccontextmanager
    async def subscribe(self, **params: Any) -> AsyncIterator[MemoryObjectReceiveStream[Event]]:
        """Events from now on, or `since` a sequence, until the block ends or the connection is lost."""
        send, receive = anyio.create_memory_object_stream[Event](math.inf)
        with send, receive:
            name = await self._subscribe(params, send)
            try:
                yield receive
            finally:
                del self._subscriptions[name]
                self._notify("event.unsubscribe", subscription_id=name)

    async def _subscribe(self, params: Json, events: MemoryObjectSendStream[Event]) -> str:
        self._subscribing += 1
        try:
            name: str = (await self.call("event.subscribe", **params))["subscription_id"]
            for event in self._early.pop(name, ()):
                events.send_nowait(event)
            self._subscriptions[name] = events
            return name
        finally:
            self._subscribing -= 1
            if not self._subscribing:
                self._early.clear()

    async def _run(self, job_id: str, number: int) -> str | None:
        """The id of the run with this number, from 0, once it has started; None when the job ends without it."""
        async with self.subscribe(job_id=job_id, event_types=output.STARTED_OR_ENDED) as events:
            while True:
                job = await self.get(job_id)
                if number < len(job["runs"]) or job["state"] in ENDED_STATES:
                    return job["runs"][number]["run_id"] if number < len(job["runs"]) else None
                await events.receive()

    # The connection

    def _send(self, message: Json) -> None:
        """Hands the message to the task that writes: a caller that is cancelled must not leave half a message."""
        if self._is_lost:
            raise ConnectionLost("the daemon closed the connection")
        self._lines.send_nowait(line_of(message))

    def _notify(self, method: str, **params: Any) -> None:
        """Sends a call without a reply, if the connection is not lost."""
        with suppress(ConnectionLost, *BROKEN):
            self._send({"jsonrpc": "2.0", "method": method, "params": params})

    async def _write(self) -> None:
        with suppress(*BROKEN):  # `_receive` finds the connection closed as well
            async for line in self._unsent:
                await self._stream.send(line)

    async def _receive(self) -> None:
        """Hands each message to the call or subscription that waits for it; ends all of them with the connection."""
        try:
            parts: list[bytes] = []  # of a line whose end is still to come
            async for chunk in self._stream:
                parts.append(chunk)
                if b"\n" in chunk:
                    *lines, rest = b"".join(parts).split(b"\n")
                    parts = [rest]
                    for line in lines:
                        self._take(decoded(line))
        except (*BROKEN, ConnectionLost):
            pass
        finally:
            self._is_lost = True
            for reply in self._replies.values():
                reply.close()
            for events in self._subscriptions.values():
                events.close()

    def _take(self, message: Json) -> None:
        if "method" not in message:
            if message.get("id") in self._replies:
                self._replies[message["id"]].send_nowait(message)
            return
        name = (message.get("params") or {}).get("subscription_id")
        if name in self._subscriptions:
            for event in events_of(message):
                self._subscriptions[name].send_nowait(event)
        elif isinstance(name, str) and self._subscribing:
            self._early.setdefault(name, []).extend(events_of(message))
