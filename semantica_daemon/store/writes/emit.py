"""event.emit: opens the gates of the jobs that wait for this event; a job with no other gate becomes QUEUED. Each
schedule for the event makes a job."""

from msgspec import Struct

from semantica_daemon.errors import InvalidParams
from semantica_daemon.model.job import RESERVED_KEYS
from semantica_daemon.store import gates
from semantica_daemon.store.tx import Tx
from semantica_daemon.store.writes import fire

MOST = 50


class Emit(Struct, frozen=True):
    """`newest`: for an event that takes several transactions, the newest gate at the first of them; gates that are made
    later stay closed."""

    key: str
    value: str | None = None
    newest: int | None = None


class EmitPart(Struct, frozen=True):
    """`more`: there may be more jobs that wait for the event; call again with `newest`."""

    matched: list[str]
    newest: int
    more: bool
    fired: list[str] = []


def emit(tx: Tx, request: Emit) -> EmitPart:
    key, value, newest = request.key, request.value, request.newest
    facts = {"key": key, "value": value}
    fired = []
    if newest is None:
        _check(key)
        newest = gates.newest_gate(tx)
        tx.announce("event.emitted", f"event {key}" if value is None else f"event {key}={value}", facts)
        fired = fire.fire_on_event(tx, key, value)
    opened = [(gates.ANY_VALUE_OF + key, "")]
    if value is not None:
        opened.append((key, value))
    matched, more = gates.open_for(tx, opened, newest, MOST, facts)
    return EmitPart(matched, newest, more, fired)


def _check(key: str) -> None:
    if key.startswith(RESERVED_KEYS):
        raise InvalidParams(
            f"only the daemon emits events that begin with {' or '.join(RESERVED_KEYS)}",
            "choose another key, such as git:commit",
            path="$.key",
        )
