"""The program that valgrind runs for the store's figures, in a prepared FOLDER: ENQUEUED jobs that are only enqueued,
FINISHED jobs that are enqueued, claimed and finished, and CLAIMED jobs that are left running; 100 a transaction.
Several ENQUEUED,FINISHED,CLAIMED run one after the other, each in a child process: imports are done once, before."""

import os
import sys
from pathlib import Path
from typing import Any, NoReturn

from benchmarks.instructions.store import Store, discard_wal, leave, settle_garbage
from semantica_daemon.store import sqlite_library

BATCH = 100


def begin(store: Store) -> list[Any]:
    store.enqueue(BATCH)
    claims = store.claim()
    if len(claims) != BATCH:
        raise RuntimeError(f"{len(claims)} jobs were claimed instead of {BATCH}")
    return claims


def main(folder: Path, *runs: str) -> None:
    """All children are forked before the first begins: each has executed the same until then. A single run is no child,
    since `split.count` reads the output of one process."""
    if len(runs) == 1:
        work(folder, *map(int, runs[0].split(",")))
    pipes = [os.pipe() for _ in runs]
    children = []
    for run, (may_begin, _) in zip(runs, pipes, strict=True):
        if (pid := os.fork()) == 0:
            os.read(may_begin, 1)
            work(folder, *map(int, run.split(",")))
        children.append(pid)
    for pid, (_, begin) in zip(children, pipes, strict=True):
        os.write(begin, b".")
        if os.waitpid(pid, 0)[1]:
            raise RuntimeError("a child has failed")
        discard_wal(folder)


def work(folder: Path, enqueued: int, finished: int, claimed: int) -> NoReturn:
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
    main(Path(sys.argv[1]), *sys.argv[2:])
