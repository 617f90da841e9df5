"""Whose an orphan is. What a job starts and forgets becomes the keeper's child; here it is given back to its run."""

from collections.abc import Collection

from semantica_daemon.keeper.processes import Process
from semantica_daemon.keeper.run import Run

NOBODY = ""
UNCLEAR = None


def run_of(process: Process, mark: str | None, runs: Collection[Run], kept: set[str]) -> str | None:
    """The id of its run; NOBODY when that is over and was to leave nothing; UNCLEAR when it may be of more than one.

    By its mark, its session or its group. Who hides all three is of a run that was there when it began.
    """
    for run in runs:
        if mark == run.order.run or (mark is None and run.pid in (process.session, process.group)):
            return run.order.run
    if mark is not None:
        return UNCLEAR if mark in kept else NOBODY
    there = [run.order.run for run in runs if run.started_at <= process.started_at]
    if kept or len(there) > 1:
        return UNCLEAR
    return there[0] if there else NOBODY
