"""Decides which run an orphaned process belongs to. Orphans of a job become children of the supervisor."""

from collections.abc import Collection, Mapping

from semantica_daemon.processes.table import Process
from semantica_daemon.supervisor.run import Run

NO_RUN = ""
UNKNOWN = None


def owner_of(
    process: Process, run_id: str | None, tag: int, runs: Collection[Run], kept: Mapping[str, int]
) -> str | None:
    """The id of its run. NO_RUN: the process belongs to a run that is over and must be ended. UNKNOWN: it belongs, or
    may belong, to a run that was allowed to leave processes behind (`kept`, with their tags).

    The run id in the environment decides; without one the tag, the session or the process group; and without any of
    these a process belongs to the only run that had started before it.
    """
    for run in runs:
        if run_id == run.run_id:
            return run_id
        if run_id is None and ((tag and tag == run.tag) or run.pid in (process.session, process.group)):
            return run.run_id
    if run_id is not None:
        return UNKNOWN if run_id in kept else NO_RUN
    if tag:
        return UNKNOWN if tag in kept.values() else NO_RUN
    earlier = [run.run_id for run in runs if run.started_at <= process.started_at]
    if kept or len(earlier) > 1:
        return UNKNOWN
    return earlier[0] if earlier else NO_RUN
