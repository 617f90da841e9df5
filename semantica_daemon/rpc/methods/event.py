"""The `event` family: subscriptions, pages of the stream, and events that callers emit."""

from semantica_daemon.clock import Clock
from semantica_daemon.engine.explain import Explainer
from semantica_daemon.engine.feed import Feed
from semantica_daemon.engine.readers import Readers
from semantica_daemon.engine.waiting import Waiting
from semantica_daemon.model.event import Filter
from semantica_daemon.rpc.binding import Binding, Call, SessionCall
from semantica_daemon.rpc.session import Session
from semantica_daemon.rpc.subscriber import Heartbeat, follow
from semantica_daemon.store import reads
from semantica_daemon.wire.event import (
    EmitParams,
    EmitResult,
    Event,
    EventListParams,
    EventPage,
    SubscribeParams,
    Subscription,
    UnsubscribeParams,
    UnsubscribeResult,
)

MAX_PAGES = 50  # of the stream that one event.list searches for matching events


class EventMethods:
    def __init__(self, feed: Feed, readers: Readers, waiting: Waiting, explainer: Explainer, clock: Clock) -> None:
        self._feed = feed
        self._readers = readers
        self._waiting = waiting
        self._explainer = explainer
        self._clock = clock

    def bindings(self) -> dict[str, Binding]:
        return {
            "event.subscribe": SessionCall(self._subscribe),
            "event.unsubscribe": SessionCall(self._unsubscribe),
            "event.list": Call(self._list),
            "event.emit": Call(self._emit, writes=True),
        }

    async def _subscribe(self, session: Session, params: SubscribeParams) -> Subscription:
        session.subscriptions.check_room()
        start = await self._feed.start(params.since, params.epoch)
        wanted = Filter(
            await self._whole_id(params.job_id), params.queue, params.user_tag,
            tuple(params.event_types or ()), tuple(params.levels or ()),
        )  # fmt: skip
        heartbeat = Heartbeat(self._explainer, self._clock, wanted.job_id) if wanted.job_id else None
        subscription_id = session.subscriptions.start(
            lambda subscription_id: follow(session, self._feed, subscription_id, wanted, start, heartbeat)
        )
        return Subscription(subscription_id, start[0], self._feed.epoch)

    async def _unsubscribe(self, session: Session, params: UnsubscribeParams) -> UnsubscribeResult:
        return UnsubscribeResult(session.subscriptions.end(params.subscription_id))

    async def _list(self, params: EventListParams) -> EventPage:
        cursor, gap = await self._feed.start(params.since, params.epoch)
        job_id = await self._whole_id(params.job_id)
        wanted = Filter(job_id=job_id, event_types=tuple(params.event_types or ()))
        found: list[Event] = []
        for _ in range(MAX_PAGES):
            page = await self._feed.page(cursor, wanted, params.limit - len(found))
            found += page.events
            gap, moved, cursor = gap or page.gap, page.cursor > cursor, page.cursor
            if not moved or page.gap or len(found) == params.limit:
                break
        return EventPage(found, cursor, self._feed.epoch, gap)

    async def _emit(self, params: EmitParams) -> EmitResult:
        return await self._waiting.emit(params)

    async def _whole_id(self, prefix: str | None) -> str | None:
        """The id that a prefix stands for."""
        if prefix is None:
            return None
        job_id, _ = await self._readers.query(reads.state, prefix)
        return job_id
