"""The bounded queue of write commands. All parts that write submit to it; `engine/writer` takes batches from it.

It is constructed before the writer, so that the writer can be constructed last, with its listeners.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from semantica_daemon.store.database import Command, Verb

MAX_WAITING = 10_000
ROOM_AGAIN = MAX_WAITING // 2

Done = Callable[[Any], None]


class Entry(Struct, frozen=True, gc=False):
    """A command and the callback for its result. `must_commit`: queued again when its batch is rolled back, never
    dropped. `slow`: may take long, so it runs in the writer's thread."""

    command: Command
    done: Done | None
    must_commit: bool
    slow: bool


class CommandQueue:
    def __init__(self) -> None:
        self.full = False
        """A connection stops reading while this is true: from MAX_WAITING commands on, until half of them are done."""
        self._entries: deque[Entry] = deque()
        self._filled: asyncio.Future[None] | None = None
        self._waiting_for_room: dict[Callable[[], None], None] = {}  # in order

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def room(self) -> int:
        return 0 if self.full else MAX_WAITING - len(self._entries)

    def submit(
        self, command: Command, done: Done | None = None, *, must_commit: bool = False, slow: bool = False
    ) -> None:
        """`done` is called on the loop, after the commit, with the result or the exception. The writer begins in the
        next turn of the loop, so that commands submitted together are committed together."""
        self.add(Entry(command, done, must_commit, slow or command.durable))
        self.announce()

    def add(self, entry: Entry) -> None:
        """For a connection, which calls `Writer.begin` after it has added all that it has read."""
        self._entries.append(entry)
        if len(self._entries) >= MAX_WAITING:
            self.full = True

    async def run(self, verb: Verb, request: Any, *, must_commit: bool = True, slow: bool = True) -> Any:
        """Submits the command, waits for the commit, and returns the verb's result."""
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.submit(Command(verb, request), lambda result: _resolve(reply, result), must_commit=must_commit, slow=slow)
        return await reply

    def when_room(self, resume: Callable[[], None]) -> None:
        """Calls `resume` once, when the queue is no longer full, however often it was passed."""
        self._waiting_for_room[resume] = None

    # The writer's side

    def filled(self) -> "asyncio.Future[None]":
        """Done when the next command is submitted, or `announce` is called."""
        self._filled = asyncio.get_running_loop().create_future()
        return self._filled

    def announce(self) -> None:
        if self._filled is not None:
            self._filled.set_result(None)
            self._filled = None

    def take(self, most: int) -> list[Entry]:
        return [self._entries.popleft() for _ in range(min(len(self._entries), most))]

    def put_back(self, entries: list[Entry]) -> None:
        """Puts the entries back at the front, in their order."""
        self._entries.extendleft(reversed(entries))

    def announce_room(self) -> None:
        """Called after a batch: resumes the connections that wait for a free place, once the queue is half empty."""
        if self.full and len(self._entries) <= ROOM_AGAIN:
            self.full = False
            waiting, self._waiting_for_room = self._waiting_for_room, {}
            for resume in waiting:
                resume()


def _resolve(reply: "asyncio.Future[Any]", result: Any) -> None:
    if reply.done():
        return
    if isinstance(result, Exception):
        reply.set_exception(result)
    else:
        reply.set_result(result)
