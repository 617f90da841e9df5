"""The supervisor's loop: requests from the daemon, output from pipes, ends of processes. One thread; nothing blocks.

When the daemon is gone, the supervisor ends all runs and then itself. `main` prepares the process.
"""

import errno
import os
import select
import signal
import time
from collections import deque
from contextlib import suppress

from semantica_daemon.processes import cgroups
from semantica_daemon.processes.marks import Tags, tag_for
from semantica_daemon.processes.table import Process
from semantica_daemon.supervisor import leftovers
from semantica_daemon.supervisor.channel import Channel
from semantica_daemon.supervisor.file_limit import FileLimit
from semantica_daemon.supervisor.inputs import Inputs
from semantica_daemon.supervisor.messages import (
    InputRequest,
    LeftoversFound,
    LogGrew,
    ReadRequest,
    SpawnRequest,
    WatchLogRequest,
)
from semantica_daemon.supervisor.pauses import Pauses
from semantica_daemon.supervisor.run import Run
from semantica_daemon.supervisor.spawn import SpawnError
from semantica_daemon.supervisor.trees import ProcessTrees
from semantica_daemon.supervisor.workspace import make_workspace, remove_if_empty

FINAL_WAIT_S = 10
IDLE_MS = 5000  # without a run, before empty workspaces are removed
REMOVE_AT_EXIT_S = 1
MAX_UNUSED = 10_000
SIGNAL_BYTES = 128  # one record of signalfd


