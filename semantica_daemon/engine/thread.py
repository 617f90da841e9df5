"""The thread of the write connection. It costs less than an executor, which matters for every commit: one queue to the
thread, one callback on the loop."""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

Callback = Callable[[Any, BaseException | None], None]


class Thread:
    def __init__(self, name: str) -> None:
        self._loop = asyncio.get_running_loop()
        self._inbox: SimpleQueue[tuple[Callable[[], Any], Callback] | None] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    def put(self, function: Callable[[], Any], on_done: Callback) -> None:
        """Runs `function` in the thread; `on_done` is called on the loop, with the result or the exception."""
        self._inbox.put((function, on_done))

    async def close(self, function: Callable[[], Any]) -> None:
        """Runs `function` after everything else, then ends the thread."""
        done = self._loop.create_future()
        self.put(function, lambda _, error: done.set_exception(error) if error else done.set_result(None))
        self._inbox.put(None)
        await done

    def _work(self) -> None:
        while (work := self._inbox.get()) is not None:
            function, on_done = work
            try:
                result, raised = function(), None
            except BaseException as error:
                result, raised = None, error
            self._loop.call_soon_threadsafe(on_done, result, raised)
