"""Finds which run an orphaned process belongs to: orphans of a job become children of the supervisor."""

from collections.abc import Collection, Mapping

from semantica_daemon.supervisor.processes import Process
from semantica_daemon.supervisor.run import Run

NOBODY = ""
UNCLEAR = None


def run_of(
    process: Process, mark: str | None, number: int, runs: Collection[Run], kept: Mapping[str, int]
) -> str | None:
    """The id of its run; NOBODY when that is over and was to leave nothing; UNCLEAR when it was, or may have been.

    By its mark in the environment, or by the number in its limits, which it has even with an empty environment, or by
    its session or group. Who hides them all is of a run that was there when it began.
    """
    for run in runs:
        numbered = number != 0 and number == run.number
        if mark == run.order.run or (mark is None and (numbered or run.pid in (process.session, process.group))):
            return run.order.run
    if mark is not None:
        return UNCLEAR if mark in kept else NOBODY
    if number:
        return UNCLEAR if number in kept.values() else NOBODY
    there = [run.order.run for run in runs if run.started_at <= process.started_at]
    if kept or len(there) > 1:
        return UNCLEAR
    return there[0] if there else NOBODY
