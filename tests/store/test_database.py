"""Batches: a command that fails does so alone, a lost transaction takes all back, and memory agrees with disk."""

import resource
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest

from semantica_daemon.errors import DatabaseBusy, OutcomeUnknown, QueueFull, Refusal, StorageFull
from semantica_daemon.store.database import Command, CommitResult, Database, FailedAfterWrite, connect
from semantica_daemon.store.migrate import migrate
from semantica_daemon.store.tx import StopRun, Tx
from semantica_daemon.store.writes.claim import claim
from semantica_daemon.store.writes.enqueue import enqueue
from semantica_daemon.store.writes.queues import configure, pause
from semantica_daemon.wire.queue import ConfigureParams, PauseParams
from tests.builders import ADMISSION, NOW, Store, admitted
from tests.store import invariants
from tests.store.steps import begin, claimed_ids, claims, end, put

BIG = {"text": "x" * 500_000}


def nothing(tx: Tx, request: object = None) -> None:
    """A verb that does nothing."""


def batch(store: Store, *commands: Command, claiming: bool = False) -> CommitResult:
    return store.database.transact(list(commands), store.now, claim if claiming else None)


def enqueuing(**spec: Any) -> Command:
    return Command(enqueue, admitted(**spec))


def spoil(tx: Tx, how: Exception) -> None:
    """Does a bit of everything, then fails."""
    job = enqueue(tx, admitted(queue="spoilt", subject_key="s", on_running="cancel", ttl_ms=1, idempotency_key="k"))
    configure(tx, ConfigureParams("default", slots=0))
    pause(tx, PauseParams("default"))
    claim(tx)
    tx.stops.append(StopRun(job.job_id, "cancel"))
    raise how


HOWS = [
    RuntimeError("a bug"),
    QueueFull("a refusal"),
    sqlite3.IntegrityError("a constraint"),
    OverflowError("a number"),
]


@pytest.mark.parametrize("how", HOWS, ids=lambda how: type(how).__name__)
def test_a_command_that_fails_after_it_has_written_takes_its_batch_back(store: Store, how: Exception) -> None:
    """The writer then runs each command of the batch alone (tests/engine/test_writer.py)."""
    with pytest.raises(FailedAfterWrite) as failed:
        batch(store, enqueuing(), Command(spoil, how), enqueuing(ttl_ms=500))
    assert failed.value.error is how
    assert not store.connection.in_transaction
    assert store.rows("SELECT * FROM jobs") == store.events() == []
    assert store.rows("SELECT * FROM idempotency") == store.rows("SELECT * FROM queues") == []


def test_a_command_that_is_refused_before_it_writes_fails_alone(store: Store) -> None:
    def refuse(tx: Tx, _: object) -> None:
        tx.execute("SELECT 1 FROM jobs").fetchall()
        raise QueueFull("a refusal")

    committed = batch(store, enqueuing(), Command(refuse, None), enqueuing(ttl_ms=500))
    first, failed, last = committed.results
    assert isinstance(failed, QueueFull)
    assert [job["id"] for job in store.rows("SELECT id FROM jobs ORDER BY number")] == [first.job_id, last.job_id]
    assert [recorded.event.job_id for recorded in committed.events] == [first.job_id, last.job_id]
    assert (committed.stops, committed.due) == ([], NOW + 500)


def test_the_rules_a_failed_command_had_set_are_taken_back(store: Store) -> None:
    with pytest.raises(FailedAfterWrite):
        batch(store, Command(spoil, RuntimeError()))
    ack = put(store)
    assert claimed_ids(store) == [ack.job_id], "neither paused nor without slots"


def test_events_are_numbered_without_gaps_over_failures(store: Store) -> None:
    for how in (None, RuntimeError(), None, RuntimeError(), RuntimeError(), None):
        with suppress(FailedAfterWrite):
            batch(store, Command(spoil, how) if how else enqueuing())
    assert [event["sequence"] for event in store.events()] == [1, 2, 3]


def test_an_event_that_cannot_be_stored_takes_its_batch_back(store: Store) -> None:
    def poison(tx: Tx, request: object) -> None:
        tx.announce("queue.paused", "a lone surrogate: \ud800")

    with pytest.raises(FailedAfterWrite, match="surrogates"):
        batch(store, enqueuing(), Command(poison, None))
    assert store.rows("SELECT * FROM jobs") == store.events() == []
    assert put(store).state == "QUEUED"


@contextmanager
def full_disk(store: Store) -> Iterator[None]:
    """No page more than there are."""
    (pages,) = store.connection.execute("PRAGMA page_count").fetchone()
    store.connection.execute(f"PRAGMA max_page_count = {pages}")
    yield
    store.connection.execute("PRAGMA max_page_count = 1000000")


def test_a_full_disk_loses_the_batch_and_nothing_else(store: Store) -> None:
    running = begin(store, subject_key="s")
    before = store.events()
    with full_disk(store), pytest.raises(StorageFull) as refused:
        batch(store, enqueuing(), enqueuing(payload=BIG), enqueuing(queue="other"), claiming=True)
    assert (refused.value.number, refused.value.code, refused.value.retryable) == (5001, "E_STORAGE_FULL", True)
    assert not store.connection.in_transaction
    assert store.events() == before
    invariants.check(store)
    assert end(store, running) == "DONE", "and goes on without a restart"
    assert len(batch(store, enqueuing(payload=BIG), claiming=True).claims) == 1


