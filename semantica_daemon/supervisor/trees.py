"""The process trees of all runs: reaps children, finds the processes that a run has left, and sends them signals.

The supervisor is the subreaper of everything that jobs start. A process that forks twice or begins a session of its own
becomes a child of the supervisor, so that no process of a run is out of sight.
"""

import os
import signal
from collections.abc import Sequence
from contextlib import suppress

from semantica_daemon.processes import cgroups
from semantica_daemon.processes.marks import Tags, run_id_of
from semantica_daemon.processes.table import Process, children_of, descendants_of, find_process, send_signal
from semantica_daemon.supervisor.owner import NO_RUN, owner_of
from semantica_daemon.supervisor.run import Run

MAX_SCANS = 100
PAGE = 4096
LAST_PART_BELOW = 4000  # bytes: the kernel returns the list in pages, so a shorter part is the last one


class ProcessTrees:
    def __init__(self, tags: Tags) -> None:
        self.runs: dict[str, Run] = {}
        self.ended: dict[str, Run] = {}  # those of `runs` whose main process has ended
        self._tags = tags
        self._mains: dict[int, Run] = {}
        self._kept_tags: dict[str, int] = {}  # of ended runs that may leave processes behind
        self._children = _open_children_file()

    def add(self, run: Run) -> None:
        self.runs[run.run_id] = self._mains[run.pid] = run

    def remove(self, run: Run, keeps_processes: bool) -> None:
        del self.runs[run.run_id], self.ended[run.run_id]
        if keeps_processes:
            self._kept_tags[run.run_id] = run.tag

    def reap(self) -> None:
        """Reaps children that have ended; no other code in this process calls waitpid. Stops after the last main
        process: `_orphans` reaps the rest."""
        pid = -1
        while pid:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid in self._mains:
                run = self._mains.pop(pid)
                run.status = status
                self.ended[run.run_id] = run
                if not self._mains:
                    return

    def leftovers_of(self, run: Run) -> list[Process]:
        """Returns the processes of the run that have lost their parents, with all their descendants. Sends SIGKILL to
        processes of runs that are over."""
        orphans = self._orphans()
        if run.cgroup:
            return self._members_of_cgroup(run)
        if not orphans:
            self._kept_tags.clear()
            return []
        mine, seen = [], set[str | int | None]()
        for process in orphans:
            run_id = run_id_of(process.pid)
            tag = self._tags.tag_of(process.pid) if run_id is None else 0
            seen |= {run_id, tag}
            owner = owner_of(process, run_id, tag, self.runs.values(), self._kept_tags)
            # A dying process has lost its environment; one that was sent the signal still belongs to the run.
            if owner == run.run_id or (process.pid, process.started_at) in run.signalled:
                mine.append(process)
            elif owner == NO_RUN:
                send_signal(process, signal.SIGKILL)
        self._kept_tags = {run_id: tag for run_id, tag in self._kept_tags.items() if run_id in seen or tag in seen}
        below = map(find_process, descendants_of([process.pid for process in mine]))
        return mine + [process for process in below if process is not None]

    def _members_of_cgroup(self, run: Run) -> list[Process]:
        """Without the process group of the main process while that runs: the group gets signals as a whole."""
        found = [process for pid in cgroups.members(run.cgroup) if (process := find_process(pid)) is not None]
        return [process for process in found if run.status is not None or process.group != run.pid]

    def signal(self, run: Run, number: int) -> None:
        """Sends the signal to every process of the run. After SIGKILL no other signal is sent."""
        if run.sent_signal not in (number, signal.SIGKILL):
            run.sent_signal = number
            run.signalled.clear()
        members = self.leftovers_of(run)
        if run.status is None:
            for each in (number, signal.SIGCONT):
                with suppress(OSError):
                    os.killpg(run.pid, each)
            others = map(find_process, descendants_of([run.pid]))
            members += [process for process in others if process is not None and process.group != run.pid]
        self.signal_again(run, members)

    def signal_again(self, run: Run, members: list[Process]) -> None:
        """The latest signal to those processes that have not got it yet. SIGCONT lets a stopped process act on it."""
        if run.cgroup and run.sent_signal == signal.SIGKILL:
            cgroups.kill(run.cgroup)
        for process in members:
            if (process.pid, process.started_at) not in run.signalled:
                run.signalled.add((process.pid, process.started_at))
                send_signal(process, run.sent_signal)
                send_signal(process, signal.SIGCONT)

    def _orphans(self) -> list[Process]:
        """The children of the supervisor that are no main process. If one ends during the scan, it may have left
        children of its own: then the scan is repeated."""
        for _ in range(MAX_SCANS):
            children = self._list_children()
            if len(children) == len(self._mains):
                return []
            orphans = [pid for pid in map(int, children) if pid not in self._mains]
            found = [process for pid in orphans if (process := find_process(pid)) is not None]
            if len(found) == len(orphans):
                break
            self.reap()
        return found

    def _list_children(self) -> Sequence[int | bytes]:
        """Read at the end of every run, so the file stays open."""
        if self._children < 0:
            return children_of(os.getpid())
        found = part = os.pread(self._children, PAGE, 0)
        while len(part) >= LAST_PART_BELOW:
            part = os.pread(self._children, PAGE, len(found))
            found += part
        return found.split()


def _open_children_file() -> int:
    """The list of children of this process, which has one thread; -1 if the kernel has no such file."""
    try:
        return os.open(f"/proc/self/task/{os.getpid()}/children", os.O_RDONLY)
    except OSError:
        return -1
