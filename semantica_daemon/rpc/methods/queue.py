"""The `queue` family: slots, limits and pauses of queues."""

from typing import Any

from semantica_daemon.engine.readers import Readers
from semantica_daemon.model.queue import Limits, QueueRules
from semantica_daemon.rpc.binding import Binding, Call, Write
from semantica_daemon.store import reads
from semantica_daemon.store.counts import EVERY_QUEUE
from semantica_daemon.store.writes import queues
from semantica_daemon.wire.admin import QueueStats
from semantica_daemon.wire.queue import QueueList, QueueView
from semantica_daemon.wire.types import Params

NO_ROW = (None, None, None, None, None, None)


class QueueMethods:
    def __init__(self, readers: Readers, limits: Limits) -> None:
        self._readers = readers
        self._limits = limits

    def bindings(self) -> dict[str, Binding]:
        return {
            "queue.list": Call(self._list),
            "queue.configure": Write(queues.configure),
            "queue.pause": Write(queues.pause),
            "queue.resume": Write(queues.resume),
        }

    async def _list(self, _: Params) -> QueueList:
        """Every queue that is configured, or has or had jobs."""
        counts = {stats.queue: stats for stats in await self._readers.query(reads.stats)}
        rows = {row[0]: row for row in await self._readers.query(reads.queue_rows)}
        everywhere = rows.pop(EVERY_QUEUE, NO_ROW)
        names = sorted({"default", *counts, *rows, *self._limits.named})
        return QueueList([self._view(name, counts.get(name), rows.get(name, NO_ROW), everywhere) for name in names])

    def _view(self, queue: str, stats: QueueStats | None, row: Any, everywhere: Any) -> QueueView:
        _, paused_at, resume_at, *given = row
        rules = self._limits.of(queue, QueueRules(*given))
        if everywhere[1] is not None:
            paused_at = everywhere[1]
            resume_at = max(filter(None, (resume_at, everywhere[2])), default=None)
        return QueueView(
            queue=queue,
            queued=stats.queued if stats else 0,
            scheduled=stats.scheduled if stats else 0,
            running=stats.running if stats else 0,
            slots=rules.slots or 0,
            paused=paused_at is not None,
            resume_at=resume_at,
            max_queued=rules.max_queued or 0,
            on_running=str(rules.on_running),
        )
