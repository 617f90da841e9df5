"""The queries for jobs that need idle or power, and from when on; `writes/promote` and `engine/machine` use them.

Each row is (wait_for_idle, require_charging, the instant from which a job with these needs may start).
"""

from collections.abc import Iterable
from typing import Any

from aiosqlite import Connection

from semantica_daemon.model.machine import Needs

# One search of an index per combination of needs.
FIRST_DUE = "UNION ALL".join(
    f"""
SELECT {idle}, {power}, min(coalesce(scheduled_at, 0))
FROM jobs INDEXED BY idx_jobs_due
WHERE state = 'SCHEDULED' AND unmet = 0 AND wait_for_idle = {idle} AND require_charging = {power}
"""
    for idle, power in ((0, 0), (0, 1), (1, 0), (1, 1))
)
_QUEUED = "UNION ALL".join(
    f"""
SELECT {idle}, {power}, 0
WHERE EXISTS (
  SELECT 1
  FROM jobs INDEXED BY idx_jobs_queued_for_machine
  WHERE state = 'QUEUED' AND (wait_for_idle = 1 OR require_charging = 1)
    AND wait_for_idle = {idle} AND require_charging = {power}
)
"""
    for idle, power in ((0, 1), (1, 0), (1, 1))
)
# Jobs that are queued, or run with `stop_when_lost`, need the machine watched at once.
AT_ONCE = f"""{_QUEUED}UNION ALL
SELECT wait_for_idle, require_charging, 0
FROM jobs INDEXED BY idx_jobs_running
WHERE state = 'RUNNING' AND json_extract(spec, '$.stop_when_lost') = 1
"""
NEEDS = f"{FIRST_DUE}UNION ALL{AT_ONCE}"


async def needs(db: Connection) -> Needs:
    return from_rows(list(await db.execute_fetchall(NEEDS)))


def from_rows(rows: Iterable[Any]) -> Needs:
    found = [row for row in rows if row[2] is not None]
    idle = min((at for idle, _, at in found if idle), default=None)
    return Needs(idle, min((at for _, power, at in found if power), default=None))
