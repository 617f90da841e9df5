"""The `event` family: subscriptions, pages of the stream, and events that callers emit."""

from msgspec import Struct

from semantica_daemon.clock import Clock
from semantica_daemon.engine.explain import Explainer
from semantica_daemon.engine.feed import Feed
from semantica_daemon.engine.readers import Readers
from semantica_daemon.engine.waiting import Waiting
from semantica_daemon.errors import InvalidParams
from semantica_daemon.model.event import Filter, check_types
from semantica_daemon.rpc.binding import Binding, Call, ConnectionCall
from semantica_daemon.rpc.connection import Connection
from semantica_daemon.rpc.subscriber import Heartbeat, follow
from semantica_daemon.store import reads
from semantica_daemon.wire import event as wire

BEYOND_ALL = 2**63 - 1
MAX_PAGES = 50  # of the stream that one event.list searches for matching events


class EventMethods(Struct, frozen=True):
    feed: Feed
    readers: Readers
    waiting: Waiting
    explainer: Explainer
    clock: Clock

    def bindings(self) -> dict[str, Binding]:
        return {
            "event.subscribe": ConnectionCall(self._subscribe),
            "event.unsubscribe": ConnectionCall(self._unsubscribe),
            "event.list": Call(self._list),
            "event.emit": Call(self.waiting.emit, writes=True),
        }

    async def _subscribe(self, connection: Connection, params: wire.SubscribeParams) -> wire.Subscription:
        connection.subscriptions.check_room()
        start = await self.feed.start(params.since, params.epoch)
        wanted = await self._filter(params)
        heartbeat = Heartbeat(self.explainer, self.clock, wanted.job_id)
        subscription_id = connection.subscriptions.start(
            lambda subscription_id: follow(connection, self.feed, subscription_id, wanted, start, heartbeat)
        )
        return wire.Subscription(subscription_id, start[0], self.feed.epoch)

    async def _unsubscribe(self, connection: Connection, params: wire.UnsubscribeParams) -> wire.UnsubscribeResult:
        return wire.UnsubscribeResult(connection.subscriptions.end(params.subscription_id))

    async def _list(self, params: wire.EventListParams) -> wire.EventPage:
        wanted = await self._filter(params)
        cursor, gap = await self.feed.start(params.since, params.epoch)
        if params.sort == "newest":
            newest, before = self.feed.newest, params.before or BEYOND_ALL
            events = await self.feed.newest_page(cursor, before, wanted, params.limit)
            end = max(newest, events[0].sequence if events else 0)
            return wire.EventPage(events, end, self.feed.epoch, gap)
        if params.before is not None:
            raise InvalidParams("only with sort newest", 'add "sort": "newest", or leave it out', path="$.before")
        found: list[wire.Event] = []
        for _ in range(MAX_PAGES):
            page = await self.feed.page(cursor, wanted, params.limit - len(found))
            found += page.events
            gap, moved, cursor = gap or page.gap, page.cursor > cursor, page.cursor
            if not moved or page.gap or len(found) == params.limit:
                break
        return wire.EventPage(found, cursor, self.feed.epoch, gap)

    async def _filter(self, params: wire.SubscribeParams | wire.EventListParams) -> Filter:
        types = check_types(params.event_types)
        job_id = await self._whole_id(params.job_id)
        return Filter(job_id, params.queue, params.user_tag, types, tuple(params.levels or ()))

    async def _whole_id(self, prefix: str | None) -> str | None:
        """The id that a prefix stands for."""
        return None if prefix is None else (await self.readers.query(reads.state, prefix))[0]
