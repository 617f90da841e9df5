"""The query of worker.list."""

from typing import Any

import msgspec
from aiosqlite import Connection

from semantica_daemon.wire.worker import WorkerRun, WorkerView

ALIVE_LEASES = 2  # a worker is alive until so many lease times have passed since its latest call
_MADE = ("alive", "runs")
COLUMNS = tuple(name for name in WorkerView.__struct_fields__ if name not in _MADE)
WORKERS = f"""
SELECT {", ".join(COLUMNS)}, (
  SELECT json_group_array(json_object(
    'run_id', leases.run_id, 'job_id', id, 'job_type', job_type, 'queue', queue, 'started_at', jobs.started_at,
    'lease_expires_at', leases.expires_at
  ))
  FROM leases INDEXED BY idx_leases_worker
  JOIN jobs ON jobs.number = job_number
  WHERE leases.worker_id = workers.worker_id
) AS runs
FROM workers
"""
_names = msgspec.json.Decoder(list[str])
_runs = msgspec.json.Decoder(list[WorkerRun])


async def workers(db: Connection, now: int) -> list[WorkerView]:
    """`alive` by their latest calls alone."""
    return [_view(row, now) for row in await db.execute_fetchall(WORKERS)]


def _view(row: Any, now: int) -> WorkerView:
    *columns, runs = row
    fields: dict[str, Any] = dict(zip(COLUMNS, columns, strict=True))
    is_silent = now - fields["last_heartbeat"] >= ALIVE_LEASES * fields["lease_ms"]
    fields |= {name: None if fields[name] is None else _names.decode(fields[name]) for name in ("queues", "job_types")}
    fields["runs"] = sorted(_runs.decode(runs), key=lambda run: run.run_id)
    return WorkerView(**fields, alive=fields["left_at"] is None and not is_silent)
