"""Events as they happen: an iterator over the notifications of one event.subscribe."""

from collections import deque
from collections.abc import Callable, Iterator

from semantica_daemon.client.errors import ConnectionLost
from semantica_daemon.client.json_types import Json


class Subscription:
    """An iterator of events until it is closed. Events that are gone for good are reported by one event of type
    `stream.gap`, whose payload has from, to and epoch."""

    def __init__(self, next_notification: Callable[[], Json], unsubscribe: Callable[[], None]) -> None:
        self._next_notification = next_notification
        self._unsubscribe = unsubscribe
        self._events: deque[Json] = deque()

    def __iter__(self) -> "Subscription":
        return self

    def __next__(self) -> Json:
        while not self._events:
            self._events.extend(_events_of(self._next_notification()))
        return self._events.popleft()

    def __enter__(self) -> "Subscription":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """The daemon sends no more events of this subscription."""
        try:
            self._unsubscribe()
        except ConnectionLost:
            return


def _events_of(notification: Json) -> Iterator[Json]:
    params = notification["params"]
    if notification["method"] == "event":
        yield from params["events"]
    elif notification["method"] == "stream.gap":
        yield gap_event({name: params[name] for name in ("from", "to", "epoch")})


def gap_event(gap: Json) -> Json:
    """A gap in the stream in the shape of an event."""
    message = "the stream is not the one that was asked for"
    if gap["to"] > gap["from"]:
        message = f"events {gap['from'] + 1} to {gap['to']} are gone"
    nothing = {"job_sequence": None, "job_id": None, "timestamp_at": None, "level": "warn"}
    return {"sequence": gap["to"], "event_type": "stream.gap", "message": message, "payload": gap, **nothing}
