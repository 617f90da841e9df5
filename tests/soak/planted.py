"""A daemon with one planted bug: `SEMANTICA_PLANTED_BUG=NAME python -m tests.soak.planted`.

Each checker of scripts/soak must find the bug that it is there for. The product has none of this code."""

import asyncio
import os
import threading
from types import SimpleNamespace
from typing import Any

from semantica_daemon import __main__ as program
from semantica_daemon.engine.attempt import Attempt
from semantica_daemon.engine.dispatcher import WORK, Dispatcher
from semantica_daemon.engine.feed import Feed
from semantica_daemon.engine.scheduler import Scheduler
from semantica_daemon.model.event import QUEUED
from semantica_daemon.store.database import CommitResult, Database


def ack_before_commit() -> None:
    """The first transaction with a new job stays open, and all later ones join it: replies are sent, and no commit ever
    follows."""
    begin, flush, commit = Database._begin, Database._flush, Database._commit
    held: list[Any] = []

    def begin_or_join(self: Any, *arguments: Any) -> None:
        if not held:
            begin(self, *arguments)

    def flush_and_hold(self: Any, tx: Any) -> Any:
        events = flush(self, tx)
        held.extend(one for one in events if one.event.job_id)
        return events

    def commit_unless_held(self: Any) -> None:
        if not held:
            commit(self)

    setattr(Database, "_begin", begin_or_join)  # noqa: B010
    setattr(Database, "_flush", flush_and_hold)  # noqa: B010
    setattr(Database, "_commit", commit_unless_held)  # noqa: B010


def event_before_commit() -> None:
    """Subscribers get the events of a synced commit while the disk is still busy with it; a new job keeps it busy for
    ever."""
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
            if any(one.event.event_type == QUEUED for one in events):
                threading.Event().wait()
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
