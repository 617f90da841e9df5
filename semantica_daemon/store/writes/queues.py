"""queue.configure, queue.pause, queue.resume and queue.delete. Stored settings win over those of the config file."""

import msgspec

from semantica_daemon.errors import InvalidParams, QueueInUse, QueueNotFound, did_you_mean
from semantica_daemon.model.queue import MOST_SLOTS, Limits, key_rules
from semantica_daemon.store.counts import EVERY_QUEUE
from semantica_daemon.store.tx import Tx
from semantica_daemon.wire.queue import (
    ConfigureParams,
    DeleteQueueParams,
    DeleteQueueResult,
    PauseParams,
    PauseState,
    QueueSettings,
    ResumeParams,
)

CONFIGURE = """
INSERT INTO queues (queue, slots, on_running, max_queued, rate, keys)
VALUES (:queue, :slots, :on_running, :max_queued, :rate, :keys)
ON CONFLICT (queue) DO UPDATE
SET slots = coalesce(excluded.slots, slots), on_running = coalesce(excluded.on_running, on_running),
    max_queued = coalesce(excluded.max_queued, max_queued), rate = coalesce(excluded.rate, rate),
    keys = coalesce(excluded.keys, keys)
"""
SET_GLOBAL_SLOTS = """
INSERT INTO queues (queue, slots)
VALUES (:queue, :slots)
ON CONFLICT (queue) DO UPDATE
SET slots = excluded.slots
"""
PAUSE = """
INSERT INTO queues (queue, paused_at, resume_at)
VALUES (:queue, :now, :resume_at)
ON CONFLICT (queue) DO UPDATE
SET paused_at = coalesce(paused_at, excluded.paused_at), resume_at = excluded.resume_at
"""
RESUME_NAMED = f"UPDATE queues SET paused_at = NULL, resume_at = NULL WHERE queue <> '{EVERY_QUEUE}'"
RESUME = "UPDATE queues SET paused_at = NULL, resume_at = NULL WHERE queue = :queue AND paused_at IS NOT NULL"
DELETE = "DELETE FROM queues WHERE queue = :queue"
REMOVE = "UPDATE queue_counts SET removed = 1 WHERE queue = :queue"
NAMED_BY_TEMPLATE = "SELECT 1 FROM templates WHERE json_extract(spec, '$.queue') = :queue"


def configure(tx: Tx, request: ConfigureParams) -> QueueSettings:
    if request.queue is None:
        return _set_global_slots(tx, request)
    _check_exists(tx, request.queue, request.must_exist)
    tx.execute(CONFIGURE, {**msgspec.structs.asdict(request), **_stored(tx, request.queue, request)})
    tx.counts.load_rules(tx.connection)
    rules, most = tx.counts.rules(request.queue), tx.counts.limits.max_slots
    beyond = (f"only {most} jobs run at once in all queues together",) if (request.slots or 0) > most else ()
    keys = key_rules(rules.keys)
    answer = QueueSettings(request.queue, rules.slots, rules.on_running, rules.max_queued, rules.rate, keys, beyond)
    tx.announce("queue.configured", f"queue {request.queue} configured", answer, request.queue)
    return answer


def _stored(tx: Tx, queue: str, request: ConfigureParams) -> dict[str, str | None]:
    """The settings that are stored as JSON. Patterns that are not given stay as they are; null removes one, also one of
    the config file."""
    keys = None if request.keys is None else (tx.counts.stored_keys(queue) | request.keys)
    return {
        name: None if value is None else msgspec.json.encode(value).decode()
        for name, value in (("rate", request.rate), ("keys", keys))
    }


def _set_global_slots(tx: Tx, request: ConfigureParams) -> QueueSettings:
    others = (request.on_running, request.max_queued, request.rate, request.keys)
    if request.slots is None or any(value is not None for value in others):
        raise InvalidParams("without a queue only slots can be set", "name a queue", path="$.queue")
    if request.slots > MOST_SLOTS:
        raise InvalidParams(f"must be {MOST_SLOTS} or less for all queues together", "give less", path="$.slots")
    tx.execute(SET_GLOBAL_SLOTS, {"queue": EVERY_QUEUE, "slots": request.slots or None})
    tx.counts.load_rules(tx.connection)
    answer = QueueSettings(None, tx.counts.limits.max_slots, None, None)
    tx.announce("queue.configured", f"{answer.slots} slots for all queues together", answer)
    return answer


def _check_exists(tx: Tx, queue: str | None, must_exist: bool = True) -> None:
    if not must_exist or queue is None or queue in tx.counts.names():
        return
    if tx.execute(NAMED_BY_TEMPLATE, {"queue": queue}).fetchone() is None:
        hint = did_you_mean(queue, sorted(tx.counts.names())) or "queue.list shows what there is"
        raise QueueNotFound(f"there is no queue {queue}", hint, queue=queue)


def use_limits(tx: Tx, limits: Limits) -> None:
    """The config file was read again: its limits apply to the claims of this transaction already."""
    tx.counts.limits.become(limits)
    tx.counts.load_rules(tx.connection)


def pause(tx: Tx, request: PauseParams) -> PauseState:
    _check_exists(tx, request.queue, request.must_exist)
    resume_at = None if request.resume_after_ms is None else tx.now + request.resume_after_ms
    tx.execute(PAUSE, {"queue": request.queue or EVERY_QUEUE, "now": tx.now, "resume_at": resume_at})
    tx.counts.load_rules(tx.connection)
    tx.wake_at(resume_at)
    answer = PauseState(request.queue, True, resume_at)
    tx.announce("queue.paused", f"{request.queue or 'every queue'} paused", answer, request.queue)
    return answer


def resume(tx: Tx, request: ResumeParams) -> PauseState:
    """Resumes one queue, or without a name every queue. A queue stays paused during the global pause."""
    _check_exists(tx, request.queue, request.must_exist)
    if request.queue is not None:
        return end_pause(tx, request.queue)
    tx.execute(RESUME_NAMED)
    return end_pause(tx, EVERY_QUEUE)


def end_pause(tx: Tx, queue: str) -> PauseState:
    """Ends the pause of one queue, or the global pause (EVERY_QUEUE)."""
    changed = tx.execute(RESUME, {"queue": queue}).rowcount
    tx.counts.load_rules(tx.connection)
    named = None if queue == EVERY_QUEUE else queue
    answer = PauseState(named, tx.counts.is_paused(queue))
    if changed:
        tx.announce("queue.resumed", f"{named or 'every queue'} resumed", answer, named)
    return answer


def delete(tx: Tx, request: DeleteQueueParams) -> DeleteQueueResult:
    queue = request.queue
    _check_exists(tx, queue)
    if live := tx.counts.live(queue):
        raise QueueInUse(f"queue {queue} has jobs that wait or run: {live}", "job.cancel ends them", queue=queue)
    tx.execute(DELETE, {"queue": queue})
    tx.counts.flush(tx.connection, tx.now)  # a job of the queue may have ended in this transaction
    tx.execute(REMOVE, {"queue": queue})
    tx.counts.forget(queue)
    tx.counts.load_rules(tx.connection)
    answer = DeleteQueueResult(queue, queue in tx.counts.names())
    tx.announce("queue.deleted", f"queue {queue} deleted", answer, queue)
    return answer
