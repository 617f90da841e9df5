"""The single writer: takes batches of commands from the queue, runs each batch in one transaction, and replies after
the commit. Commands that wait together share a commit.

A batch is committed inline, on the loop, because an unsynced commit takes less time than a switch to another thread
and back. Slow work runs in the writer's thread: a sync, a checkpoint, a large or long command, and waiting for another
process that has locked the database.
"""

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import structlog

from semantica_daemon import failpoints
from semantica_daemon.clock import Clock, Timer
from semantica_daemon.engine.commands import CommandQueue, Entry
from semantica_daemon.errors import CheckpointFailed, DatabaseBusy, OutcomeUnknown, Refusal
from semantica_daemon.store.database import Command, CommitResult, Database, FailedAfterWrite
from semantica_daemon.store.writes.claim import claim
from semantica_daemon.store.writes.clock import NOTICED_MS, Reading, set_clock
from semantica_daemon.store.writes.lifecycle import nothing

log = structlog.get_logger()

MOST_IN_BATCH = 100
BUSY_WAITS_S = (0.05, 0.1, 0.2)
TRY_AGAIN_MS = 500
SYNC_EVERY_MS = 1000
MOST_CHECKPOINT_FAILURES = 3  # in a row; after them the daemon stops

Listener = Callable[[CommitResult], None]


