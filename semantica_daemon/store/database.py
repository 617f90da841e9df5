"""The write connection: pragmas, and batches of commands in one transaction each. `engine/writer` calls it."""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct

from semantica_daemon import failpoints
from semantica_daemon.errors import (
    CheckpointFailed,
    DatabaseBusy,
    DatabaseFailed,
    InternalError,
    OutcomeUnknown,
    OutOfMemory,
    Refusal,
    StorageFull,
)
from semantica_daemon.model.admission import Admission
from semantica_daemon.model.event import StoredEvent
from semantica_daemon.model.machine import CurrentFacts
from semantica_daemon.model.queue import Limits
from semantica_daemon.store.awaited import AwaitedJobs
from semantica_daemon.store.chains import settle
from semantica_daemon.store.counts import Counts
from semantica_daemon.store.epoch import mark_closed
from semantica_daemon.store.external import ExternalQueues, Wanted
from semantica_daemon.store.flows import Flows
from semantica_daemon.store.ids import Ids
from semantica_daemon.store.ready import ReadyQueues
from semantica_daemon.store.reservations import Reservations
from semantica_daemon.store.rooms import Rooms
from semantica_daemon.store.run_transition import Claim
from semantica_daemon.store.tx import ChangedSecrets, StopRun, Tx, TxContext
from semantica_daemon.store.writes.groups import stop_members
from semantica_daemon.store.writes.promote import promote_opened
from semantica_daemon.store.writes.reservations import settle as settle_reservation

# sqlite3 searches an adapter for every None and bool it binds; a registered one is found at once.
sqlite3.register_adapter(type(None), lambda _: None)
sqlite3.register_adapter(bool, int)

BUSY_TIMEOUT_MS = 200
LARGE = 65_536  # bytes; larger payloads and results are written in the writer's thread
# The writer checkpoints once a second, in its thread; SQLite's automatic checkpoint is only the fallback.
LAST_RESORT_PAGES = 8000
PRAGMAS = (
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
    "PRAGMA auto_vacuum = INCREMENTAL",  # must be set before WAL; after it, SQLite ignores it silently
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = NORMAL",
    "PRAGMA foreign_keys = ON",
    f"PRAGMA wal_autocheckpoint = {LAST_RESORT_PAGES}",
)
# Pruning may have taken the newest event with its job.
LAST_SEQUENCE = """
SELECT max(
  coalesce((SELECT max(sequence) FROM job_events), 0),
  coalesce((SELECT CAST(value AS INTEGER) FROM facts WHERE name = 'last_sequence'), 0)
)
"""
LAST_POSITION = "SELECT coalesce(max(position), 0) FROM jobs INDEXED BY idx_jobs_pop WHERE state = 'QUEUED'"
EPOCH = "SELECT value FROM facts WHERE name = 'epoch'"
NOTE_SYNC = "INSERT OR REPLACE INTO facts (name, value) VALUES ('synced_at', :now)"

Verb = Callable[[Tx, Any], Any]
ClaimStep = Callable[[Tx], list[Claim]]


class Command(Struct, frozen=True, gc=False):
    """`durable`: the reply is sent only after a synced commit."""

    verb: Verb
    request: Any
    durable: bool = False


class CommitResult(Struct, frozen=True):
    """The results of a committed batch, and what has to happen after the commit. A result may be the exception of its
    command. `must_sync`: the replies have to wait for a later commit that is synced."""

    results: list[Any]
    events: list[StoredEvent]
    stops: list[StopRun]
    due: int | None
    claims: list[Claim]
    synced: bool
    secrets: list[ChangedSecrets]
    must_sync: bool
    attached: list[tuple[str, str | None]]
    ended_groups: set[str]


def connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    for pragma in PRAGMAS:
        connection.execute(pragma)
    return connection


