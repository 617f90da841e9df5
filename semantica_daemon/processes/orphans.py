"""Ends every process of runs whose supervisor is gone. Processes are found by run id, by tag, and by the identity of
the main process; each with all its descendants."""

import os
import signal
import time
from typing import NamedTuple

from semantica_daemon.processes import cgroups
from semantica_daemon.processes.marks import SUPERVISOR, Tags, environment_of, run_id_in, tag_for
from semantica_daemon.processes.table import (
    Process,
    boot_id,
    descendants_of,
    find_process,
    own_processes,
    send_signal,
)

SCAN_AGAIN_AFTER_S = 0.01  # a killed process needs a moment to end
EMPTY_SCANS = 5  # in a row that end the search, if in each of them some process ended while it was being read


class Identity(NamedTuple):
    """A run and its main process as recorded; `pid`, `started_at` and `boot_id` are None if no process was recorded."""

    run_id: str
    pid: int | None
    started_at: int | None
    boot_id: str | None


def end_orphans(runs: list[Identity], within_s: float = 10, cgroup_root: str = "") -> set[str]:
    """Sends SIGKILL to all processes of these runs until none is left; returns the runs that outlast even that. The
    cgroups of the runs are ended first; the search then finds processes of a daemon that had none."""
    until = time.monotonic() + within_s
    stuck = _end_cgroups(runs, cgroup_root, until) if cgroup_root else set()
    return stuck | _end_marked(runs, until)


def _end_cgroups(runs: list[Identity], root: str, until: float) -> set[str]:
    return {run.run_id for run in runs if not cgroups.end(cgroups.path_of(root, run.run_id), until)}


def _end_marked(runs: list[Identity], until: float) -> set[str]:
    search = _Search(runs)
    left: dict[Process, str] = {}
    empty_scans = 0
    while left or empty_scans < EMPTY_SCANS:
        found, complete = search.scan()
        left = found | _still_alive(left)
        if time.monotonic() > until:
            return set(left.values())
        for process in left:
            send_signal(process, signal.SIGKILL)
        if left:
            time.sleep(SCAN_AGAIN_AFTER_S)
        empty_scans = 0 if left else EMPTY_SCANS if complete else empty_scans + 1
    return set()


class _Search:
    def __init__(self, runs: list[Identity]) -> None:
        self._runs = {run.run_id: run for run in runs}
        self._boot_id = boot_id()
        self._by_tag = {tag_for(run.run_id): run for run in runs if run.boot_id in (None, self._boot_id)}
        self._tags = Tags()

    def scan(self) -> tuple[dict[Process, str], bool]:
        """Every process found, with its run id, and whether the scan is complete. If some process ended while it was
        being read, it may have left a child that this scan did not see."""
        found, complete = self._marked()
        for run in self._runs.values():
            process = find_process(run.pid) if run.pid is not None and run.boot_id == self._boot_id else None
            if process is not None and process.started_at == run.started_at:
                found.setdefault(process.pid, run.run_id)
        members = {
            member: run_id
            for pid, run_id in found.items()
            for member in map(find_process, [pid, *descendants_of([pid])])
            if member is not None and member.pid != os.getpid()
        }
        return members, complete

    def _marked(self) -> tuple[dict[int, str], bool]:
        """The run ids by pid, and whether every process could be read to the end."""
        found, complete = {}, True
        for pid in own_processes() if self._runs else ():
            environment = environment_of(pid)
            run_id = run_id_in(environment)
            if run_id in self._runs:
                found[pid] = run_id
            elif run_id is None:
                if (run := self._tagged(pid, environment)) is not None:
                    found[pid] = run.run_id
                complete &= os.path.exists(f"/proc/{pid}")
        return found, complete

    def _tagged(self, pid: int, environment: list[bytes]) -> Identity | None:
        """The run of an orphan without a run id. A supervisor carries the tag of its latest run, and the children of a
        living supervisor are not orphans: both are left out."""
        run = self._by_tag.get(self._tags.tag_of(pid))
        process = find_process(pid) if run is not None else None
        if run is None or process is None or (run.started_at or 0) > process.started_at:
            return None
        if any(_is_supervisor(variables) for variables in (environment, environment_of(process.parent))):
            return None
        return run


def _is_supervisor(environment: list[bytes]) -> bool:
    return any(variable.startswith(SUPERVISOR) for variable in environment)


def _still_alive(before: dict[Process, str]) -> dict[Process, str]:
    """A process that is dying or has lost its parent may show no mark any more, so those found once are kept."""
    return {
        process: run_id
        for process, run_id in before.items()
        if (now := find_process(process.pid)) is not None and now.started_at == process.started_at
    }
