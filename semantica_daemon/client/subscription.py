"""Events as they happen: an iterator over the notifications of one event.subscribe."""

from collections import deque
from collections.abc import Callable

from semantica_daemon.client.errors import ConnectionLost
from semantica_daemon.client.json_types import Json
from semantica_daemon.client.results import Event


class Subscription:
    """An iterator of events until it is closed. Events that are gone for good are reported by one event of type
    `stream.gap`, whose payload has from, to and epoch."""

    def __init__(self, events: deque[Event], receive: Callable[[], None], unsubscribe: Callable[[], None]) -> None:
        """`receive` waits for the next message of the connection, which may append to `events`."""
        self._events = events
        self._receive = receive
        self._unsubscribe = unsubscribe

    def __iter__(self) -> "Subscription":
        return self

    def __next__(self) -> Event:
        while not self._events:
            self._receive()
        return self._events.popleft()

    def drain(self) -> None:
        """Drops the events that were received already."""
        self._events.clear()

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


def events_of(notification: Json) -> list[Event]:
    params = notification["params"]
    if notification["method"] == "stream.gap":
        return [gap_event({name: params[name] for name in ("from", "to", "epoch")})]
    events: list[Event] = params.get("events", [])
    return events


def gap_event(gap: Json) -> Event:
    """A gap in the stream in the shape of an event."""
    message = "the stream is not the one that was asked for"
    if gap["to"] > gap["from"]:
        message = f"events {gap['from'] + 1} to {gap['to']} are gone"
    return {
        "sequence": gap["to"], "event_type": "stream.gap", "message": message, "payload": gap, "level": "warn",
        "job_sequence": None, "job_id": None, "timestamp_at": None,  # type: ignore[typeddict-item]
    }  # fmt: skip
