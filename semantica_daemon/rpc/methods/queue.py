"""The `queue` family: slots, limits and pauses of queues."""

from typing import Any

from semantica_daemon.engine.readers import Readers
from semantica_daemon.model.queue import Limits, key_rules, stored_rules
from semantica_daemon.rpc.binding import Binding, Call, Write
from semantica_daemon.store import reads
from semantica_daemon.store.counts import EVERY_QUEUE
from semantica_daemon.store.writes import queues
from semantica_daemon.wire.queue import QueueList, QueueView
from semantica_daemon.wire.types import Params

NO_ROW = (None,) * 8


def bindings(readers: Readers, limits: Limits) -> dict[str, Binding]:
    async def show(_: Params) -> QueueList:
        """Every queue that is configured, or has or had jobs."""
        counts = {one.queue: (one.queued, one.scheduled, one.running) for one in await readers.query(reads.stats)}
        rows = {row[0]: row for row in await readers.query(reads.queue_rows)}
        everywhere = rows.pop(EVERY_QUEUE, NO_ROW)
        names = sorted({"default", *counts, *rows, *limits.named})
        views = [_view(limits, name, rows.get(name, NO_ROW), everywhere, counts.get(name, (0, 0, 0))) for name in names]
        return QueueList(views)

    return {
        "queue.list": Call(show),
        "queue.configure": Write(queues.configure),
        "queue.pause": Write(queues.pause),
        "queue.resume": Write(queues.resume),
        "queue.delete": Write(queues.delete),
    }


def _view(limits: Limits, queue: str, row: Any, everywhere: Any, counts: tuple[int, int, int]) -> QueueView:
    rules = limits.of(queue, stored_rules(*row[3:]))
    resumes = [resume_at for _, paused_at, resume_at, *_ in (row, everywhere) if paused_at is not None]
    resume_at = max(resumes) if resumes and None not in resumes else None
    max_queued, on_running, keys = rules.max_queued or 0, str(rules.on_running), key_rules(rules.keys)
    slots, is_paused = rules.slots or 0, bool(resumes)
    return QueueView(queue, *counts, slots, is_paused, resume_at, max_queued, on_running, rules.rate, keys)
