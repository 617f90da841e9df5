"""The one write connection: pragmas, and batches of verbs in one transaction each. `engine/writer` feeds it."""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

from msgspec import Struct

from semantica_daemon import failpoints
from semantica_daemon.errors import DatabaseBusy, DatabaseFailed, InternalError, OutcomeUnknown, Refusal, StorageFull
from semantica_daemon.model.admission import Admission
from semantica_daemon.model.event import Recorded
from semantica_daemon.model.machine import CurrentFacts
from semantica_daemon.model.queue import Limits
from semantica_daemon.store.counts import Counts
from semantica_daemon.store.ids import Ids
from semantica_daemon.store.transition import Claim
from semantica_daemon.store.tx import Given, StopRun, Tx
from semantica_daemon.store.writes.claim import claim

BUSY_TIMEOUT_MS = 200
LARGE = 65_536  # bytes of a payload or result that are not written on the loop
# Checkpoints are the writer's to make, once a second and off the loop; SQLite's own are the net below that.
LAST_RESORT_PAGES = 8000
PRAGMAS = (
    "PRAGMA synchronous = NORMAL",
    "PRAGMA foreign_keys = ON",
    f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}",
    f"PRAGMA wal_autocheckpoint = {LAST_RESORT_PAGES}",
)
LAST_SEQUENCE = "SELECT seq FROM sqlite_sequence WHERE name = 'job_events'"
LAST_POSITION = """
SELECT max(position)
FROM jobs INDEXED BY idx_jobs_pop
WHERE state = 'QUEUED' AND execution_mode IS NOT NULL
"""
EPOCH = "SELECT value FROM facts WHERE name = 'epoch'"
NOTE_SYNC = "INSERT OR REPLACE INTO facts (name, value) VALUES ('synced_at', :now)"

Verb = Callable[[Tx, Any], Any]


class Command(Struct, frozen=True, gc=False):
    """`durable`: answered only after a synced commit."""

    verb: Verb
    request: Any
    durable: bool = False


class Committed(Struct, frozen=True):
    """What a batch has led to, known only once it is committed. A result may be the exception of its command."""

    results: list[Any]
    events: list[Recorded]
    stops: list[StopRun]
    due: int | None
    claims: list[Claim]
    synced: bool
    secrets: list[tuple[str, dict[str, str]]]


