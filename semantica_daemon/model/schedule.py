"""What a cron schedule does when its time has come: which occurrences become jobs, which are skipped, when next.

`cron` says when an expression fires; here is what is made of it after a suspend, a stop or a stepped clock.
"""

from collections.abc import Iterator
from itertools import islice, takewhile

from msgspec import Struct

from semantica_daemon.errors import InvalidParams
from semantica_daemon.model import cron

ON_TIME_MS = 30_000
MOST_AT_ONCE = 1000
MOST_COUNTED = 500
TWO_DAYS_MS = 2 * 86_400_000


class Firing(Struct, frozen=True):
    """`fire` ascends; `skipped` is at most MOST_COUNTED, `skipped_more` says that there were more."""

    fire: tuple[int, ...]
    skipped: int
    skipped_more: bool
    first_skipped: int | None
    last_skipped: int | None
    next_trigger_at: int | None


class Fired(Struct, frozen=True):
    """An unbroken row of occurrences that have been dealt with."""

    first: int
    last: int


def due(expression: str, zone: str, misfire: str, trigger_at: int, now: int, fired: Fired | None = None) -> Firing:
    """Whatever the policy, the newest fire and the older are skipped; it says how many. Work is bounded by counting
    back from now. What has fired before the clock was set back is neither.
    """
    if trigger_at > now:
        return Firing((), 0, False, None, None, trigger_at)
    most = MOST_AT_ONCE if misfire == "run_all" else 1
    missed = _since(expression, zone, trigger_at, now, fired)
    newest_first = list(islice(missed, most + MOST_COUNTED + 1))
    if misfire == "skip" and newest_first and now - newest_first[0] > ON_TIME_MS:
        most = 0
    fire, skipped = newest_first[:most], newest_first[most:]
    return Firing(
        fire=tuple(reversed(fire)),
        skipped=min(len(skipped), MOST_COUNTED),
        skipped_more=len(skipped) > MOST_COUNTED,
        first_skipped=trigger_at if skipped else None,
        last_skipped=skipped[0] if skipped else None,
        next_trigger_at=cron.next_after(expression, zone, now),
    )


def _since(expression: str, zone: str, trigger_at: int, now: int, fired: Fired | None) -> Iterator[int]:
    """The newest first. What was promised counts, even if the zone's rules have changed since and it would no longer be
    an occurrence."""
    if fired is None or fired.last < trigger_at or now < fired.first:
        yield from takewhile(lambda at: at > trigger_at, cron.occurrences_back(expression, zone, now))
    else:
        yield from takewhile(lambda at: at > fired.last, cron.occurrences_back(expression, zone, now))
        before = cron.occurrences_back(expression, zone, fired.first - 1)
        yield from takewhile(lambda at: at > trigger_at, before)
    if fired is None or not fired.first <= trigger_at <= fired.last:
        yield trigger_at


def going_on(expression: str, zone: str, trigger_at: int, now: int, most: int, fired: Fired | None = None) -> Firing:
    """The oldest of what is left, and where to go on; nothing is skipped any more."""
    found = list(islice(_new_ones(expression, zone, trigger_at, now, fired), most + 1))
    due = [at for at in found if at <= now][:most]
    return Firing(tuple(due), 0, False, None, None, found[len(due)] if len(found) > len(due) else None)


def _new_ones(expression: str, zone: str, trigger_at: int, now: int, fired: Fired | None) -> Iterator[int]:
    """From then on, without what has fired before the clock was set back."""
    at = not_again(expression, zone, fired, trigger_at, now)
    while at is not None:
        yield at
        at = not_again(expression, zone, fired, cron.next_after(expression, zone, at), now)


def upcoming(expression: str, zone: str, next_at: int | None, count: int) -> list[int]:
    """So many of its next times; only the first, where its zone is gone from this machine."""
    if next_at is None:
        return []
    try:
        return [next_at, *islice(cron.occurrences(expression, zone, next_at), count - 1)]
    except InvalidParams:
        return [next_at]


def settled(expression: str, zone: str, fired: Fired | None, now: int) -> int | None:
    """next_trigger_at anew, after the clock was stepped or the daemon was away."""
    return not_again(expression, zone, fired, cron.next_after(expression, zone, now), now)


def not_again(expression: str, zone: str, fired: Fired | None, at: int | None, now: int) -> int | None:
    """Set back by hours, the clock will show again what has fired already: the first after that. Further in the future
    than two days, it was wrong when that fired."""
    if at is not None and fired is not None and fired.first <= at <= fired.last <= now + TWO_DAYS_MS:
        return cron.next_after(expression, zone, fired.last)
    return at


def extended(expression: str, zone: str, fired: Fired | None, firing: Firing) -> Fired | None:
    """With what fires now; after a break it begins anew. What lies ahead of a clock that was set back is remembered."""
    if not firing.fire:
        return fired
    first, last = firing.fire[0], firing.fire[-1]
    if fired is None:
        return Fired(first, last)
    if last < fired.first and fired.last <= last + TWO_DAYS_MS:
        return Fired(first, fired.last) if cron.next_after(expression, zone, last) == fired.first else fired
    if not firing.skipped and cron.next_after(expression, zone, fired.last) == first:
        return Fired(fired.first, last)
    return Fired(first, last)