class Supervisor:
    def __init__(self, channel: Channel, child_signals: int, limit: FileLimit) -> None:
        """`child_signals` becomes readable when a child has ended."""
        self._channel = channel
        self._child_signals = child_signals
        self._file_limit = limit
        self._tags = Tags()
        self._trees = ProcessTrees(self._tags)
        self._runs = self._trees.runs
        self._pipes: dict[int, Run | None] = {}  # None: of processes that outlive their run
        self._unused: deque[tuple[str, str]] = deque(maxlen=MAX_UNUSED)
        """Workspaces that may be empty, with their output folders, to be removed while no command runs: a second run of
        a job uses the same ones. If there are too many, the oldest are forgotten and stay."""
        self._poll = select.poll()
        self._pauses = Pauses(self._poll)
        self._inputs = Inputs(self._poll, channel)
        self._timeout_ms: int | None = None
        self._daemon_is_there = True

    def work(self) -> None:
        """Runs until the daemon is gone, or the supervisor itself fails; then ends all runs."""
        for handle in (self._channel.handle, self._child_signals):
            self._poll.register(handle, select.POLLIN)
        try:
            while self._daemon_is_there:
                self._pass(IDLE_MS if self._unused and not self._runs else self._timeout_ms)
        finally:
            self._end_all()

    def _end_all(self) -> None:
        for run in list(self._runs.values()):
            self._trees.signal(run, signal.SIGKILL)
        until = time.monotonic() + FINAL_WAIT_S
        while self._runs and time.monotonic() < until:
            self._pass(100)
        until = time.monotonic() + REMOVE_AT_EXIT_S
        while self._unused and time.monotonic() < until:
            remove_if_empty(*self._unused.popleft())

    def _pass(self, timeout_ms: int | None) -> None:
        ready = self._poll.poll(timeout_ms)
        for handle, _ in ready:
            if handle in self._pipes:
                self._read_output(handle)
            elif handle == self._channel.handle:
                self._handle_requests()
            elif handle == self._child_signals:
                self._handle_exits()
            elif handle in self._inputs:
                self._inputs.write(handle)
        self._timeout_ms = self._channel.flush()
        if self._pauses.until:
            self._timeout_ms = self._pauses.end_late(self._timeout_ms)
        while not ready and not self._runs and self._unused:  # one at a time: a removal may take milliseconds
            remove_if_empty(*self._unused.popleft())
            ready = self._poll.poll(0)

    def _handle_requests(self) -> None:
        requests = self._channel.receive()
        if requests is None:  # the handle is not closed: another file would get its number
            self._daemon_is_there = False
            self._poll.unregister(self._channel.handle)
            return
        for request in requests:
            if isinstance(request, SpawnRequest):
                self._spawn(request)
            elif isinstance(request, WatchLogRequest):
                self._watch_log(request)
            elif isinstance(request, InputRequest):
                self._inputs.request(self._runs.get(request.run_id), request)
            elif (run := self._runs.get(request.run_id)) is None:
                continue
            elif isinstance(request, ReadRequest):
                self._pauses.note_reader(run, request)
            else:
                self._trees.signal(run, request.number)

    def _spawn(self, request: SpawnRequest) -> None:
        tag = tag_for(request.run_id)
        try:
            make_workspace(request)
            self._tags.tag_next_spawn(tag)
            run = Run(request, tag, self._file_limit)
        except SpawnError as error:
            remove_if_empty(request.workspace, request.output)
            self._channel.send(error.report)
            return
        self._trees.add(run)
        for pipe in run.pipes:
            self._pipes[pipe] = run
            self._poll.register(pipe, select.POLLIN)
        if request.has_input:
            self._channel.send(run.spawned())  # the daemon sends no input before it
        else:
            self._channel.delay_spawned(run)

    def _watch_log(self, request: WatchLogRequest) -> None:
        run = self._runs.get(request.run_id)
        if run is None or run.log.size > request.size:
            self._channel.send(LogGrew(request.run_id, request.job_id))
        else:
            size = request.size if run.watch is None else min(run.watch[0], request.size)
            run.watch = (size, request.job_id)

    def _read_output(self, pipe: int) -> None:
        run = self._pipes[pipe]
        if run is None:
            self._drop_output(pipe)
        elif run.pump(pipe):
            self._report_growth(run)
            if run.log.must_wait:
                self._pauses.begin(run)

    def _drop_output(self, pipe: int) -> None:
        with suppress(BlockingIOError):
            try:
                data = os.read(pipe, 65_536)
            except OSError as error:
                if error.errno != errno.EIO:  # the end of a terminal
                    raise
                data = b""
            if not data:
                del self._pipes[pipe]
                self._poll.unregister(pipe)
                os.close(pipe)

    def _report_growth(self, run: Run) -> None:
        if run.watch is not None and run.log.size > run.watch[0]:
            self._channel.send(LogGrew(run.run_id, run.watch[1]))
            run.watch = None

    def _handle_exits(self) -> None:
        os.read(self._child_signals, SIGNAL_BYTES)
        self._trees.reap()
        for run in list(self._trees.ended.values()):
            self._finish(run)

    def _finish(self, run: Run) -> None:
        """The main process has ended. The run is over when its remaining processes are gone too."""
        left = self._trees.leftovers_of(run)
        if left and run.sent_signal:
            self._trees.signal_again(run, left)
            return
        run.drain()
        if left and not run.request.keep_leftovers:
            self._end_leftovers(run, left)
        else:
            self._close(run, keeps_processes=bool(left))

    def _end_leftovers(self, run: Run, left: list[Process]) -> None:
        run.log.note(leftovers.sentence(run.request.argv, left))
        self._report_growth(run)
        self._channel.send(LeftoversFound(run.run_id))
        self._trees.signal(run, signal.SIGTERM)

    def _close(self, run: Run, keeps_processes: bool) -> None:
        """Output of processes that outlive the run is read and dropped, so that they are never blocked."""
        self._trees.remove(run, keeps_processes)
        if self._pauses.until:
            self._pauses.end(run)
        if run.stdin >= 0:
            self._inputs.close(run)
        if keeps_processes:
            self._pipes |= dict.fromkeys(run.pipes)
            run.close_writing_ends()
        else:
            for pipe in run.pipes:
                del self._pipes[pipe]
                self._poll.unregister(pipe)
            run.close_pipes()
            if run.log.size == 0:
                self._unused.append((run.request.workspace, run.request.output))
        if run.cgroup:
            cgroups.remove(run.cgroup)
        run.log.close()
        self._channel.send_exited(run)
