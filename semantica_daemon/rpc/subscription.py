"""One subscriber: a cursor that follows the feed and writes to its connection as fast as that one reads."""

from semantica_daemon.engine.feed import Feed, Gap, key_of
from semantica_daemon.model.event import Filter
from semantica_daemon.rpc.session import Session


async def follow(
    session: Session, feed: Feed, subscription_id: str, wanted: Filter, start: tuple[int, Gap | None]
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
            if not moved:
                await wake.wait()
