"""A daemon with one planted bug: `SEMANTICA_PLANTED_BUG=NAME python -m tests.soak.planted`.

Each checker of scripts/soak must find the bug that it is there for. The product has none of this code."""

import asyncio
import os
import threading
import time
from types import SimpleNamespace
from typing import Any

from semantica_daemon import __main__ as program
from semantica_daemon.engine.attempt import Attempt
from semantica_daemon.engine.dispatcher import WORK, Dispatcher
from semantica_daemon.engine.feed import Feed
from semantica_daemon.engine.scheduler import Scheduler
from semantica_daemon.store.database import CommitResult, Database

SLOW_DISK_S = 0.5


def ack_before_commit() -> None:
    """A transaction is committed by the next one, after its replies."""
    begin = Database._begin

    def commit_and_begin(self: Any, *arguments: Any) -> None:
        if self._connection.in_transaction:
            self._connection.execute("COMMIT")
        begin(self, *arguments)

    setattr(Database, "_begin", commit_and_begin)  # noqa: B010
    setattr(Database, "_commit", lambda self: None)  # noqa: B010


def event_before_commit() -> None:
    """Subscribers get the events of a synced commit while the disk is still busy with it."""
    feeds: list[tuple[Any, asyncio.AbstractEventLoop]] = []
    committed, flush, construct = Feed.committed, Database._flush, Feed.__init__

    def remember(self: Any, *arguments: Any) -> None:
        construct(self, *arguments)
        feeds.append((self, asyncio.get_running_loop()))

    def publish_once(self: Any, result: Any) -> None:
        if result.events and result.events[-1].event.sequence > self.newest:
            committed(self, result)

    def flush_and_publish(self: Any, tx: Any) -> Any:
        events = flush(self, tx)
        if events and feeds and threading.current_thread() is not threading.main_thread():
            feed, loop = feeds[-1]
            loop.call_soon_threadsafe(feed.committed, SimpleNamespace(events=events, ended_groups=()))
            time.sleep(SLOW_DISK_S)
        return events

    setattr(Feed, "__init__", remember)  # noqa: B010
    setattr(Feed, "committed", publish_once)  # noqa: B010
    setattr(Database, "_flush", flush_and_publish)  # noqa: B010


def missing_fsync() -> None:
    """`durable` is forgotten: no commit is synced."""
    set_pragma = Database._set

    def set_another(self: Any, pragma: str, value: str) -> None:
        set_pragma(self, pragma, "OFF" if pragma == "synchronous" else value)

    setattr(Database, "_set", set_another)  # noqa: B010


def double_claim() -> None:
    """Each claim is dispatched twice."""
    committed = Dispatcher.committed

    def dispatch_twice(self: Any, result: CommitResult) -> None:
        committed(self, result)
        for claim in result.claims:
            Attempt(claim, self._dependencies, WORK[claim.mode], lambda attempt: None)

    setattr(Dispatcher, "committed", dispatch_twice)  # noqa: B010


def lost_wakeup() -> None:
    """The scheduler is not told when the next job is due."""
    setattr(Scheduler, "committed", lambda self, committed: None)  # noqa: B010


BUGS = {bug.__name__: bug for bug in (ack_before_commit, event_before_commit, missing_fsync, double_claim, lost_wakeup)}

if __name__ == "__main__":
    BUGS[os.environ["SEMANTICA_PLANTED_BUG"]]()
    program.main()
