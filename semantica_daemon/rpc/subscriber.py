"""Sends the events of one subscription to its connection, as fast as the client reads.

A subscription to a single job also gets a heartbeat while the job waits; it is sent, and never stored.
"""

import asyncio

from semantica_daemon.clock import Clock
from semantica_daemon.engine.explain import Explainer
from semantica_daemon.engine.feed import Feed, key_of
from semantica_daemon.errors import JobNotFound
from semantica_daemon.model.event import Filter
from semantica_daemon.model.state import QUEUED, SCHEDULED
from semantica_daemon.rpc.connection import Connection
from semantica_daemon.wire.event import EventNotification, Gap, GapNotification, QueueHeartbeat

HEARTBEAT_EVERY_MS = 10_000


class Heartbeat:
    """Due every HEARTBEAT_EVERY_MS while the job waits; never while it runs, after its end, and without a job."""

    def __init__(self, explainer: Explainer, clock: Clock, job_id: str | None) -> None:
        self._explainer = explainer
        self._clock = clock
        self._job_id = job_id
        self._next_at: int | None = None  # in Clock.elapsed(), which a change of the wall clock does not move
        self.rearm()

    def rearm(self) -> None:
        """Called after each event of the job, since the job may wait now, or wait again."""
        if self._next_at is None and self._job_id is not None:
            self._next_at = self._clock.elapsed() + HEARTBEAT_EVERY_MS

    async def next_if_due(self, subscription_id: str) -> QueueHeartbeat | None:
        """Returns the heartbeat, if one is due and the job still waits."""
        if self._job_id is None or self._next_at is None or self._clock.elapsed() < self._next_at:
            return None
        self._next_at = None
        try:
            why = await self._explainer.explain(self._job_id)
        except JobNotFound:
            return None
        if why.state not in (QUEUED, SCHEDULED):
            return None
        self.rearm()
        start = why.estimated_start_at
        wait_ms = None if start is None else max(0, start - self._clock.now())
        return QueueHeartbeat(
            subscription_id, why.job_id, why.state, why.summary, why.reasons, why.queue_position, start, wait_ms,
            why.claim_attempts,
        )  # fmt: skip

    async def wait(self, wake: asyncio.Event) -> None:
        """Waits until there are new events, or the next heartbeat is due."""
        if self._next_at is None:
            await wake.wait()
            return
        timer = self._clock.after(max(0, self._next_at - self._clock.elapsed()), wake.set)
        try:
            await wake.wait()
        finally:
            timer.cancel()


async def follow(
    connection: Connection,
    feed: Feed,
    subscription_id: str,
    wanted: Filter,
    start: tuple[int, Gap | None],
    heartbeat: Heartbeat,
) -> None:
    """Runs until it is cancelled. `start`: the sequence number to continue after, and a gap to report first."""
    cursor, gap = start
    with feed.watching(key_of(wanted)) as wake:
        while True:
            if gap is not None:
                await connection.notify("stream.gap", GapNotification(gap.from_, gap.to, gap.epoch, subscription_id))
            wake.clear()
            page = await feed.page(cursor, wanted)
            cursor, gap, moved = page.cursor, page.gap, page.cursor > cursor
            if page.events:
                await connection.notify("event", EventNotification(subscription_id, page.events))
            if moved:
                heartbeat.rearm()
            elif (beat := await heartbeat.next_if_due(subscription_id)) is not None:
                await connection.notify("job.queue_heartbeat", beat)
            else:
                await heartbeat.wait(wake)
