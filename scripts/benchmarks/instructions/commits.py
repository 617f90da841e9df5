"""The pages that a commit of one job adds to the WAL, and the SQL statements it executes."""

import statistics
import sys
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from benchmarks.instructions.store import Store, leave

STEPS = ("enqueue", "claim", "finish")
HEADER, FRAME_HEADER = 32, 24
JOBS_BEFORE = 500  # so that the tables have grown beyond one page
REPEATS = 51


class Commit(NamedTuple):
    frames: int
    statements: int


def measure(store: Store) -> dict[str, dict[str, int]]:
    for _ in range(JOBS_BEFORE):
        store.enqueue(1)
        store.finish(store.claim())
    lives = [life(store) for _ in range(REPEATS)]
    return {unit: {step: middle(lives, step, unit) for step in STEPS} for unit in Commit._fields}


def life(store: Store) -> dict[str, Commit]:
    claims: list[Any] = []
    return {
        "enqueue": observe(store, lambda: store.enqueue(1)),
        "claim": observe(store, lambda: claims.extend(store.claim())),
        "finish": observe(store, lambda: store.finish(claims)),
    }


def observe(store: Store, transact: Callable[[], None]) -> Commit:
    """A checkpoint empties the WAL first, so that its size afterwards is that of this commit."""
    statements: list[str] = []
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (page_size,) = store.connection.execute("PRAGMA page_size").fetchone()
    store.connection.set_trace_callback(statements.append)
    transact()
    store.connection.set_trace_callback(None)
    frames = (store.wal.stat().st_size - HEADER) // (page_size + FRAME_HEADER)
    return Commit(frames, len(list(groupby(statements))))  # SQLite reports a statement once more for each trigger


def middle(lives: list[dict[str, Commit]], step: str, unit: str) -> int:
    """The median: a page that is split now and then adds a frame or two."""
    return statistics.median_low(getattr(life[step], unit) for life in lives)


def main(folder: Path) -> None:
    found = measure(Store(folder, slots=1))
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    sys.stdout.flush()
    leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
