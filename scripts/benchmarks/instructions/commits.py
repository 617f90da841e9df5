"""The pages that a commit of one job adds to the WAL, and the SQL statements it executes."""

import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from benchmarks.instructions.store import Store, leave
from benchmarks.instructions.store_program import STEPS

HEADER, FRAME_HEADER = 32, 24
JOBS_BEFORE = 500  # so that the tables have grown beyond one page
REPEATS = 51


class Commit(Struct):
    """Medians over some commits: a page that is split now and then adds a frame or two."""

    frames: int
    statements: int


def measure(store: Store) -> dict[str, Commit]:
    for _ in range(JOBS_BEFORE):
        store.enqueue(1)
        store.finish(store.claim())
    taken: dict[str, list[Commit]] = {step: [] for step in STEPS}
    for _ in range(REPEATS):
        claims: list[Any] = []
        taken["enqueue"].append(observe(store, lambda: store.enqueue(1)))
        taken["claim"].append(observe(store, lambda: claims.extend(store.claim())))  # noqa: B023
        taken["finish"].append(observe(store, lambda: store.finish(claims)))  # noqa: B023
    return {step: middle(commits) for step, commits in taken.items()}


def observe(store: Store, transact: Callable[[], None]) -> Commit:
    """A checkpoint empties the WAL first, so that its size afterwards is that of this commit."""
    statements: list[str] = []
    store.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    (page_size,) = store.connection.execute("PRAGMA page_size").fetchone()
    store.connection.set_trace_callback(statements.append)
    transact()
    store.connection.set_trace_callback(None)
    return Commit((store.wal.stat().st_size - HEADER) // (page_size + FRAME_HEADER), len(statements))


def middle(commits: list[Commit]) -> Commit:
    return Commit(
        statistics.median_low(commit.frames for commit in commits),
        statistics.median_low(commit.statements for commit in commits),
    )


def main(folder: Path) -> None:
    found = measure(Store(folder, slots=1))
    sys.stdout.buffer.write(msgspec.json.encode(found) + b"\n")
    sys.stdout.flush()
    leave()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
