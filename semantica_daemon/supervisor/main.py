"""Prepares the supervisor's process (subreaper, signals, limits) and runs its loop. `engine/supervisors` starts it."""

import ctypes
import gc
import os
import signal
import sys
from contextlib import suppress

from semantica_daemon.supervisor.channel import Channel
from semantica_daemon.supervisor.file_limit import FileLimit
from semantica_daemon.supervisor.spawn import OWN_CWD, OWN_UMASK
from semantica_daemon.supervisor.supervisor import Supervisor

LIBC = ctypes.CDLL(None)
CHANNEL = 0  # the socket to the daemon, as stdin
PR_SET_CHILD_SUBREAPER = 36
SIGSET_WORD, SIGSET_BYTES = ctypes.sizeof(ctypes.c_ulong), 128  # of a sigset_t
GC_THRESHOLD = 50_000  # a run makes no reference cycles


def main() -> None:
    open_files, lock = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(lock, False)  # held by the supervisor alone, for as long as it lives
    with suppress(AttributeError):
        LIBC.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.chdir(OWN_CWD)
    os.umask(OWN_UMASK)
    limit = FileLimit(open_files)
    limit.lower()
    gc.freeze()
    gc.set_threshold(GC_THRESHOLD)
    Supervisor(Channel(CHANNEL), _child_signals(), limit).work()


def _child_signals() -> int:
    """A descriptor that becomes readable when a child has ended: of signalfd where there is one, which leaves SIGCHLD
    blocked (`spawn` unblocks it for the child). No signal stays ignored: children would inherit that."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    if hasattr(LIBC, "signalfd"):
        signal.pthread_sigmask(signal.SIG_SETMASK, (signal.SIGCHLD,))
        mask = (1 << signal.SIGCHLD - 1).to_bytes(SIGSET_WORD, sys.byteorder).ljust(SIGSET_BYTES, b"\0")
        return int(LIBC.signalfd(-1, mask, os.O_CLOEXEC | os.O_NONBLOCK))
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading
