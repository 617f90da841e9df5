"""One subscriber: a cursor that follows the feed and writes to its connection as fast as that one reads.

Who follows a single job also hears, while that waits, why: a heartbeat that is sent and stored nowhere.
"""

import asyncio
from typing import Any

import msgspec

from semantica_daemon.clock import Clock
from semantica_daemon.engine.explain import Explainer
from semantica_daemon.engine.feed import Feed, key_of
from semantica_daemon.errors import JobNotFound
from semantica_daemon.model.event import Filter
from semantica_daemon.model.state import QUEUED, SCHEDULED
from semantica_daemon.rpc.session import Session
from semantica_daemon.wire.event import Gap

BEAT_MS = 10_000


class Heart:
    """Beats while its job waits; while that runs, and when it has ended, there is nothing to wake up for."""

    def __init__(self, explainer: Explainer, clock: Clock) -> None:
        self._explainer = explainer
        self._clock = clock
        self._next_at: int | None = None  # by the time since boot, which nobody sets
        self.heard()

    def heard(self) -> None:
        """Something has happened to the job: it may wait, or wait again."""
        if self._next_at is None:
            self._next_at = self._clock.elapsed() + BEAT_MS

    async def beat(self, job_id: str) -> dict[str, Any] | None:
        """What there is to say of the wait, when it is time to; None: not now."""
        if self._next_at is None or self._clock.elapsed() < self._next_at:
            return None
        self._next_at = None
        try:
            why = await self._explainer.explain(job_id)
        except JobNotFound:
            return None
        if why.state not in (QUEUED, SCHEDULED):
            return None
        self.heard()
        start = why.estimated_start_at
        wait_ms = None if start is None else max(0, start - self._clock.now())
        facts = msgspec.structs.asdict(why)
        return {"reason": facts.pop("summary"), **facts, "estimated_wait_ms": wait_ms}

    async def wait(self, wake: asyncio.Event) -> None:
        """Until there is something new, or the next beat is due."""
        if self._next_at is None:
            await wake.wait()
            return
        timer = self._clock.after(max(0, self._next_at - self._clock.elapsed()), wake.set)
        try:
            await wake.wait()
        finally:
            timer.cancel()


async def follow(
    session: Session,
    feed: Feed,
    subscription_id: str,
    wanted: Filter,
    start: tuple[int, Gap | None],
    heart: Heart | None,
) -> None:
    cursor, gap = start
    name = {"subscription_id": subscription_id}
    with feed.watching(key_of(wanted)) as wake:
        while True:
            if gap is not None:
                await session.notify("stream.gap", {**name, "from": gap.from_, "to": gap.to, "epoch": gap.epoch})
            wake.clear()
            page = await feed.page(cursor, wanted)
            cursor, gap, moved = page.cursor, page.gap, page.cursor > cursor
            if page.events:
                await session.notify("event", {**name, "events": page.events})
            if heart is None or wanted.job_id is None:
                if not moved:
                    await wake.wait()
            elif moved:
                heart.heard()
            elif (said := await heart.beat(wanted.job_id)) is not None:
                await session.notify("job.queue_heartbeat", {**name, **said})
            else:
                await heart.wait(wake)
