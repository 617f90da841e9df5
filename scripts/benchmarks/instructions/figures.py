"""The figures in instructions, and what is run for each. A figure is the difference between 2N and N jobs, divided by
N: the start of the process, imports and the first jobs are in both and fall out."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.instructions import valgrind
from benchmarks.instructions.store import discard_wal
from benchmarks.instructions.valgrind import python

BATCH = 100
STORE_JOBS = 500

Found = dict[str, float]


@contextmanager
def prepared() -> Iterator[Path]:
    """A folder with a migrated database."""
    with tempfile.TemporaryDirectory(prefix="si-") as folder:
        valgrind.run(python("prepare", folder))
        yield Path(folder)


def store() -> Found:
    """Instructions a job in the store alone, 100 jobs a transaction."""
    with prepared() as folder:
        enqueue, claimed, finished = (a_job(store_program(folder, step)) for step in ("enqueue", "claim", "finish"))
    return {"enqueue": enqueue, "claim": claimed - enqueue, "finish": finished - claimed}


def commits() -> Found:
    """WAL frames and SQL statements of a commit of one job."""
    with prepared() as folder:
        found = msgspec.json.decode(valgrind.run(python("commits", str(folder))).stdout)
    return {f"{step} {unit}": value for step, commit in found.items() for unit, value in commit.items()}


def store_program(folder: Path, step: str) -> Callable[[int], int]:
    """Instructions of the program for so many jobs; its first run, without valgrind, makes the .pyc files."""

    def argv(jobs: int) -> list[str]:
        discard_wal(folder)
        return python("store_program", step, str(jobs), str(BATCH), str(folder))

    valgrind.run(argv(BATCH))
    return lambda jobs: valgrind.count(argv(jobs))


def a_job(count: Callable[[int], int]) -> float:
    once, twice = count(STORE_JOBS), count(2 * STORE_JOBS)
    return (twice - once) / STORE_JOBS