def connect(path: Path) -> sqlite3.Connection:
    """auto_vacuum has to come before WAL, or it is silently ignored."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, cached_statements=256)
    connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}")
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    connection.execute("PRAGMA journal_mode = WAL")
    for pragma in PRAGMAS:
        connection.execute(pragma)
    return connection


class Database:
    """Used by one thread at a time: the writer's."""

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
        self.given = Given(self._counts, Ids(random), admission, machine)
        self.always_synced = full
        self._pragmas: dict[str, str] = {}
        self._sequence = 0
        self._position = 0
        self.epoch = ""
        self._load()

    @property
    def sequence(self) -> int:
        return self._sequence

    def transact(self, commands: list[Command], now: int, claiming: bool, patient: bool = True) -> Committed:
        """All commands in one transaction, each as if in a savepoint of its own, then the claims, then one commit.
        `patient`: may wait a moment for another process."""
        sync = self.always_synced or any(command.durable for command in commands)
        self._begin(sync, patient)
        tx = Tx(self._connection, now, self._position, self.given)
        try:
            results = self._run_all(tx, commands)
            claims = claim(tx) if claiming else []
            if sync:
                failpoints.hit("during_sync")
                tx.execute(NOTE_SYNC, {"now": str(now)})
            events = self._flush(tx)
            self._commit()
        except BaseException as error:
            self._abandon()
            if from_outside(error):
                raise refusal(error) from error
            raise
        self._sequence += len(events)
        self._position = tx.position
        return Committed(results, events, tx.stops, tx.due, claims, sync, tx.secrets)

    def checkpoint(self) -> None:
        """As far as readers allow; the next write then begins the log anew, and it stays small."""
        failpoints.hit("during_checkpoint")
        with suppress(sqlite3.OperationalError):
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()

    def close(self) -> None:
        """With a checkpoint, so that the next start reads no log; if another process is in the way, without."""
        with suppress(sqlite3.OperationalError):
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self._connection.close()

    def _load(self) -> None:
        row = self._connection.execute(LAST_SEQUENCE).fetchone()
        self._sequence = row[0] if row else 0
        self._position = self._connection.execute(LAST_POSITION).fetchone()[0] or 0
        self.epoch = self._connection.execute(EPOCH).fetchone()[0]
        self._counts.load(self._connection)

    def _begin(self, sync: bool, patient: bool) -> None:
        """`synchronous` cannot change inside a transaction, so it is chosen before."""
        try:
            self._set("synchronous", "FULL" if sync else "NORMAL")
            self._set("busy_timeout", str(BUSY_TIMEOUT_MS if patient else 0))
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            raise refusal(error) from error

    def _set(self, pragma: str, value: str) -> None:
        if self._pragmas.get(pragma) != value:
            self._connection.execute(f"PRAGMA {pragma} = {value}")
            self._pragmas[pragma] = value

    def _run_all(self, tx: Tx, commands: list[Command]) -> list[Any]:
        """A verb that fails is rolled back alone. Most that fail have not written anything yet, so savepoints (a tenth
        of an enqueue) are only set when one has: then all is taken back and done again with them."""
        mark = tx.mark()
        try:
            return [self._run(tx, command) for command in commands]
        except _Spoilt:
            tx.execute("ROLLBACK")
            tx.execute("BEGIN IMMEDIATE")
            tx.back_to(mark)
            return [self._run_apart(tx, command) for command in commands]

    def _run(self, tx: Tx, command: Command) -> Any:
        mark, before = tx.mark(), self._connection.total_changes
        try:
            return command.verb(tx, command.request)
        except Exception as error:
            if not self._connection.in_transaction or from_outside(error):
                raise
            if self._connection.total_changes != before:
                raise _Spoilt from error
            tx.back_to(mark)
            return error

    def _run_apart(self, tx: Tx, command: Command) -> Any:
        """If the rollback took the transaction with it, the batch is lost."""
        mark = tx.mark()
        tx.execute("SAVEPOINT verb")
        try:
            result = command.verb(tx, command.request)
        except Exception as error:
            if not self._connection.in_transaction or from_outside(error):
                raise
            tx.execute("ROLLBACK TO verb")
            tx.back_to(mark)
            result = error
        tx.execute("RELEASE verb")
        return result

    def _flush(self, tx: Tx) -> list[Recorded]:
        """The events stand outside every savepoint; one that cannot be stored is some command's fault, but whose is
        only known when each is tried alone (`engine/writer` does)."""
        try:
            return tx.flush(self._sequence)
        except Exception as error:
            if from_outside(error):
                raise
            raise InternalError(f"its events cannot be stored: {error}", "this is a bug; see the log") from error

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
        """Nothing of the batch holds; what memory made of it is read again from the tables."""
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        try:
            self._load()
        except sqlite3.Error as error:
            raise refusal(error) from error


class _Spoilt(Exception):
    """A verb has failed after it had written."""


def from_outside(error: BaseException) -> bool:
    """The disk, the memory or another process: the whole batch is lost, even where SQLite kept it open."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in (
        sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED,
        sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN,
    )  # fmt: skip


def refusal(error: BaseException) -> Refusal:
    """What a failed statement means to the caller whose command was in that batch."""
    primary = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    if primary in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return DatabaseBusy("another process holds the database", "try again; nothing was changed")
    if primary == sqlite3.SQLITE_FULL:
        return StorageFull("the disk is full", "free some space and try again; nothing was changed")
    return DatabaseFailed(f"the database refused: {error}", "nothing was changed; the daemon's log says more")
