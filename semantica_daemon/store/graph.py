"""The query of job.graph: which jobs belong to a graph, and the links between them. Every step of it is bounded."""

from typing import Any

import msgspec
from aiosqlite import Connection
from msgspec.json import encode

from semantica_daemon.errors import InvalidParams
from semantica_daemon.store import reads
from semantica_daemon.wire.graph import Graph, GraphEdge, GraphNode, GraphParams

MOST_EDGES = 20_000
SEARCHED = 5000  # QUEUED jobs that are searched for children: no index leads to those
# Both walks find the nearest jobs first.
ANCESTORS = """
WITH RECURSIVE up(id) AS (
  SELECT value FROM json_each(:ids)
  UNION
  SELECT parent_id FROM up JOIN job_parents ON job_parents.job_id = up.id
  LIMIT :most
)
SELECT id FROM up
"""
DESCENDANTS = """
WITH RECURSIVE down(id) AS (
  SELECT value FROM json_each(:ids)
  UNION
  SELECT job_id FROM down JOIN job_parents INDEXED BY idx_job_parents_parent ON parent_id = down.id
  LIMIT :most
)
SELECT id FROM down
"""
MEMBERS = """
SELECT id
FROM jobs INDEXED BY idx_jobs_group
WHERE chain_group_id = :group
ORDER BY number DESC
LIMIT :most
"""
# Live jobs that have parents: those that run, those that wait for a parent, those that wait for a slot.
LIVE_CHILDREN = f"""
SELECT id
FROM jobs INDEXED BY idx_jobs_running
WHERE state = 'RUNNING' AND parent_job_id IS NOT NULL
UNION
SELECT *
FROM (
  SELECT DISTINCT job_id
  FROM job_conditions INDEXED BY idx_job_conditions_lookup
  WHERE waiting = 1 AND key > 'job:' AND key < 'job;'
    AND EXISTS (SELECT 1 FROM job_parents WHERE job_parents.job_id = job_conditions.job_id)
  LIMIT :most
)
UNION
SELECT id
FROM (
  SELECT id, parent_job_id
  FROM jobs INDEXED BY idx_jobs_pop
  WHERE state = 'QUEUED'
  LIMIT {SEARCHED}
)
WHERE parent_job_id IS NOT NULL
"""
PLAIN = ("job_type", "state", "queue", "chain_group_id", "user_tag", "created_at", "started_at", "finished_at")
NODES = f"""
SELECT id, iif(length(payload) <= 1024, json_extract(payload, '$.argv'), NULL), {", ".join(PLAIN)}
FROM jobs
WHERE id IN (SELECT value FROM json_each(:ids))
ORDER BY number
"""
OLDEST = """
SELECT id
FROM jobs
WHERE id IN (SELECT value FROM json_each(:ids))
ORDER BY number
LIMIT :most
"""
EDGES = """
SELECT parent_id, job_id
FROM job_parents
WHERE job_id IN (SELECT value FROM json_each(:ids))
ORDER BY job_id, ordinal
LIMIT :most
"""

_argv = msgspec.json.Decoder(list[str])


async def graph(db: Connection, params: GraphParams) -> Graph:
    if params.job_id is not None and params.chain_group_id is not None:
        raise InvalidParams("a job and a group", "give one of them", path="$.chain_group_id")
    await db.execute("BEGIN")
    try:
        ids, is_cut = await _ids(db, params)
        rows = await _fetch(db, NODES, ids=ids)
        shown = [row[0] for row in rows]
        links = await _fetch(db, EDGES, ids=shown, most=MOST_EDGES + 1)
    finally:
        await db.execute("ROLLBACK")
    return _graph(rows, links[:MOST_EDGES], is_cut or len(links) > MOST_EDGES)


async def _ids(db: Connection, params: GraphParams) -> tuple[list[str], bool]:
    """The jobs of the graph, and whether there are more of them."""
    limit = params.limit
    if params.job_id is not None:
        return await _family(db, params.job_id, limit)
    if params.chain_group_id is not None:
        found = await _find(db, MEMBERS, group=params.chain_group_id, most=limit + 1)
    else:
        found = await _live(db, limit + 1)
    return found[:limit], len(found) > limit


async def _family(db: Connection, prefix: str, limit: int) -> tuple[list[str], bool]:
    """The job, its ancestors and its descendants; of many the nearest in both directions."""
    job_id, _ = await reads.state(db, prefix)
    up = await _find(db, ANCESTORS, ids=[job_id], most=limit + 1)
    down = (await _find(db, DESCENDANTS, ids=[job_id], most=limit + 1))[1:]
    kept = up[: max((limit + 1) // 2, limit - len(down))]
    return [*kept, *down[: limit - len(kept)]], len(up) + len(down) > limit


async def _live(db: Connection, most: int) -> list[str]:
    """Live jobs that have parents, and their ancestors; of many the oldest, so that the last children are left out."""
    children = await _find(db, LIVE_CHILDREN, most=most)
    found = await _find(db, ANCESTORS, ids=children, most=len(children) + most)
    return await _find(db, OLDEST, ids=found, most=most)


async def _find(db: Connection, sql: str, **bound: Any) -> list[str]:
    return [row[0] for row in await _fetch(db, sql, **bound)]


async def _fetch(db: Connection, sql: str, **bound: Any) -> list[Any]:
    values = {name: encode(value).decode() if isinstance(value, list) else value for name, value in bound.items()}
    return list(await db.execute_fetchall(sql, values))


def _graph(rows: list[Any], links: list[Any], truncated: bool) -> Graph:
    shown = {row[0] for row in rows}
    hidden = dict.fromkeys(shown, 0)
    for parent_id, job_id in links:
        hidden[job_id] += parent_id not in shown
    plain = [dict(zip(PLAIN, row[2:], strict=True)) for row in rows]
    nodes = [
        GraphNode(job_id=row[0], argv=_argv_of(row[1]), hidden_parents=hidden[row[0]], **more)
        for row, more in zip(rows, plain, strict=True)
    ]
    edges = [GraphEdge(parent_id, job_id) for parent_id, job_id in links if parent_id in shown]
    return Graph(nodes, edges, truncated)


def _argv_of(text: str | None) -> list[str] | None:
    """None as well for the payload of a handler that has other things under this name."""
    try:
        return None if text is None else _argv.decode(text)
    except msgspec.DecodeError:
        return None