def test_a_full_disk_is_told_to_a_command_that_survives_it(store: Store) -> None:
    """SQLite may keep the transaction and fail the statement alone; the caller is told the same."""

    def large(tx: Tx, _: object) -> None:
        tx.execute("CREATE TABLE scratch (a)")
        tx.execute("INSERT INTO scratch SELECT zeroblob(100000) FROM (SELECT 1 UNION ALL SELECT 2)")

    with full_disk(store):
        told = _told(store, Command(large, None))
    assert isinstance(told, StorageFull)
    assert store.rows("SELECT 1 FROM sqlite_master WHERE name = 'scratch'") == []


def _told(store: Store, command: Command) -> Any:
    """What the caller of that command gets, whether it lost its batch or failed alone."""
    try:
        return batch(store, command).results[0]
    except Refusal as refused:
        return refused


def test_another_process_that_holds_the_database_means_busy(store: Store) -> None:
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(DatabaseBusy) as refused:
        put(store)
    assert (refused.value.number, refused.value.retryable) == (5001, True)
    other.execute("ROLLBACK")
    other.close()
    assert put(store).state == "QUEUED"


def test_a_reader_never_makes_the_writer_wait(store: Store) -> None:
    put(store)
    reader = sqlite3.connect(store.path, isolation_level=None)
    reader.execute("BEGIN")
    assert reader.execute("SELECT count(*) FROM jobs").fetchone() == (1,)
    put(store)
    assert reader.execute("SELECT count(*) FROM jobs").fetchone() == (1,), "one consistent snapshot"
    reader.close()


@contextmanager
def no_file_may_grow(store: Store) -> Iterator[None]:
    """The kernel refuses to extend the log: an I/O error in the middle of a commit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    size = store.path.with_name("meta.db-wal").stat().st_size
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_commit_that_fails_on_disk_is_unknown_not_failed(forged: Store) -> None:
    put(forged)
    with no_file_may_grow(forged), pytest.raises(OutcomeUnknown) as refused:
        put(forged)
    assert (refused.value.number, refused.value.code) == (5001, "E_OUTCOME_UNKNOWN")
    assert not refused.value.retryable
    assert not forged.connection.in_transaction


def synchronous(tx: Tx, _: object) -> int:
    level: int = tx.execute("PRAGMA synchronous").fetchone()[0]
    return level


NORMAL, FULL = 1, 2


def test_a_durable_command_makes_its_batch_synced_and_no_other(store: Store) -> None:
    plain, durable = Command(synchronous, None), Command(synchronous, None, durable=True)
    levels = [batch(store, plain), batch(store, plain, durable), batch(store, plain)]
    assert [found.results[0] for found in levels] == [NORMAL, FULL, NORMAL]
    assert [found.synced for found in levels] == [False, True, False]


def test_a_synced_commit_writes_something_to_sync(store: Store) -> None:
    """An empty transaction would not reach the disk, and what came before it neither."""
    store.now = NOW + 7
    batch(store, Command(nothing, None, durable=True))
    assert store.rows("SELECT value FROM facts WHERE name = 'synced_at'") == [{"value": str(NOW + 7)}]


def test_durability_full_syncs_every_commit(store: Store) -> None:
    always = Database(store.connection, store.limits, Random(0), ADMISSION, store.current, full=True)
    committed = always.transact([Command(synchronous, None)], NOW, None)
    assert (committed.results, committed.synced) == ([FULL], True)


PRAGMAS = {"journal_mode": "wal", "synchronous": NORMAL, "foreign_keys": 1, "busy_timeout": 200, "auto_vacuum": 2}


@pytest.mark.parametrize("pragma", PRAGMAS)
def test_every_connection_has_its_pragmas(tmp_path: Path, pragma: str) -> None:
    for _ in ("new", "opened again"):
        connection = connect(tmp_path / "meta.db")
        connection.execute("CREATE TABLE IF NOT EXISTS t (a)")
        assert connection.execute(f"PRAGMA {pragma}").fetchone() == (PRAGMAS[pragma],)
        connection.close()


def test_a_restart_goes_on_where_it_was(store: Store) -> None:
    put(store, queue="a")
    claims(store)
    waiting = put(store, queue="one")
    again = Database(store.connection, store.limits, Random(1), ADMISSION, store.current)
    assert (again.sequence, again.epoch) == (3, store.database.epoch)
    committed = again.transact([enqueuing(queue="one")], NOW, claim)
    (ack,) = committed.results
    assert store.job(ack.job_id)["position"] > store.job(waiting.job_id)["position"]
    assert [claimed.run.job_id for claimed in committed.claims] == [waiting.job_id]
    assert [recorded.event.sequence for recorded in committed.events] == [4, 5]
    store.database = again


def test_closing_leaves_no_log_behind(tmp_path: Path) -> None:
    store = Store(tmp_path / "meta.db")
    put(store)
    store.database.close()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["meta.db"]


def test_the_epoch_is_the_database_s_own(store: Store, tmp_path: Path) -> None:
    """One that was made anew, not copied as the others of these tests are."""
    connection = connect(tmp_path / "other.db")
    migrate(connection, NOW)
    assert store.database.epoch != Database(connection, store.limits, Random(0), ADMISSION, store.current).epoch
    connection.close()