class Writer:
    """`listeners` are called after each commit, in order, on the loop."""

    def __init__(
        self, queue: CommandQueue, database: Database, clock: Clock, boot_id: str, listeners: Iterable[Listener]
    ) -> None:
        self.claiming = False
        self.batches = 0
        self.last_commit_at: int | None = None
        self.trouble: str | None = None
        self.checkpoint_trouble: str | None = None
        self.failed = False
        self._queue = queue
        self._database = database
        self._clock = clock
        self._boot_id = boot_id
        self._listeners = list(listeners)
        self._offset_ms = self._read_clock().offset_ms
        self._closed = False
        self._is_busy = False
        self._one_by_one = 0
        self._checkpoint_due = False
        self._checkpoint_error: CheckpointFailed | None = None
        self._checkpoint_failures = 0
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._thread = ThreadPoolExecutor(1, "writer")
        self._thread.submit(lambda: None)  # starts the thread now: later the system may have none to give
        self._sync_timer: Timer | None = None
        self._retry_timer: Timer | None = None
        self._lost_batches = LostBatches(clock)
        queue.filled().add_done_callback(self._on_filled)

    async def check_clock_at_start(self) -> None:
        """Handles a clock change that happened while no daemon ran."""
        await self._queue.run(set_clock, self._read_clock())

    def check_clock(self) -> None:
        """Submits an empty commit if the clock was set, so that the change is handled while the daemon is idle."""
        if self._clock_was_set(self._read_clock()):
            self._queue.submit(Command(nothing, None), must_commit=True)

    async def work(self) -> None:
        """Ends when it is cancelled, or raises the error after which the writer cannot continue."""
        await self._end

    def _on_filled(self, filled: "asyncio.Future[None]") -> None:
        self._queue.filled().add_done_callback(self._on_filled)
        self.begin()

    def begin(self) -> None:
        """Runs the next batch, unless one is under way."""
        if self._is_busy or self._closed or not len(self._queue):
            return
        self._is_busy = True
        batch = self._queue.take(1 if self._one_by_one else MOST_IN_BATCH)
        self._one_by_one = max(0, self._one_by_one - 1)
        synced = self._database.always_synced
        if synced or any(entry.slow for entry in batch) or self._clock_was_set(self._read_clock()):
            self._commit_in_thread(batch)
        else:
            self._commit_inline(batch)

    def _commit_inline(self, batch: list[Entry]) -> None:
        result: CommitResult | BaseException
        try:
            result = self._transact(batch, patient=False)
        except DatabaseBusy:
            self._commit_in_thread(batch)
            return
        except BaseException as error:
            result = error
        self._after_batch(batch, result)

    def _commit_in_thread(self, batch: list[Entry]) -> None:
        commit = asyncio.get_running_loop().run_in_executor(self._thread, self._transact_patiently, batch)
        commit.add_done_callback(lambda done: self._after_batch(batch, done.exception() or done.result()))

    async def close(self) -> None:
        """Called after the last command; checkpoints and closes the database in the writer's thread."""
        self._closed = True
        for timer in (self._sync_timer, self._retry_timer):
            if timer is not None:
                timer.cancel()
        try:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._database.close, not self.failed)
        except CheckpointFailed as failed:
            log.error("checkpoint_failed", reason=str(failed))
        self._thread.shutdown(wait=False)

    def _after_batch(self, batch: list[Entry], result: CommitResult | BaseException) -> None:
        try:
            if isinstance(result, CommitResult):
                self._publish(batch, result)
            elif isinstance(result, FailedAfterWrite):
                self._rerun_apart(batch, result.error)
            elif isinstance(result, Refusal):
                self._on_rollback(batch, result)
            else:
                raise result
        except BaseException as fatal:
            self._stop_daemon(fatal)
            return
        self._is_busy = False
        self._queue.announce_room()
        if len(self._queue) and not isinstance(result, Refusal):
            self._queue.announce()

    def _stop_daemon(self, fatal: BaseException) -> None:
        """Runs no further batch; `work` raises this error, the daemon exits, and the next start recovers."""
        self.failed = True
        if not self._end.done():
            self._end.set_exception(fatal)

    def _transact(self, batch: list[Entry], patient: bool) -> CommitResult:
        """Handles a clock change before the commands of the batch, since they go by the new time."""
        commands = [entry.command for entry in batch]
        reading = self._read_clock()
        was_set = self._clock_was_set(reading)
        if was_set:
            commands.insert(0, Command(set_clock, reading))
        committed = self._database.transact(commands, self._clock.now(), claim if self.claiming else None, patient)
        if was_set:
            result = committed.results.pop(0)
            if isinstance(result, Exception):  # the next batch tries again, since the old offset stays
                log.error("verb_failed", verb=set_clock.__name__, exc_info=result)
            else:
                self._offset_ms = reading.offset_ms
        return committed

    def _read_clock(self) -> Reading:
        return Reading(self._boot_id, self._clock.now() - self._clock.elapsed())

    def _clock_was_set(self, reading: Reading) -> bool:
        return abs(reading.offset_ms - self._offset_ms) >= NOTICED_MS

    def _transact_patiently(self, batch: list[Entry]) -> CommitResult:
        """Runs in the writer's thread. Retries while another process has locked the database; checkpoints here, so that
        a commit on the loop never does."""
        for wait_s in BUSY_WAITS_S:
            try:
                committed = self._transact(batch, patient=True)
                break
            except DatabaseBusy:
                time.sleep(wait_s)
        else:
            committed = self._transact(batch, patient=True)
        if self._checkpoint_due:
            self._checkpoint()
        return committed

    def _checkpoint(self) -> None:
        """Runs in the writer's thread, after a commit that holds whatever becomes of the checkpoint."""
        self._checkpoint_due = False
        try:
            self._database.checkpoint()
        except CheckpointFailed as failed:
            self._checkpoint_error = failed
        else:
            self.checkpoint_trouble = None
            self._checkpoint_failures = 0

    def _publish(self, batch: list[Entry], committed: CommitResult) -> None:
        failpoints.hit("after_commit_before_reply")
        self.batches += 1
        self.last_commit_at = self._clock.now()
        self.trouble = None
        if committed.must_sync:  # a template made a job durable, which is known only inside the transaction
            sync = Command(nothing, None, durable=True)
            self._queue.submit(sync, lambda _: self._reply(batch, committed.results), must_commit=True)
        else:
            self._reply(batch, committed.results)
        self._sync_within(committed)
        for listener in self._listeners:
            listener(committed)
        if self._checkpoint_error is not None:
            self._on_failed_checkpoint(self._checkpoint_error)

    def _on_failed_checkpoint(self, failed: CheckpointFailed) -> None:
        """Tries again with the next sync, which it makes sure of. A full disk may get room again; any other error that
        repeats stops the daemon: the WAL would grow without end, on a disk that is broken."""
        self._checkpoint_error = None
        self._checkpoint_failures += not failed.is_full
        log.error("checkpoint_failed", reason=str(failed), failures=self._checkpoint_failures)
        self.checkpoint_trouble = str(failed)
        if self._checkpoint_failures >= MOST_CHECKPOINT_FAILURES:
            raise failed
        if self._sync_timer is None:
            self._sync_timer = self._clock.after(SYNC_EVERY_MS, self._sync)

    def _reply(self, batch: list[Entry], results: list[Any]) -> None:
        for entry, result in zip(batch, results, strict=True):
            if isinstance(result, Exception) and not isinstance(result, Refusal):
                log.error("verb_failed", verb=entry.command.verb.__name__, exc_info=result)
            if entry.done is not None:
                entry.done(result)

    def _sync_within(self, committed: CommitResult) -> None:
        """Ensures a synced commit at most SYNC_EVERY_MS after an unsynced one."""
        if committed.synced and self._sync_timer is not None:
            self._sync_timer.cancel()
            self._sync_timer = None
        elif not committed.synced and self._sync_timer is None:
            self._sync_timer = self._clock.after(SYNC_EVERY_MS, self._sync)

    def _sync(self) -> None:
        self._sync_timer = None
        self._checkpoint_due = True
        self._queue.submit(Command(nothing, None, durable=True), must_commit=True)

    def _rerun_apart(self, batch: list[Entry], error: Exception) -> None:
        """A command failed after it had written. Runs each command of the batch again in a transaction of its own; the
        one that fails alone gets the error as its reply."""
        if len(batch) > 1:
            self._queue.put_back(batch)
            self._one_by_one = len(batch)
        else:
            self._reply(batch, [error])

    def _on_rollback(self, batch: list[Entry], refused: Refusal) -> None:
        """The batch was rolled back, or its outcome is unknown. Replies with the error; commands with `must_commit` are
        queued again."""
        self._lost_batches.log(refused, len(batch))
        self.trouble = refused.code
        for entry in batch:
            if entry.done is not None and not entry.must_commit:
                entry.done(refused)
        if isinstance(refused, OutcomeUnknown):
            raise refused
        self._queue.put_back([entry for entry in batch if entry.must_commit])
        if self._retry_timer is None:
            self._retry_timer = self._clock.after(TRY_AGAIN_MS, self._retry)

    def _retry(self) -> None:
        """Retries what is queued, or else a commit that writes to the disk: `trouble` ends with a commit, also when no
        client writes any more."""
        self._retry_timer = None
        if not len(self._queue):
            self._queue.submit(Command(nothing, None, durable=True), must_commit=True)
        self.begin()


class LostBatches:
    """Logs batches that were rolled back, at most one line in TRY_AGAIN_MS: a full disk may stay full for hours.
    `more`: batches since the line before that have no line of their own."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._next_at = 0
        self._more = 0

    def log(self, refused: Refusal, commands: int) -> None:
        if self._clock.elapsed() < self._next_at and not isinstance(refused, OutcomeUnknown):
            self._more += 1
            return
        log.error("batch_lost", code=refused.code, reason=refused.message, commands=commands, more=self._more)
        self._next_at = self._clock.elapsed() + TRY_AGAIN_MS
        self._more = 0
