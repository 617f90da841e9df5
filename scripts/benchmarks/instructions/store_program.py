"""The program that valgrind runs for the store's figures: COUNT jobs, BATCH a transaction, from enqueue up to STEP
(enqueue, claim or finish), in a prepared FOLDER."""

import sys
from pathlib import Path

from benchmarks.instructions.store import Store, leave, settle_garbage

STEPS = ("enqueue", "claim", "finish")


def run(store: Store, step: str, count: int, batch: int) -> None:
    for _ in range(count // batch):
        store.enqueue(batch)
        if step == "enqueue":
            continue
        claims = store.claim()
        if len(claims) != batch:
            raise RuntimeError(f"{len(claims)} jobs were claimed instead of {batch}")
        if step == "finish":
            store.finish(claims)


def main(step: str, count: int, batch: int, folder: Path) -> None:
    """There are as many slots as jobs, so each claim starts exactly the jobs that were enqueued just before it."""
    store = Store(folder, slots=2 * count)
    run(store, STEPS[-1], batch, batch)
    settle_garbage()
    run(store, step, count, batch)
    leave()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), Path(sys.argv[4]))
