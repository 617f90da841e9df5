"""Prepares the supervisor's process (subreaper, signals, limits) and runs its loop. `engine/supervisors` starts it."""

import ctypes
import gc
import os
import resource
import signal
import sys
from contextlib import suppress

from semantica_daemon.supervisor.channel import Channel
from semantica_daemon.supervisor.spawn import OWN_CWD, OWN_UMASK
from semantica_daemon.supervisor.supervisor import Supervisor

CHANNEL = 0  # the socket to the daemon, as stdin
PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    open_files, lock = int(sys.argv[1]), int(sys.argv[2])
    os.set_inheritable(lock, False)  # held by the supervisor alone, for as long as it lives
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    os.chdir(OWN_CWD)
    os.umask(OWN_UMASK)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft = open_files if hard == resource.RLIM_INFINITY else min(open_files, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    gc.freeze()
    Supervisor(Channel(CHANNEL), _child_signals(), open_files).work()


def _child_signals() -> int:
    """A pipe that becomes readable when a child has ended. No signal stays ignored: children would inherit that."""
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
