"""The figures of the store alone: instructions a job, 100 jobs a transaction; frames and statements of a commit."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from benchmarks.history import fill
from benchmarks.instructions import split, valgrind
from benchmarks.instructions.store import NOW, discard_wal
from benchmarks.instructions.valgrind import python

N = 300
# How many jobs the program enqueues, finishes and claims: a figure is the difference between two of these, divided by
# N. The start of the process and the first jobs are in all of them and fall out.
ONCE = (N, N, 0)
MORE_ENQUEUED = (2 * N, N, 0)
MORE_FINISHED = (N, 2 * N, 0)
MORE_CLAIMED = (N, N, N)
STEPS = {"enqueue": MORE_ENQUEUED, "claim": MORE_CLAIMED, "finish": MORE_FINISHED}


def store() -> dict[str, float]:
    with prepared() as folder:
        return in_folder(folder)


def aged(finished: int) -> dict[str, float]:
    """The same on a database with that many finished jobs."""
    with tempfile.TemporaryDirectory(prefix="si-") as folder:
        fill(Path(folder), finished, lambda line: None, NOW)
        return in_folder(Path(folder))


def in_folder(folder: Path) -> dict[str, float]:
    once, enqueued, claimed, finished, _ = valgrind.counts(
        program(folder, ONCE, MORE_ENQUEUED, MORE_CLAIMED, MORE_FINISHED)
    )
    return {
        "store-enqueue": (enqueued - once) / N,
        "store-claim": (claimed - enqueued) / N,
        "store-finish": (finished - claimed) / N,
        "store-run": (finished - enqueued) / N,
    }


def guard() -> dict[str, float]:
    with prepared() as folder:
        once, enqueued, finished, _ = valgrind.counts(program(folder, ONCE, MORE_ENQUEUED, MORE_FINISHED))
    return {"store-enqueue": (enqueued - once) / N, "store-run": (finished - enqueued) / N}


def floor() -> dict[str, float]:
    """The reference floor, to compare the store with: `benchmarks/floor` says what it keeps."""
    once, enqueued, finished = (_floor(*jobs) for jobs in ((N, N), (2 * N, N), (N, 2 * N)))
    return {"floor-enqueue": (enqueued - once) / N, "floor-run": (finished - enqueued) / N}


def _floor(enqueued: int, finished: int) -> int:
    with tempfile.TemporaryDirectory(prefix="si-") as folder:
        return valgrind.count(python("floor_program", str(enqueued), str(finished), str(2 * N), folder))


def commits() -> dict[str, float]:
    with prepared() as folder:
        found = msgspec.json.decode(valgrind.run(python("commits", str(folder))).stdout)
    return {f"{unit}-{step}": value for unit in ("frames", "statements") for step, value in found[unit].items()}


def explain(step: str) -> str:
    """Where the instructions of a job go up to that step, by library and by C function."""
    with prepared() as folder:
        once, more = (split.count(program(folder, jobs)) for jobs in (ONCE, STEPS[step]))
    return split.text({where: (value - once[where]) / N for where, value in more.items()})


def program(folder: Path, *runs: tuple[int, int, int]) -> list[str]:
    discard_wal(folder)
    return python("store_program", str(folder), *(",".join(map(str, jobs)) for jobs in runs))


@contextmanager
def prepared() -> Iterator[Path]:
    """A folder with a migrated database."""
    with tempfile.TemporaryDirectory(prefix="si-") as folder:
        valgrind.run(python("prepare", folder))
        yield Path(folder)
