"""What a job with `gather` has gathered: the payloads of the jobs that it stands for, oldest first. They are stored in
its own payload, under `gathered`; `gathered_dropped` counts those that did not fit. Pure functions of JSON texts."""

from collections.abc import Iterable

import msgspec
from msgspec import Raw, Struct

from semantica_daemon.model.job import MAX_PAYLOAD_BYTES

MOST_PAYLOADS = 1000
MOST_BYTES = 1_000_000  # of the list, since each arrival writes the whole list again
OTHER_BYTES = 100  # of the names of the fields, and of the count

GATHERED, DROPPED = "gathered", "gathered_dropped"
_decode = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_list = msgspec.json.Decoder(list[Raw]).decode
_decode_count = msgspec.json.Decoder(int).decode
_encode = msgspec.json.encode


class Gathering(Struct, frozen=True):
    """A payload in its parts. `own`: as the caller gave it; `payloads`: what it has gathered, each as JSON."""

    own: str
    payloads: tuple[Raw, ...] = ()
    dropped: int = 0

    @property
    def all(self) -> tuple[Raw, ...]:
        """Its own payload is newer than those it has gathered."""
        return (*self.payloads, Raw(self.own.encode()))


def split(payload: str, gathers: bool = True) -> Gathering:
    """`gathers`: of the job; the payload of another one is its own, whatever fields it has."""
    fields = _decode(payload) if gathers else {}
    if GATHERED not in fields:
        return Gathering(payload)
    payloads, dropped = tuple(_decode_list(fields.pop(GATHERED))), fields.pop(DROPPED, None)
    return Gathering(_encode(fields).decode(), payloads, 0 if dropped is None else _decode_count(dropped))


def joined(this: Gathering, before: Iterable[Gathering] = (), after: Iterable[Gathering] = ()) -> str:
    """The payload of a job that stands for others too: `before` are older than what it has gathered so far, `after`
    newer. When there are too many, the oldest are dropped."""
    older, newer = list(before), list(after)
    found = [
        *(payload for one in older for payload in one.all),
        *this.payloads,
        *(payload for one in newer for payload in one.all),
    ]
    kept = _newest(found, min(MOST_BYTES, MAX_PAYLOAD_BYTES - len(this.own.encode()) - OTHER_BYTES))
    dropped = sum(one.dropped for one in (*older, this, *newer)) + len(found) - len(kept)
    fields = {**_decode(this.own), GATHERED: kept}
    return _encode({**fields, DROPPED: dropped} if dropped else fields).decode()


def _newest(payloads: list[Raw], room: int) -> list[Raw]:
    kept: list[Raw] = []
    for payload in payloads[: -MOST_PAYLOADS - 1 : -1]:
        room -= len(bytes(payload)) + 1
        if room < 0:
            break
        kept.append(payload)
    return kept[::-1]
