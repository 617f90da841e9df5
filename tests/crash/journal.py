"""What the commands of jobs (`tests/crash/command`) say of themselves, against what the daemon says of them."""

import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.crash import command
from tests.crash.invariants import reading

RUNS = "SELECT run_id, job_id FROM runs"
ONCE = "SELECT id FROM jobs WHERE max_attempts <= 1 AND json_extract(spec, '$.on_interrupt') IS NULL"
DONE = "SELECT run_id FROM jobs WHERE state = 'DONE' AND execution_mode = 'SUBPROCESS'"


class Line(NamedTuple):
    """`ns` is for whoever looks for the cause of a failure; the order is that of the lines."""

    run_id: str
    job_id: str
    attempt: str
    word: str
    pid: str
    ns: str


class Journal:
    def __init__(self, folder: Path) -> None:
        """Not inside of a home: nothing that is killed or removed may lose it."""
        self.folder = folder
        self.path = folder / "journal"
        self.path.touch()

    def command(self, kind: str, ms: int, lane: str) -> dict[str, Any]:
        """The payload of a job. No two runs with one `lane` may ever go on at a time; a job has one, or shares it."""
        program = [sys.executable, "-I", "-S", command.__file__]
        return {"argv": [*program, str(self.path), str(self.folder / f"{lane}.lock"), kind, str(ms)], "cwd": "/"}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Commands that start in this block do not end by themselves, however slow the machine is."""
        held = self.path.with_name("journal.held")
        held.touch()
        yield
        held.unlink()

    def lines(self) -> list[Line]:
        """Up to the last whole one."""
        *whole, _ = self.path.read_text().split("\n")
        return [Line(*line.split(" ")) for line in whole]

    def until(self, word: str, processes: int = 1) -> list[Line]:
        """The lines, once that many processes have written that word."""
        give_up = time.monotonic() + 40
        while len({line.pid for line in self.lines() if line.word == word}) < processes:
            assert time.monotonic() < give_up, self.lines()
            time.sleep(0.005)
        return self.lines()

    def begun(self) -> list[str]:
        """Runs, in the order in which they began."""
        return [line.run_id for line in self.lines() if line.word == "begin"]

    def check(self, home: Path, ended: bool) -> None:
        """Read before the database, which then knows of all that is in it; with `ended`, nothing runs any more."""
        lines = self.lines()
        with reading(home) as connection:
            runs = dict(connection.execute(RUNS).fetchall())
            once = {row[0] for row in connection.execute(ONCE)}
            done = {row[0] for row in connection.execute(DONE)}
        begun = Counter(line.run_id for line in lines if line.word == "begin")
        assert {line.run_id: line.job_id for line in lines}.items() <= runs.items(), "a run the daemon does not know"
        assert set(begun.values()) <= {1}, "a run began twice"
        times = Counter(runs[run_id] for run_id in begun)
        assert not [job_id for job_id in once if times[job_id] > 1], "a job for one attempt ran more than once"
        check_order(lines)
        if ended:
            finished = {line.run_id for line in lines if line.word == "end"}
            assert done <= finished, "DONE, though it did not come to its end"


def check_order(lines: list[Line]) -> None:
    """What belongs to a run is over when the next of its job begins."""
    newest: dict[str, Line] = {}
    for line in lines:
        assert line.word != "beside", f"an older run held its lock: {line}"
        if line.word == "begin":
            newest[line.job_id] = line
        else:
            assert line.run_id == newest[line.job_id].run_id, f"{line} after {newest[line.job_id]}"
