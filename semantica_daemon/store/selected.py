"""Finds the jobs of a selection: all of them in a reader, those of a portion in the transaction that changes them."""

from collections.abc import Callable, Iterator
from typing import Any

from aiosqlite import Connection
from msgspec import Struct

from semantica_daemon.model.selection import UNCHANGED, Among, Hit, Lists, Rule, Selection
from semantica_daemon.model.state import TERMINAL
from semantica_daemon.store import find
from semantica_daemon.store.counts import INDEX_OF_LIVE
from semantica_daemon.store.tx import Tx

MOST = 1000  # jobs that are changed in one transaction

_SELECT = """
SELECT number, id, state, held_at IS NOT NULL AND finished_at IS NULL, archived_at IS NOT NULL
FROM jobs"""
BY_NUMBER = f"{_SELECT} WHERE number = ?"
BY_PREFIX = f"{_SELECT} WHERE id >= :id AND id < :id || 'g' ORDER BY id LIMIT 11"


def _jobs(index: str, where: str) -> str:
    return f"{_SELECT} INDEXED BY {index}\nWHERE {where}\n"


LIVE_BY = {
    "user_tag": _jobs("idx_jobs_tag_live", "user_tag = :value AND finished_at IS NULL"),
    "chain_group_id": _jobs("idx_jobs_group_live", "chain_group_id = :value AND finished_at IS NULL"),
    "subject_key": _jobs("idx_jobs_subject_live", "subject_key = :value AND subject_key <> '' AND finished_at IS NULL"),
    "schedule_id": _jobs("idx_jobs_schedule_live", "schedule_id = :value AND finished_at IS NULL"),
    "queue": "UNION ALL".join(
        _jobs(index, f"state = '{state}' AND queue = :value") for state, index in INDEX_OF_LIVE.items()
    ),
}
# There is no index of the ended jobs of a schedule: a reader walks those of all schedules.
_ENDED = "finished_at IS NOT NULL AND archived_at IS NULL"
ENDED_BY = {
    "user_tag": _jobs("idx_jobs_user_tag", f"user_tag = :value AND {_ENDED}"),
    "chain_group_id": _jobs("idx_jobs_group", f"chain_group_id = :value AND {_ENDED}"),
    "subject_key": _jobs("idx_jobs_subject_generation", f"subject_key = :value AND subject_key <> '' AND {_ENDED}"),
    "schedule_id": _jobs("idx_jobs_gc", f"schedule_id = :value AND {_ENDED}"),
    "queue": "UNION ALL".join(
        _jobs("idx_jobs_state_queue", f"state = '{state}' AND queue = :value AND {_ENDED}") for state in TERMINAL
    ),
}
STATEMENTS = {"live": LIVE_BY, "ended": ENDED_BY}


class Portion(Struct, frozen=True):
    """At most MOST jobs of a selection: by ids (whole or prefixes), or by the numbers of those that were found."""

    job_ids: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    reason: str = ""


async def hits(db: Connection, chosen: Selection, among: Among) -> list[Hit]:
    """All jobs of the selection, in the order of their ids or of their arrival."""
    if chosen.field:
        rows = await db.execute_fetchall(STATEMENTS[among][chosen.field], {"value": chosen.value})
        return sorted((Hit(*row) for row in rows), key=lambda hit: hit.number)
    found: list[Any] = []
    for prefix in chosen.job_ids:
        rows = list(await db.execute_fetchall(BY_PREFIX, {"id": prefix.lower()}))
        found.append(find.the_one(rows, prefix))
    return [Hit(*row) for row in dict.fromkeys(map(tuple, found))]


def change_each(tx: Tx, portion: Portion, rule: Rule, change: Callable[[Hit], object]) -> Lists:
    """Calls `change` for each job of the portion that the rule does not leave unchanged."""
    found: Lists = {}
    for hit in _hits(tx, portion):
        name = rule(hit)
        if name != UNCHANGED:
            change(hit)
        found.setdefault(name, []).append(hit.job_id)
    return found


def _hits(tx: Tx, portion: Portion) -> Iterator[Hit]:
    """Reads each job when it is its turn. All ids are looked up before the first change: an unknown one changes
    nothing."""
    numbers = portion.numbers or tuple(dict.fromkeys(find.job(tx, job_id)[0] for job_id in portion.job_ids))
    for number in numbers:
        row = tx.execute(BY_NUMBER, (number,)).fetchone()
        if row is not None:  # pruned since it was found
            yield Hit(*row)
