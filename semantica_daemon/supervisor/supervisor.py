"""The supervisor's loop: orders from the daemon, output from pipes, ends of processes; one thread, nothing that blocks.

It is the subreaper of all that jobs start: whatever forks twice or begins a session of its own becomes its child, so
that nothing of a run is out of sight. When the daemon is gone, so are the runs, and then the supervisor.
"""

import ctypes
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from semantica_daemon.supervisor import family, processes
from semantica_daemon.supervisor.control import Control
from semantica_daemon.supervisor.numbers import Numbers
from semantica_daemon.supervisor.order import NotStarted, Order
from semantica_daemon.supervisor.processes import Process
from semantica_daemon.supervisor.run import Run
from semantica_daemon.supervisor.workspaces import Workspaces

CONTROL = 0  # the socket to the daemon, as stdin
PR_SET_CHILD_SUBREAPER = 36
LAST_WORDS_S = 10
MOST_NAMED = 10
MOST_LOOKS = 100


class Supervisor:
    def __init__(self, open_files: int, workspaces: str) -> None:
        self._open_files = open_files
        self._workspaces = Workspaces(workspaces)
        self._control = Control(CONTROL)
        self._numbers = Numbers()
        self._runs: dict[str, Run] = {}
        self._mains: dict[int, Run] = {}
        self._kept: dict[str, int] = {}  # runs that were to leave something behind, and did, with their numbers
        self._ended: list[Run] = []
        self._ready: dict[int, Callable[[], None]] = {}
        self._poll = select.poll()
        self._signals = _child_signals()
        self._list = processes.open_list_of_children()
        self._alone = False

    def work(self) -> None:
        """Until the daemon is gone; then, or when the supervisor itself fails, so are the runs."""
        self._listen(CONTROL, self._orders)
        self._listen(self._signals, self._reap)
        try:
            while not self._alone:
                self._pass(self._control.patience_ms())
        finally:
            self._end_all()

    def _end_all(self) -> None:
        for run in self._runs.values():
            self._end(run, signal.SIGKILL)
        until = time.monotonic() + LAST_WORDS_S
        while self._runs and time.monotonic() < until:
            self._pass(100)
        self._workspaces.close()

    def _pass(self, most_ms: int | None) -> None:
        for handle, _ in self._poll.poll(most_ms):
            if handle in self._ready:
                self._ready[handle]()
        self._control.flush()
        while self._ended:  # what nobody waits for comes last
            self._workspaces.give_back(self._ended.pop().order.workspace)

    def _listen(self, handle: int, ready: Callable[[], None]) -> None:
        self._ready[handle] = ready
        self._poll.register(handle, select.POLLIN)

    def _close(self, handle: int) -> None:
        del self._ready[handle]
        self._poll.unregister(handle)
        os.close(handle)

    def _orders(self) -> None:
        orders = self._control.orders()
        if orders is None:  # not closed: another file would get its number
            self._alone = True
            del self._ready[CONTROL]
            self._poll.unregister(CONTROL)
        for order in orders or ():
            getattr(self, "_do_" + order.pop("op"))(**order)

    def _do_start(self, **order: Any) -> None:
        asked = Order(**order)
        number = self._numbers.next({run.number for run in self._runs.values()} | set(self._kept.values()))
        try:
            self._workspaces.take(asked.workspace)
            self._numbers.bear(number)
            run = Run(asked, number, self._open_files)
        except NotStarted as refused:
            self._workspaces.give_back(asked.workspace)
            told = {"message": refused.message, "errno": refused.errno, "again": refused.again, "of": refused.of}
            self._control.say({"op": "refused", "run": asked.run, **told})
            return
        finally:
            self._numbers.bear(0)
        self._runs[asked.run] = self._mains[run.pid] = run
        for pipe in run.pipes:
            self._listen(pipe, partial(self._output, run, pipe))
        identity = {"pid": run.pid, "started_at": run.started_at}
        self._control.say({"op": "started", "run": asked.run, **identity}, now=False)

    def _do_end(self, run: str, signal: int) -> None:
        if run in self._runs:
            self._end(self._runs[run], signal)

    def _do_watch(self, run: str, beyond: int) -> None:
        """Told once, as soon as the log is longer than that."""
        known = self._runs.get(run)
        if known is None or known.log.size > beyond:
            self._control.say({"op": "output", "run": run})
        else:
            known.watch = beyond if known.watch is None else min(known.watch, beyond)

    def _output(self, run: Run, pipe: int) -> None:
        if not run.pump(pipe):
            del run.pipes[pipe]
            self._close(pipe)
        self._grown(run)

    def _grown(self, run: Run) -> None:
        if run.watch is not None and run.log.size > run.watch:
            run.watch = None
            self._control.say({"op": "output", "run": run.order.run})

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._signals, 4096)
        self._bury()
        for run in [run for run in self._runs.values() if run.status is not None]:
            self._settle(run)

    def _bury(self) -> None:
        """All of them: nobody else in this process waits for a child (there is no Popen here to be robbed)."""
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] in self._mains:
                    self._mains.pop(ended[0]).status = ended[1]

    def _settle(self, run: Run) -> None:
        """Its main process has ended: it is over when what is left of it is gone, too."""
        left = self._left(run)
        if left and run.ending:
            _send(run, left)  # to those that have come since
            return
        run.drain()
        if left and run.order.leftovers == "end":
            self._name(run, left)
            self._end(run, signal.SIGTERM)
        else:
            self._over(run, bool(left))

    def _over(self, run: Run, keep: bool) -> None:
        """The pipes of what is kept are read on, for nobody, so that it can go on writing."""
        if keep:
            self._kept[run.order.run] = run.number
        else:
            self._ended.append(run)
        for pipe in list(run.pipes):
            if keep:
                self._ready[pipe] = partial(self._ignore, pipe)
            else:
                self._close(pipe)
        del self._runs[run.order.run]
        run.log.close()
        told = {"op": "over", "run": run.order.run, "dropped": run.log.dropped, "trouble": run.log.trouble}
        self._control.say({**told, "result": os.path.lexists(run.order.result), **run.how_it_ended()})

    def _ignore(self, pipe: int) -> None:
        with suppress(BlockingIOError):
            if not os.read(pipe, 65_536):
                self._close(pipe)

    def _name(self, run: Run, left: list[Process]) -> None:
        names = [f"{process.name} ({process.pid})" for process in left[:MOST_NAMED]]
        names += ["…"] if len(left) > MOST_NAMED else []
        run.log.say(f"its main process has ended and left {len(left)} behind, which are ended: {', '.join(names)}")
        self._grown(run)
        self._control.say({"op": "left", "run": run.order.run})

    def _end(self, run: Run, sent: int) -> None:
        """To all of it at once."""
        if run.ending not in (sent, signal.SIGKILL):
            run.ending = sent
            run.signalled.clear()
        members = self._left(run)
        if run.status is None:
            for each in (sent, signal.SIGCONT):
                with suppress(OSError):
                    os.killpg(run.pid, each)
            others = map(processes.look, processes.descendants([run.pid]))
            members += [process for process in others if process is not None and process.group != run.pid]
        _send(run, members)

    def _left(self, run: Run) -> list[Process]:
        """What belongs to it and has lost its parents: children of ours by now, and all that came from them."""
        mine, known = [], []
        for process in self._orphans():
            mark = processes.run_of(process.pid)
            number = self._numbers.of(process.pid) if mark is None else 0
            known += [mark, number]
            owner = family.run_of(process, mark, number, self._runs.values(), self._kept)
            # A process that is dying has no environment any more: whoever was sent the signal is still the run's.
            if owner == run.order.run or (process.pid, process.started_at) in run.signalled:
                mine.append(process)
            elif owner == family.NOBODY:
                processes.send(process, signal.SIGKILL)
        self._kept = {
            name: number for name, number in self._kept.items() if name in known or (number and number in known)
        }
        below = map(processes.look, processes.descendants([process.pid for process in mine]))
        return mine + [process for process in below if process is not None]

    def _orphans(self) -> list[Process]:
        """Whoever ends while we look may have left us its own children: then we look again."""
        for _ in range(MOST_LOOKS):
            orphans = [pid for pid in self._children() if pid not in self._mains]
            found = [process for pid in orphans if (process := processes.look(pid)) is not None]
            if len(found) == len(orphans):
                break
            self._bury()
        return found

    def _children(self) -> list[int]:
        """Asked at every end of a run, so the list stays open."""
        if self._list < 0:
            return processes.children(os.getpid())
        found = b""
        while part := os.pread(self._list, 1 << 16, len(found)):  # a page at a time
            found += part
        return [int(pid) for pid in found.split()]


def _send(run: Run, members: list[Process]) -> None:
    """What is stopped is woken, or it could not act on it."""
    for process in members:
        if (process.pid, process.started_at) not in run.signalled:
            run.signalled.add((process.pid, process.started_at))
            processes.send(process, run.ending)
            processes.send(process, signal.SIGCONT)


def _child_signals() -> int:
    """A pipe that becomes readable when a child has ended. No signal is ignored: that would be inherited."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def main() -> None:
    open_files, lock, workspaces = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    os.set_inheritable(lock, False)  # held by the supervisor alone, for as long as it lives
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.chdir("/")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else soft, hard))
    Supervisor(open_files, workspaces).work()
