"""The program that valgrind runs for the reference floor: ENQUEUED jobs that are only inserted, FINISHED jobs with a
whole life, 100 a transaction. Rows are made for MOST of each in every run, and so are in no difference."""

import os
import sys
from pathlib import Path

from benchmarks.floor import Floor, parts
from benchmarks.instructions.store import settle_garbage

BATCH = 100


def main(enqueued: int, finished: int, most: int, folder: Path) -> None:
    floor = Floor(folder / "floor.db")
    held, default = floor.lives(most, "held"), floor.lives(most, "default")
    settle_garbage()
    for part in parts(held[:enqueued], BATCH):
        floor.insert(part, "held")
    for part in parts(default[:finished], BATCH):
        floor.insert(part, "default")
        floor.claim(part)
        floor.finish(part)
    os._exit(0)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), folder=Path(sys.argv[4]))
