"""Neighbours in the order of a queue. The index of the claim has the jobs of a queue by source (class, key, group), so
the neighbours in each source are looked up and merged; with very many sources the whole queue is searched."""

from typing import Any

from aiosqlite import Connection
from msgspec import Struct

from semantica_daemon.store.ready import Place
from semantica_daemon.store.tx import Tx

MOST_SOURCES = 100

_SELECT = """
SELECT number, id, queue, priority, position, created_at
FROM jobs INDEXED BY idx_jobs_pop
WHERE state = 'QUEUED' AND queue = :queue"""
_OF_SOURCE = (
    " AND claim_class = :claim_class AND concurrency_key IS :concurrency_key AND chain_group_id IS :chain_group_id"
)
_PLACE = "\n  AND priority = :priority AND (position, created_at, id)"
_ROWS = {
    "first": "\nORDER BY priority DESC, position, created_at, id",
    "last": "\nORDER BY priority, position DESC, created_at DESC, id DESC",
    "next": f"{_PLACE} > (:position, :created_at, :id)\nORDER BY position, created_at, id",
    "previous": f"{_PLACE} < (:position, :created_at, :id)\nORDER BY position DESC, created_at DESC, id DESC",
}
IN_SOURCE = {name: f"{_SELECT}{_OF_SOURCE}{rows}\nLIMIT :most\n" for name, rows in _ROWS.items()}
IN_QUEUE = {name: f"{_SELECT}{rows}\nLIMIT :most\n" for name, rows in _ROWS.items()}

_NEXT_SOURCE = """
SELECT claim_class, concurrency_key, chain_group_id
FROM jobs INDEXED BY idx_jobs_pop
WHERE state = 'QUEUED' AND queue = :queue AND {}
LIMIT 1
"""
# Keys and groups are never empty, so that each of them is greater than ''.
NEXT_SOURCE = {
    "group": _NEXT_SOURCE.format(
        "claim_class = :claim_class AND concurrency_key IS :concurrency_key\n"
        "  AND chain_group_id > coalesce(:chain_group_id, '')\nORDER BY chain_group_id"
    ),
    "key": _NEXT_SOURCE.format(
        "claim_class = :claim_class AND concurrency_key > coalesce(:concurrency_key, '')\n"
        "ORDER BY concurrency_key, chain_group_id"
    ),
    "class": _NEXT_SOURCE.format("claim_class > :claim_class\nORDER BY claim_class, concurrency_key, chain_group_id"),
}
BEHIND = IN_QUEUE["next"]


class QueuedJob(Struct, frozen=True, gc=False):
    number: int
    job_id: str
    queue: str
    priority: int
    position: int
    created_at: int

    @property
    def place(self) -> Place:
        return -self.priority, self.position, self.created_at, self.job_id


def first(tx: Tx, moved: QueuedJob) -> QueuedJob | None:
    """The first job of the queue besides the one that is moved."""
    return next(iter(_jobs(tx, "first", moved.queue, {}, 1, moved)), None)


def last(tx: Tx, moved: QueuedJob) -> QueuedJob | None:
    return next(iter(_jobs(tx, "last", moved.queue, {}, 1, moved)), None)


def previous(tx: Tx, job: QueuedJob, moved: QueuedJob) -> QueuedJob | None:
    """The job before this one in its queue and priority, besides the one that is moved."""
    return next(iter(_jobs(tx, "previous", job.queue, _bound(job), 1, moved)), None)


def following(tx: Tx, job: QueuedJob, most: int, moved: QueuedJob) -> list[QueuedJob]:
    """The jobs behind this one in its queue and priority, in order."""
    return _jobs(tx, "next", job.queue, _bound(job), most, moved)


async def behind(db: Connection, job: QueuedJob) -> list[tuple[int, int]]:
    """(number, position) of all jobs behind this one in its queue and priority, in order."""
    bound = {"queue": job.queue, "most": -1, **_bound(job)}
    return [(row[0], row[4]) for row in await db.execute_fetchall(BEHIND, bound)]


def _bound(job: QueuedJob) -> dict[str, Any]:
    return {"priority": job.priority, "position": job.position, "created_at": job.created_at, "id": job.job_id}


def _jobs(tx: Tx, which: str, queue: str, bound: dict[str, Any], most: int, moved: QueuedJob) -> list[QueuedJob]:
    values = {"queue": queue, "most": most + 1, **bound}
    sources = _sources(tx, queue)
    if len(sources) < MOST_SOURCES:
        rows = [row for source in sources for row in tx.execute(IN_SOURCE[which], values | source).fetchall()]
    else:
        rows = tx.execute(IN_QUEUE[which], values).fetchall()
    jobs = [QueuedJob(*row) for row in rows if row[0] != moved.number]
    return sorted(jobs, key=lambda job: job.place, reverse=which in ("last", "previous"))[:most]


def _sources(tx: Tx, queue: str) -> list[dict[str, Any]]:
    """The sources of the queue, at most MOST_SOURCES; each takes up to three searches of the index."""
    found: list[dict[str, Any]] = []
    at: dict[str, Any] = {"queue": queue, "claim_class": -1, "concurrency_key": None, "chain_group_id": None}
    while len(found) < MOST_SOURCES:
        rows = (tx.execute(sql, at).fetchone() for sql in NEXT_SOURCE.values())
        row = next((row for row in rows if row is not None), None)
        if row is None:
            break
        at = dict(zip(at, (queue, *row), strict=True))
        found.append(at)
    return found
