"""The program that valgrind runs for the store's figures, in a prepared FOLDER: ENQUEUED jobs that are only enqueued,
FINISHED jobs that are enqueued, claimed and finished, and CLAIMED jobs that are left running; 100 a transaction."""

import sys
from pathlib import Path
from typing import Any

from benchmarks.instructions.store import Store, leave, settle_garbage
from semantica_daemon.store import sqlite_library

BATCH = 100


def begin(store: Store) -> list[Any]:
    store.enqueue(BATCH)
    claims = store.claim()
    if len(claims) != BATCH:
        raise RuntimeError(f"{len(claims)} jobs were claimed instead of {BATCH}")
    return claims


def main(enqueued: int, finished: int, claimed: int, folder: Path) -> None:
    """There are slots for all jobs, so each claim starts exactly those that were enqueued just before it."""
    sqlite_library.tune()  # as the daemon does at its start
    store = Store(folder, slots=BATCH + claimed)
    store.finish(begin(store))
    settle_garbage()
    for _ in range(enqueued // BATCH):
        store.enqueue(BATCH, "held")
    for _ in range(finished // BATCH):
        store.finish(begin(store))
    for _ in range(claimed // BATCH):
        begin(store)
    leave()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), folder=Path(sys.argv[4]))
