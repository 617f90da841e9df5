"""A transaction as a verb sees it: statements, the given instant, and what it has to say once it is committed."""

import sqlite3
from typing import Any

import msgspec
from msgspec import Raw, Struct

from semantica_daemon.model.admission import Admission
from semantica_daemon.model.event import Recorded
from semantica_daemon.model.machine import CurrentFacts
from semantica_daemon.model.outcome import Stop
from semantica_daemon.store.counts import COLUMN_OF, Counts, Move
from semantica_daemon.store.ids import Ids
from semantica_daemon.wire.event import Event

encode = msgspec.json.encode

INSERT_EVENT = """
INSERT INTO job_events (
  sequence, job_id, job_sequence, timestamp_at, event_type, level,
  message, payload, correlation_id, queue, user_tag, subsystem
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, substr(?5, 1, instr(?5, '.') - 1))
"""


class Touched(Struct, frozen=True, gc=False):
    """What every change of a job returns: enough to tell the world of it."""

    job_id: str
    queue: str
    user_tag: str | None
    trace_id: str | None
    job_sequence: int


class StopRun(Struct, frozen=True, gc=False):
    """A running attempt that must end now, and why."""

    run_id: str
    cause: Stop


class Given(Struct):
    """What every transaction of a database works with."""

    counts: Counts
    ids: Ids
    admission: Admission
    machine: CurrentFacts


class Tx:
    """One per batch. Everything but the statements themselves can be taken back to a mark."""

    def __init__(self, connection: sqlite3.Connection, now: int, position: int, given: Given) -> None:
        self.execute = connection.execute
        self.connection = connection
        self.now = now
        self.counts = given.counts
        self.ids = given.ids
        self.position = position
        self.facts = given.machine.facts
        self.admit = given.admission.admit
        self.stops: list[StopRun] = []
        self.secrets: list[tuple[str, dict[str, str]]] = []
        self.due: int | None = None
        self._events: list[tuple[Any, ...]] = []
        self._moves: list[Move] = []

    def next_position(self) -> int:
        self.position += 100
        return self.position

    def wake_at(self, instant: int | None) -> None:
        """Something becomes due then; the scheduler is told after the commit."""
        if instant is not None and (self.due is None or instant < self.due):
            self.due = instant

    def moved(self, queue: str, origin: str | None, to: str) -> None:
        if origin is not None:
            self.add(queue, COLUMN_OF[origin], -1)
        self.add(queue, COLUMN_OF[to], 1)

    def add(self, queue: str, column: str, delta: int) -> None:
        move = (queue, column, delta)
        self.counts.add(move)
        self._moves.append(move)

    def emit(self, job: Touched, event_type: str, message: str = "", payload: Any = None, level: str = "info") -> None:
        body = b"{}" if payload is None else encode(payload)
        self._events.append(
            (job.job_id, job.job_sequence, self.now, event_type, level, message, body.decode(),
             job.trace_id, job.queue, job.user_tag)
        )  # fmt: skip

    def announce(
        self, event_type: str, message: str, payload: Any = None, queue: str | None = None, level: str = "info"
    ) -> None:
        """An event of no job: queue.*, schedule.*, event.* and daemon.*."""
        body = b"{}" if payload is None else encode(payload)
        self._events.append((None, None, self.now, event_type, level, message, body.decode(), None, queue, None))

    def mark(self) -> tuple[int, int, int, int, int | None]:
        return len(self._events), len(self._moves), len(self.stops), len(self.secrets), self.due

    def back_to(self, mark: tuple[int, int, int, int, int | None]) -> None:
        events, moves, stops, secrets, self.due = mark
        for queue, column, delta in self._moves[moves:]:
            self.counts.add((queue, column, -delta))
        self.counts.load_rules(self.connection)
        del self._events[events:], self._moves[moves:], self.stops[stops:], self.secrets[secrets:]

    def flush(self, sequence: int) -> list[Recorded]:
        """Number and store the events; called once, last, so that the sequence has no gaps."""
        if self._moves:
            self.counts.flush(self.connection)
        rows = [(number, *event) for number, event in enumerate(self._events, sequence + 1)]
        if rows:
            self.connection.executemany(INSERT_EVENT, rows)
        return [_recorded(row) for row in rows]


def _recorded(row: tuple[Any, ...]) -> Recorded:
    number, job_id, job_sequence, at, event_type, level, message, payload, _, queue, user_tag = row
    event = Event(number, job_sequence, job_id, at, event_type, level, message, Raw(payload))
    return Recorded(event, queue, user_tag, len(message) + len(payload))
