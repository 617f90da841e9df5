"""The part of job.explain about limits: whether the key, the group and the rates of a waiting job let it start."""

from collections.abc import Iterable
from typing import Any

from aiosqlite import Connection

from semantica_daemon.model.queue import QueueRules, key_rule, key_rules
from semantica_daemon.model.reason import FullRate, FullRoom
from semantica_daemon.wire.queue import Rate

GROUP_LIMIT = """
SELECT iif(mode = 'sequential', 1, max_parallel), mode
FROM groups
WHERE chain_group_id = :chain_group_id
"""
BETWEEN_ATTEMPTS = """
SELECT id
FROM jobs INDEXED BY idx_jobs_group_live
WHERE finished_at IS NULL AND chain_group_id IS NOT NULL AND chain_group_id = :chain_group_id
  AND state = 'SCHEDULED' AND attempts > 0
LIMIT 1
"""
STARTS = """
SELECT started_at, starts
FROM rates
WHERE queue = :queue AND concurrency_key = :key
ORDER BY started_at DESC
LIMIT :most
"""


async def full_rooms(db: Connection, job: dict[str, Any], running: Iterable[Any], rules: QueueRules) -> dict[str, Any]:
    """`running`: (id, queue, concurrency key, group) of each running job."""
    rooms, rates = [], []
    key, group = job["concurrency_key"], job["chain_group_id"]
    if key is not None:
        rule = key_rule(key_rules(rules.keys), key)
        rooms.append(_room("key", key, rule.limit, [row[0] for row in running if row[1:3] == (job["queue"], key)]))
        rates.append(await _rate(db, job["queue"], key, rule.rate))
    if group is not None:
        rooms.append(await _group(db, job, [row[0] for row in running if row[3] == group]))
    rates.append(await _rate(db, job["queue"], None, rules.rate))
    return {
        "rooms": tuple(room for room in rooms if room is not None),
        "rates": tuple(rate for rate in rates if rate is not None),
    }


def _room(kind: str, name: str, limit: int | None, holders: list[str]) -> FullRoom | None:
    """None: one more job may start."""
    if limit is None or len(holders) < limit:
        return None
    return FullRoom(kind, name, len(holders), limit, holders[0] if holders else None)


async def _group(db: Connection, job: dict[str, Any], holders: list[str]) -> FullRoom | None:
    rows = list(await db.execute_fetchall(GROUP_LIMIT, job))
    limit, mode = rows[0] if rows else (None, None)
    if mode == "sequential":
        holders += [row[0] for row in await db.execute_fetchall(BETWEEN_ATTEMPTS, job)]
    return _room("group", job["chain_group_id"], limit, holders)


async def _rate(db: Connection, queue: str, key: str | None, rate: Rate | None) -> FullRate | None:
    """When the rate lets the next job start; an instant in the past: it does so now."""
    if rate is None:
        return None
    left = rate.count
    values = {"queue": queue, "key": key or "", "most": rate.count}
    for started_at, starts in await db.execute_fetchall(STARTS, values):
        left -= starts
        if left <= 0:
            return FullRate(key, started_at + rate.per_ms)
    return None
