"""The keeper's loop: orders from the daemon, output from pipes, ends of processes; one thread, nothing that blocks.

It is the subreaper of all that jobs start: whatever forks twice or begins a session of its own becomes its child, so
that nothing of a run is out of sight. When the daemon is gone, so are the runs, and then the keeper.
"""

import ctypes
import json
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

from semantica_daemon.keeper import family, processes
from semantica_daemon.keeper.processes import Process
from semantica_daemon.keeper.run import NotStarted, Order, Run

CONTROL = 0  # the socket to the daemon, as stdin
PR_SET_CHILD_SUBREAPER = 36
LAST_WORDS_S = 10
MOST_NAMED = 10


class Keeper:
    def __init__(self, open_files: int) -> None:
        self._open_files = open_files
        self._runs: dict[str, Run] = {}
        self._mains: dict[int, Run] = {}
        self._kept: set[str] = set()  # runs that were to leave something behind, and did
        self._ready: dict[int, Callable[[], None]] = {}
        self._poll = select.poll()
        self._signals = _child_signals()
        self._unread = b""
        self._alone = False

    def work(self) -> None:
        self._listen(CONTROL, self._orders)
        self._listen(self._signals, self._reap)
        while not self._alone:
            self._pass(None)
        for run in self._runs.values():
            self._end(run, signal.SIGKILL)
        until = time.monotonic() + LAST_WORDS_S
        while self._runs and time.monotonic() < until:
            self._pass(100)

    def _pass(self, most_ms: int | None) -> None:
        for handle, _ in self._poll.poll(most_ms):
            if handle in self._ready:
                self._ready[handle]()

    def _listen(self, handle: int, ready: Callable[[], None]) -> None:
        self._ready[handle] = ready
        self._poll.register(handle, select.POLLIN)

    def _close(self, handle: int) -> None:
        del self._ready[handle]
        self._poll.unregister(handle)
        os.close(handle)

    def _orders(self) -> None:
        received = os.read(CONTROL, 1 << 20)
        if not received:
            self._close(CONTROL)
            self._alone = True
            return
        *lines, self._unread = (self._unread + received).split(b"\n")
        for line in lines:
            order = json.loads(line)
            getattr(self, "_do_" + order.pop("op"))(**order)

    def _do_start(self, **order: Any) -> None:
        asked = Order(**order)
        try:
            run = Run(asked, self._open_files)
        except NotStarted as error:
            self._say(op="refused", run=asked.run, message=error.message, errno=error.number, again=error.again)
            return
        self._runs[asked.run] = self._mains[run.pid] = run
        for pipe in run.pipes:
            self._listen(pipe, partial(self._output, run, pipe))
        self._say(op="started", run=asked.run, pid=run.pid, started_at=run.started_at)

    def _do_end(self, run: str, number: int) -> None:
        if run in self._runs:
            self._end(self._runs[run], number)

    def _do_watch(self, run: str, beyond: int) -> None:
        """Told once, as soon as the log is longer than that."""
        if run not in self._runs or self._runs[run].log.size > beyond:
            self._say(op="output", run=run)
        else:
            self._runs[run].watch = beyond

    def _say(self, **told: Any) -> None:
        """A daemon that is gone is noticed where its orders come from."""
        with suppress(OSError):
            left = json.dumps(told).encode() + b"\n"
            while left and not self._alone:
                left = left[os.write(CONTROL, left) :]

    def _output(self, run: Run, pipe: int) -> None:
        if not run.pump(pipe):
            del run.pipes[pipe]
            self._close(pipe)
        self._grown(run)

    def _grown(self, run: Run) -> None:
        if run.watch is not None and run.log.size > run.watch:
            run.watch = None
            self._say(op="output", run=run.order.run)

    def _reap(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._signals, 4096)
        with suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                if ended[0] in self._mains:
                    self._mains.pop(ended[0]).status = ended[1]
        for run in [run for run in self._runs.values() if run.status is not None]:
            self._settle(run)

    def _settle(self, run: Run) -> None:
        """Its main process has ended: it is over when what is left of it is gone, too."""
        left = self._left(run)
        if left and run.ending:
            if run.ending == signal.SIGKILL:
                _send(left, signal.SIGKILL)
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
            self._kept.add(run.order.run)
        for pipe in list(run.pipes):
            if keep:
                self._ready[pipe] = partial(self._ignore, pipe)
            else:
                self._close(pipe)
        del self._runs[run.order.run]
        self._say(**run.over())

    def _ignore(self, pipe: int) -> None:
        with suppress(BlockingIOError):
            if not os.read(pipe, 65_536):
                self._close(pipe)

    def _name(self, run: Run, left: list[Process]) -> None:
        names = [f"{process.name} ({process.pid})" for process in left[:MOST_NAMED]]
        names += ["…"] if len(left) > MOST_NAMED else []
        run.log.say(f"its main process has ended and left {len(left)} behind, which are ended: {', '.join(names)}")
        self._grown(run)
        self._say(op="left", run=run.order.run, names=names)

    def _end(self, run: Run, number: int) -> None:
        """To all of it at once; what is stopped is woken, or it could not act on it."""
        if run.ending != signal.SIGKILL:
            run.ending = number
        members = self._left(run)
        if run.status is None:
            for sent in (number, signal.SIGCONT):
                with suppress(OSError):
                    os.killpg(run.pid, sent)
            others = map(processes.look, processes.descendants([run.pid]))
            members += [process for process in others if process is not None and process.group != run.pid]
        _send(members, number)

    def _left(self, run: Run) -> list[Process]:
        """What belongs to it and has lost its parents: children of ours by now, and all that came from them."""
        mine = []
        for pid in processes.children(os.getpid()):
            process = None if pid in self._mains else processes.look(pid)
            if process is None:
                continue
            owner = family.run_of(process, processes.run_of(pid), self._runs.values(), self._kept)
            if owner == run.order.run:
                mine.append(process)
            elif owner == family.NOBODY:
                _send([process], signal.SIGKILL)
        below = map(processes.look, processes.descendants([process.pid for process in mine]))
        return mine + [process for process in below if process is not None]


def _send(members: list[Process], number: int) -> None:
    for process in members:
        processes.send(process, number)
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
    open_files = int(sys.argv[1])
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.chdir("/")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard if hard != resource.RLIM_INFINITY else soft, hard))
    Keeper(open_files).work()


if __name__ == "__main__":
    main()
