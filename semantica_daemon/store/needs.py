"""The query for jobs that need idle or power, and from when on; `writes/promote` and `engine/machine` use it."""

from typing import Any

from aiosqlite import Connection

from semantica_daemon.model.machine import Needs

_DUE = """(
    SELECT min(coalesce(scheduled_at, 0))
    FROM jobs INDEXED BY idx_jobs_due
    WHERE state = 'SCHEDULED' AND unmet = 0 AND wait_for_idle = {idle} AND require_charging = {power}
  )"""
_QUEUED = """EXISTS (
    SELECT 1
    FROM jobs INDEXED BY idx_jobs_queued_for_machine
    WHERE state = 'QUEUED' AND (wait_for_idle = 1 OR require_charging = 1)
      AND wait_for_idle = {idle} AND require_charging = {power}
  )"""
_RUNNING = """EXISTS (
    SELECT 1
    FROM jobs INDEXED BY idx_jobs_running
    WHERE state = 'RUNNING' AND json_extract(spec, '$.stop_when_lost') = 1 AND {column} = 1
  )"""
_CLASSES = ((1, 0), (0, 1), (1, 1))
NEEDS = "SELECT\n  " + ",\n  ".join(
    [
        *(_DUE.format(idle=idle, power=power) for idle, power in _CLASSES),
        *(_QUEUED.format(idle=idle, power=power) for idle, power in _CLASSES),
        *(_RUNNING.format(column=column) for column in ("wait_for_idle", "require_charging")),
    ]
)


async def needs(db: Connection) -> Needs:
    return from_row(next(iter(await db.execute_fetchall(NEEDS))))


def from_row(row: Any) -> Needs:
    """From a row of NEEDS. Jobs that are queued, or run with `stop_when_lost`, need the machine watched at once."""
    due, queued = row[:3], row[3:6]
    idle = [due[0], due[2], *_at_once(queued[0], queued[2], row[6])]
    power = [due[1], due[2], *_at_once(queued[1], queued[2], row[7])]
    return Needs(_first(idle), _first(power))


def _at_once(*any_of: int) -> list[int]:
    return [0] if any(any_of) else []


def _first(instants: list[int | None]) -> int | None:
    return min((at for at in instants if at is not None), default=None)