class Database:
    """Only the writer uses it, from one thread at a time."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        limits: Limits,
        random: Random,
        admission: Admission,
        machine: CurrentFacts,
        full: bool = False,
    ) -> None:
        self._connection = connection
        self._counts = Counts(limits)
        self.limits = limits
        self._rooms = Rooms(connection, self._counts)
        self._ready = ReadyQueues(self._counts, self._rooms)
        self.external = ExternalQueues(self._counts, self._rooms)
        self._flows = Flows(connection)
        self._awaited = AwaitedJobs()
        self._reservations = Reservations()
        limiting = (self._counts, self._rooms, self._ready, self.external, self._flows)
        self.context = TxContext(*limiting, self._awaited, self._reservations, Ids(random), admission, machine)
        self.always_synced = full
        self._pragmas: dict[str, str] = {}
        self.sequence = 0
        self._position = 0
        self.epoch: str = connection.execute(EPOCH).fetchone()[0]
        self._is_loaded = False
        self._load()

    def transact(
        self, commands: list[Command], now: int, claim: ClaimStep | None, patient: bool = True
    ) -> CommitResult:
        """Runs all commands in one transaction, then the claim, then commits. A command that fails before it has
        written anything gets its exception as its result; one that fails later raises FailedAfterWrite, and everything
        is rolled back. `patient`: waits up to BUSY_TIMEOUT_MS for another process."""
        sync = self.always_synced or any(command.durable for command in commands)
        self._begin(sync, patient)
        tx = Tx(self._connection, now, self.sequence, self._position, self.context)
        try:
            results = [self._run(tx, command) for command in commands]
            _follow_up(tx)
            claims = claim(tx) if claim is not None else []
            if tx.opened or tx.awaited.ended or tx.rooms.stopping:  # more to settle, or the claim skipped a job
                tx.wake_at(now)  # the scheduler's next pass goes on
            if sync:
                failpoints.hit("during_sync")
                tx.execute(NOTE_SYNC, {"now": str(now)})
            events = self._flush(tx)
            self._commit()
        except OutcomeUnknown:
            with suppress(sqlite3.Error):
                self._abandon()
            raise
        except BaseException as error:
            self._abandon()
            if from_outside(error):
                raise refusal(error) from error
            raise
        self.sequence += len(events)
        self._position = tx.position
        must_sync = tx.must_sync and not sync
        after = (tx.secrets, must_sync, tx.attached, tx.ended_groups)
        return CommitResult(results, events, tx.stops, tx.due, claims, sync, *after)

    def next_external_job(self, wanted: Wanted, now: int) -> int | None:
        """When a worker that claims by this filter may find a job: now, or when a rate allows the next start. Only
        right after a commit, on the loop."""
        if self._reservations.active is not None:
            return None
        found = self.external.best(wanted, self.context.machine.facts, now)
        return self.external.next_opening(now) if found is None else now

    def checkpoint(self) -> None:
        """Checkpoints as far as readers allow, so that the WAL stays small. Raises CheckpointFailed if the database
        file cannot be written; its commits are then in the WAL alone."""
        failpoints.hit("during_checkpoint")
        self._checkpoint("PASSIVE")

    def close(self, clean: bool = True) -> None:
        """Checkpoints, so that the next start reads no WAL, unless another process has locked the database; then
        closes. `clean`: every commit is known to hold."""
        try:
            if clean:
                with suppress(sqlite3.Error):  # then the next start takes it for one that was not closed
                    mark_closed(self._connection)
            self._checkpoint("TRUNCATE")
        finally:
            self._connection.close()

    def _checkpoint(self, mode: str) -> None:
        try:
            self._connection.execute(f"PRAGMA wal_checkpoint({mode})").fetchall()
        except sqlite3.Error as error:
            code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
            if code not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                message = f"the database file cannot be written: {error}"
                raise CheckpointFailed(message, is_full=code == sqlite3.SQLITE_FULL) from error

    def _load(self) -> None:
        """Reads what is kept in memory beside the tables."""
        self.sequence = self._connection.execute(LAST_SEQUENCE).fetchone()[0]
        self._position = self._connection.execute(LAST_POSITION).fetchone()[0]
        self._counts.load(self._connection)
        self._rooms.load()
        self._ready.load(self._connection)
        self.external.load(self._connection)
        self._flows.load(self._ready.queues_with_keys() | self.external.queues_with_keys())
        self._awaited.load(self._connection)
        self._reservations.load(self._connection)
        self._is_loaded = True

    def _begin(self, sync: bool, patient: bool) -> None:
        """Sets `synchronous` first, since it cannot change inside a transaction."""
        try:
            self._set("synchronous", "FULL" if sync else "NORMAL")
            self._set("busy_timeout", str(BUSY_TIMEOUT_MS if patient else 0))
            if not self._is_loaded:
                self._load()
            self._connection.execute("BEGIN IMMEDIATE")
        except (sqlite3.Error, MemoryError) as error:
            raise refusal(error) from error

    def _set(self, pragma: str, value: str) -> None:
        if self._pragmas.get(pragma) != value:
            self._connection.execute(f"PRAGMA {pragma} = {value}")
            self._pragmas[pragma] = value

    def _run(self, tx: Tx, command: Command) -> Any:
        before = self._connection.total_changes + tx.next_sequence
        try:
            return command.verb(tx, command.request)
        except Exception as error:
            if from_outside(error):
                raise
            rolled_back = not self._connection.in_transaction  # by a trigger that guards the table
            if rolled_back or self._connection.total_changes + tx.next_sequence != before:
                raise FailedAfterWrite(error) from error
            return error

    def _flush(self, tx: Tx) -> list[StoredEvent]:
        """If the events cannot be stored, one of the commands is the cause: it is found by running each command
        alone."""
        try:
            return tx.flush()
        except Exception as error:
            if from_outside(error):
                raise
            reason = InternalError(f"its events cannot be stored: {error}", "this is a bug; see the log")
            raise FailedAfterWrite(reason) from error

    def _commit(self) -> None:
        failpoints.hit("before_commit")
        try:
            self._connection.execute("COMMIT")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_IOERR:
                raise OutcomeUnknown(
                    f"the commit failed on disk ({error}); whether it holds is known after a restart",
                    "check the disk; call again with the same idempotency_key when the daemon is back",
                ) from error
            raise

    def _abandon(self) -> None:
        """Rolls back, and loads counts and ready queues again from the tables; if they cannot be read now, the next
        transaction does so first."""
        self._is_loaded = False
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        with suppress(sqlite3.Error):
            self._load()


def _follow_up(tx: Tx) -> None:
    """What follows from the commands, each in a bounded number of changes."""
    if tx.rooms.stopping:
        stop_members(tx)
    if tx.awaited.ended:
        settle(tx)
    promote_opened(tx)
    if tx.reservations.active is not None:
        settle_reservation(tx)


class FailedAfterWrite(Exception):
    """A command failed after it had written, so its batch was rolled back: the others must run again without it."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def from_outside(error: BaseException) -> bool:
    """Whether the disk, the memory or another process is the cause. The whole batch is lost then, even if SQLite keeps
    the transaction open. sqlite3 raises MemoryError for SQLITE_NOMEM."""
    return isinstance(error, MemoryError) or (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in (
        sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
    )  # fmt: skip


def refusal(error: BaseException) -> Refusal:
    """The error for the callers of a batch in which a statement failed."""
    if isinstance(error, MemoryError):
        return OutOfMemory()
    primary = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return DatabaseBusy("another process holds the database", "try again; nothing was changed")
    if primary == sqlite3.SQLITE_FULL:
        return StorageFull("the disk is full", "free some space and try again; nothing was changed")
    return DatabaseFailed(f"the database refused: {error}", "nothing was changed; the daemon's log says more")
