"""A thread of its own for the write connection. Leaner than an executor, because every commit pays for the way there
and back: one queue, one future of the loop's."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

Work = tuple[Callable[[], Any], "asyncio.Future[Any]"]


class Thread:
    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._inbox: SimpleQueue[Work | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    async def run(self, function: Callable[[], T]) -> T:
        future: asyncio.Future[T] = self._loop.create_future()
        self._inbox.put((function, future))
        return await future

    def close(self) -> None:
        self._inbox.put(None)

    def _work(self) -> None:
        while (work := self._inbox.get()) is not None:
            function, future = work
            try:
                self._answer(future, future.set_result, function())
            except BaseException as error:
                self._answer(future, future.set_exception, error)

    def _answer(self, future: "asyncio.Future[Any]", resolve: Callable[[Any], None], value: Any) -> None:
        self._loop.call_soon_threadsafe(lambda: None if future.done() else resolve(value))
