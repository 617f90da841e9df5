"""The subscriptions of one connection, each a task (`subscriber`), ended one by one or with the connection."""

import asyncio
import os
from collections.abc import Callable, Coroutine
from typing import Any

from semantica_daemon.errors import TooManySubscriptions

MAX_SUBSCRIPTIONS = 100


class Subscriptions:
    def __init__(self) -> None:
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def __len__(self) -> int:
        return len(self._tasks)

    def check_room(self) -> None:
        if len(self._tasks) >= MAX_SUBSCRIPTIONS:
            hint = "event.unsubscribe some"
            raise TooManySubscriptions(f"this connection has {MAX_SUBSCRIPTIONS} subscriptions", hint)

    def start(self, subscriber: Callable[[str], Coroutine[Any, Any, None]]) -> str:
        """Runs `subscriber(subscription_id)` as a task and returns the id."""
        self.check_room()
        subscription_id = os.urandom(8).hex()
        task = asyncio.get_running_loop().create_task(subscriber(subscription_id))
        self._tasks[subscription_id] = task
        task.add_done_callback(lambda _: self._tasks.pop(subscription_id, None))
        return subscription_id

    def end(self, subscription_id: str) -> bool:
        """Ends the subscription; returns whether it existed."""
        task = self._tasks.pop(subscription_id, None)
        if task is not None:
            task.cancel()
        return task is not None

    def end_all(self) -> None:
        for task in list(self._tasks.values()):
            task.cancel()
