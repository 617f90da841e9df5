"""event.emit: opens the gates of the jobs that wait for this event; a job with no other gate becomes QUEUED."""

from msgspec import Struct

from semantica_daemon.errors import InvalidParams
from semantica_daemon.model.job import RESERVED_KEYS
from semantica_daemon.store import gates
from semantica_daemon.store.tx import Tx

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


def emit(tx: Tx, request: Emit) -> EmitPart:
    newest = request.newest
    if newest is None:
        _check(request.key)
        newest = gates.newest(tx)
        about = request.key if request.value is None else f"{request.key}={request.value}"
        tx.announce("event.emitted", f"event {about}", {"key": request.key, "value": request.value})
    opened = [(gates.ANY_VALUE_OF + request.key, "")]
    if request.value is not None:
        opened.append((request.key, request.value))
    facts = {"key": request.key, "value": request.value}
    matched, more = gates.open_for(tx, opened, newest, MOST, facts)
    return EmitPart(matched, newest, more)


def _check(key: str) -> None:
    if key.startswith(RESERVED_KEYS):
        raise InvalidParams(
            f"only the daemon emits events that begin with {' or '.join(RESERVED_KEYS)} - at `$.key`",
            "choose another key, such as git:commit",
            path="$.key",
        )
