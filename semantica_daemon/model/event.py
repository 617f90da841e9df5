"""An event of the stream: what happened to a job, as stored, replayed and sent."""

from msgspec import Struct

from semantica_daemon.errors import InvalidParams, did_you_mean
from semantica_daemon.wire.event import Event

LEVELS = ("debug", "info", "warn", "error")

QUEUED = "job.queued"
SCHEDULED = "job.scheduled"
STARTED = "job.started"
DONE = "job.done"
FAILED = "job.failed"
CANCELLED = "job.cancelled"
SUPERSEDED = "job.superseded"
SKIPPED_TTL = "job.skipped_ttl"
SKIPPED_DEADLINE = "job.skipped_deadline"
RETRYING = "job.retrying"
REQUEUED = "job.requeued"
PROGRESS = "job.progress"
LOG = "job.log"
UNRESPONSIVE = "job.unresponsive"
HELD = "job.held"
RELEASED = "job.released"
MOVED = "job.moved"
UPDATED = "job.updated"
ARCHIVED = "job.archived"

# Every type there is, by the family of what it is about.
TYPES = (
    QUEUED, SCHEDULED, STARTED, DONE, FAILED, CANCELLED, SUPERSEDED, SKIPPED_TTL, SKIPPED_DEADLINE, RETRYING, REQUEUED,
    PROGRESS, LOG, UNRESPONSIVE, HELD, RELEASED, MOVED, UPDATED, ARCHIVED,
    "queue.configured", "queue.paused", "queue.resumed", "queue.deleted",
    "schedule.created", "schedule.changed", "schedule.deleted", "schedule.enabled", "schedule.disabled",
    "schedule.fired", "schedule.skipped", "schedule.failed", "template.created", "template.changed", "template.deleted",
    "group.created", "reservation.acquired", "reservation.released", "reservation.expired", "reservation.kept",
    "worker.registered", "worker.left", "event.emitted", "daemon.started", "daemon.reloaded", "daemon.stopping",
    "daemon.recovered", "daemon.clock_stepped",
)  # fmt: skip
RESERVATION_ENDS = frozenset({"reservation.released", "reservation.expired"})
ENDS = frozenset({DONE, FAILED, CANCELLED, SUPERSEDED, SKIPPED_TTL, SKIPPED_DEADLINE})


class StoredEvent(Struct, frozen=True, gc=False):
    """An event, with the fields that filters and the log need in addition."""

    event: Event
    queue: str | None
    user_tag: str | None
    size: int = 0


class Filter(Struct, frozen=True):
    """Which events a subscriber wants; an empty field matches every event."""

    job_id: str | None = None
    queue: str | None = None
    user_tag: str | None = None
    event_types: tuple[str, ...] = ()
    levels: tuple[str, ...] = ()

    def wants(self, stored: StoredEvent) -> bool:
        event = stored.event
        return (
            (self.job_id is None or event.job_id == self.job_id)
            and (self.queue is None or stored.queue == self.queue)
            and (self.user_tag is None or stored.user_tag == self.user_tag)
            and (not self.event_types or event.event_type in self.event_types)
            and (not self.levels or event.level in self.levels)
        )


def check_types(given: list[str] | None) -> tuple[str, ...]:
    """The types of a filter; raises InvalidParams for one that no event has."""
    for name in given or ():
        if name not in TYPES:
            hint = did_you_mean(name, TYPES) or f"there are {', '.join(TYPES)}"
            raise InvalidParams(f"no event has the type {name}", hint, path="$.event_types")
    return tuple(given or ())
