"""A transaction as a verb sees it: statements, the current instant, and what is published after the commit.

Verbs read a job as a `ChangedJob`, change it through `transition`, and emit events here.
"""

import sqlite3
from typing import Any

import msgspec
from msgspec import Raw, Struct

from semantica_daemon.model.admission import Admission
from semantica_daemon.model.event import StoredEvent
from semantica_daemon.model.machine import CurrentFacts
from semantica_daemon.model.outcome import Stop
from semantica_daemon.model.state import RUNNING
from semantica_daemon.store.awaited import AwaitedJobs
from semantica_daemon.store.counts import Counts
from semantica_daemon.store.external import ROOM, ExternalQueues, ExternalSource
from semantica_daemon.store.flows import Flows
from semantica_daemon.store.ids import Ids
from semantica_daemon.store.ready import EXTERNAL, ReadyQueues, Source, claim_class
from semantica_daemon.store.reservations import Reservations
from semantica_daemon.store.rooms import GROUP, Room, Rooms
from semantica_daemon.wire.event import Event

encode = msgspec.json.encode

INSERT_EVENT = """
INSERT INTO job_events (
  sequence, timestamp_at, event_type, level, message, payload, queue,
  job_number, job_sequence, previous, correlation_id, user_tag
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""
# Binding a NULL costs four times as much as a number, so the events of jobs without trace and tag leave them out.
INSERT_FIRST_EVENT = """
INSERT INTO job_events (sequence, timestamp_at, event_type, level, message, payload, queue, job_number, job_sequence)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, 1)
"""
INSERT_NEXT_EVENT = """
INSERT INTO job_events (
  sequence, timestamp_at, event_type, level, message, payload, queue, job_number, job_sequence, previous
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""


class Job(Struct, frozen=True, gc=False):
    """A job, with the columns that its events and its end need."""

    number: int
    job_id: str
    state: str
    queue: str
    job_type: str
    subject_key: str
    supersede: str
    schedule_id: str | None
    user_tag: str | None
    trace_id: str | None
    event_count: int
    last_event: int | None
    queued_at: int | None
    deadline: int | None
    unmet: int
    blocked_by: str | None
    slots: int
    concurrency_key: str | None
    chain_group_id: str | None

    @property
    def lane(self) -> str | None:
        """The name of its lane's room; None when the job is in no lane."""
        in_lane = self.subject_key and self.supersede != "none"
        return lane_room(self.subject_key, self.job_type) if in_lane else None

    @property
    def is_external(self) -> bool:
        """Whether workers run it; such a job takes no slot."""
        return self.slots == 0

    @property
    def waits_for_room(self) -> bool:
        """Whether it is QUEUED behind another job of its lane."""
        return self.blocked_by is not None and not self.blocked_by.startswith(ROOM)

    @property
    def keeps_room(self) -> bool:
        """Whether the job has the room of its lane also while it is SCHEDULED; unknown, and False, for a job as its
        claim left it, which is RUNNING."""
        return False


class ChangedJob(Job, frozen=True, gc=False):
    """A job as it was before a change, with the columns that transitions use."""

    created_at: int
    started_at: int | None
    scheduled_at: int | None
    priority: int
    attempts: int
    ttl_ms: int | None
    wait_for_idle: int
    require_charging: int
    claim_class: int
    stop_state: str | None
    stale: int
    superseded_by: str | None

    @property
    def external_source(self) -> ExternalSource:
        needs = claim_class(self.wait_for_idle, self.require_charging)
        return self.queue, self.job_type, self.concurrency_key, self.chain_group_id, needs

    @property
    def keeps_room(self) -> bool:
        return self.supersede == "append" and self.started_at is not None and bool(self.subject_key)


def lane_room(subject_key: str, job_type: str) -> str:
    """With the length of the type, so that no two lanes have one name, whatever colons their parts hold."""
    return f"lane:{len(job_type)}:{job_type}:{subject_key}"


READ_JOB = f"SELECT {', '.join(ChangedJob.__struct_fields__).replace('job_id', 'id')} FROM jobs WHERE number = ?"


class StopRun(Struct, frozen=True, gc=False):
    """A run that must be stopped after the commit, and why."""

    run_id: str
    cause: Stop


ChangedSecrets = tuple[str, dict[str, str], tuple[str, ...]]  # the id of a job, its new secrets, names of dropped ones


class TxContext(Struct):
    """The objects that all transactions of a database share."""

    counts: Counts
    rooms: Rooms
    ready: ReadyQueues
    external: ExternalQueues
    flows: Flows
    awaited: AwaitedJobs
    reservations: Reservations
    ids: Ids
    admission: Admission
    machine: CurrentFacts


class Tx:
    """One per batch of commands."""

    def __init__(self, connection: sqlite3.Connection, now: int, sequence: int, position: int, ctx: TxContext) -> None:
        self.execute = connection.execute
        self.connection = connection
        self.now = now
        self.counts = ctx.counts
        self.rooms = ctx.rooms
        self.ready = ctx.ready
        self.external = ctx.external
        self.flows = ctx.flows
        self.awaited = ctx.awaited
        self.reservations = ctx.reservations
        self.ids = ctx.ids
        self.position = position
        self.facts = ctx.machine.facts
        self.admit = ctx.admission.admit
        self.stops: list[StopRun] = []
        self.secrets: list[ChangedSecrets] = []
        self.attached: list[tuple[str, str | None]] = []  # an attach_id and its job, None if that existed before
        self.ended_groups: set[str] = set()  # groups in which a job has ended
        self.opened: list[int] = []  # jobs whose last gate was opened; `writes/promote` makes them QUEUED
        self.due: int | None = None
        self.must_sync = False  # a command that was not submitted as durable has to be synced before its reply
        self._first_sequence = sequence + 1
        self._deferred: dict[str, list[tuple[Any, ...]]] = {}
        self._events: list[StoredEvent] = []

    def read(self, number: int) -> ChangedJob:
        return ChangedJob(*self.execute(READ_JOB, (number,)).fetchone())

    @property
    def next_sequence(self) -> int:
        """The number that the next event will get."""
        return self._first_sequence + len(self._events)

    def next_position(self) -> int:
        """The position behind all jobs; `position_for` is that of a job with a concurrency key."""
        self.position += 100
        return self.position

    def position_for(self, queue: str, priority: int, concurrency_key: str | None) -> int:
        """The position of a job that becomes QUEUED."""
        return self.flows.position(queue, priority, concurrency_key, self.next_position())

    def defer(self, sql: str, values: tuple[Any, ...]) -> None:
        """Executes the statement at the end of the transaction, together with others like it. Only for writes that are
        not read in the same transaction."""
        self._deferred.setdefault(sql, []).append(values)

    def wake_at(self, instant: int | None) -> None:
        """Wakes the scheduler after the commit, for something that is due at `instant`."""
        if instant is not None and (self.due is None or instant < self.due):
            self.due = instant

    def started(self, source: Source | ExternalSource, priority: int, position: int) -> None:
        """Counts the start of a run for its key, its group, the rates, and the fairness between keys."""
        queue, key, group = source[0], source[2], source[3]
        self.rooms.started(queue, key, group, self.now)
        self.flows.claimed(queue, priority, key, position)

    def changed(self, job: Job, to: str, attempts: int = 0) -> None:
        """Counts that a job changes its state to `to`. `job`: as it was before; `attempts`: as they are after."""
        self.counts.move(job.queue, job.state, to, job.slots)
        if job.state == RUNNING:
            self.ready.slot_freed(job.queue)
            if job.concurrency_key is not None or job.chain_group_id is not None:
                for room in self.rooms.ended(job.queue, job.concurrency_key, job.chain_group_id):
                    self.room_freed(room)
        if job.chain_group_id is not None:
            self._change_turn(job, job.chain_group_id, to, attempts)

    def _change_turn(self, job: Job, group: str, to: str, attempts: int) -> None:
        had_turn = isinstance(job, ChangedJob) and self.rooms.keeps_turn(group, job.state, job.attempts)
        self.rooms.change_turn(group, self.rooms.keeps_turn(group, to, attempts) - had_turn)
        if had_turn:
            self.room_freed((GROUP, group))

    def room_freed(self, room: Room) -> None:
        """A key or group may have room for more jobs, of slots or of workers."""
        self.ready.room_freed(room)
        self.external.room_freed(room)

    def moved(self, job: ChangedJob, priority: int, position: int) -> None:
        """A QUEUED job has another place: the claims learn it."""
        place = (-priority, position, job.created_at, job.job_id)
        if job.claim_class == EXTERNAL:
            self.external.offer(job.external_source, place)
        else:
            self.ready.move((job.queue, job.claim_class, job.concurrency_key, job.chain_group_id), place)

    def emit(self, job: Job, event_type: str, message: str = "", payload: Any = None, level: str = "info") -> int:
        """Emits the next event of the job. Returns its sequence, which the caller stores in jobs.last_event."""
        about = (job.number, job.job_id, job.event_count + 1, job.last_event, job.trace_id, job.queue, job.user_tag)
        return self.emit_as(about, event_type, message, payload, level)

    def announce(
        self, event_type: str, message: str, payload: Any = None, queue: str | None = None, level: str = "info"
    ) -> None:
        """Emits an event that belongs to no job: queue.*, schedule.*, reservation.*, event.* and daemon.*."""
        self.emit_as((None, None, None, None, None, queue, None), event_type, message, payload, level)

    def emit_as(self, about: tuple[Any, ...], event_type: str, message: str, payload: Any, level: str) -> int:
        """`about`: job number, job id, job_sequence, sequence of the job's previous event, trace id, queue, user
        tag."""
        number, job_id, job_sequence, previous, trace_id, queue, user_tag = about
        body = "{}" if payload is None else encode(payload).decode()
        sequence = self.next_sequence
        values = (sequence, self.now, event_type, level, message, body, queue)
        if number is None or trace_id is not None or user_tag is not None:
            self.defer(INSERT_EVENT, (*values, number, job_sequence, previous, trace_id, user_tag))
        elif previous is None:
            self.defer(INSERT_FIRST_EVENT, (*values, number))
        else:
            self.defer(INSERT_NEXT_EVENT, (*values, number, job_sequence, previous))
        event = Event(sequence, job_sequence, job_id, self.now, event_type, level, message, Raw(body))
        self._events.append(StoredEvent(event, queue, user_tag, len(message) + len(body)))
        return sequence

    def flush(self) -> list[StoredEvent]:
        """Executes the deferred statements, events included, and stores the totals; called once, at the end."""
        for sql, values in self._deferred.items():
            self.connection.executemany(sql, values)
        self.counts.flush(self.connection, self.now)
        return self._events
