"""The command that jobs of the crash tests run: `python -I -S command.py JOURNAL LOCK KIND MS`.

Every process of it notes what it does in the journal, which lies outside of all that is killed: one write a line, in
append mode, so that the order of the lines is the order of what happened. `tests/crash/journal` reads it. While there
is a file JOURNAL.held, a command goes on for ever instead of MS.
"""

# Not `signal`: this is started hundreds of times, and that one takes longer to import than all the rest.
import _signal  # type: ignore[import-not-found]
import fcntl
import os
import sys
import time

BEAT_S = 0.02
FOR_EVER_MS = 60_000  # long enough to be found, short enough not to outlive a test for long
FAILS_WITH = 3
RELAY = 20


def note(word: str) -> None:
    """Opened for each line: some of us close all they have."""
    mine = [os.environ[f"SEMANTICA_{name}"] for name in ("RUN_ID", "JOB_ID", "ATTEMPT")]
    line = " ".join([*mine, word, str(os.getpid()), str(time.monotonic_ns())])
    handle = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
    os.write(handle, line.encode() + b"\n")
    os.close(handle)


def hold(lock: str) -> None:
    """Until the last process that came from this one is gone; who finds it held runs beside an older run."""
    handle = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        note("beside")


def beat(ms: float) -> None:
    until = time.monotonic() + ms / 1000
    while time.monotonic() < until:
        note("beat")
        time.sleep(BEAT_S)


def plain() -> None:
    """Nothing but its beat."""


def deaf() -> None:
    _signal.signal(_signal.SIGTERM, _signal.SIG_IGN)


def fork() -> None:
    """A child that stays, in the same group."""
    if os.fork() == 0:
        beat(FOR_EVER_MS)
        os._exit(0)


def leave(close: bool) -> None:
    """A grandchild that stays, in a session of its own."""
    if os.fork() != 0:
        return
    os.setsid()
    if os.fork() == 0:
        if close:
            os.closerange(0, 64)
        beat(FOR_EVER_MS)
    os._exit(0)


def escape() -> None:
    leave(close=False)


def deaf_escape() -> None:
    deaf()
    leave(close=False)


def bare_escape() -> None:
    leave(close=True)


def relay() -> None:
    """Each forks the next and leaves, so that whoever looks sees them come and go; the last one stays."""
    if os.fork() != 0:
        return
    for _ in range(RELAY):
        if os.fork() != 0:
            os._exit(0)
    beat(FOR_EVER_MS)
    os._exit(0)


def write() -> None:
    """A log on both streams."""
    for number in range(20):
        os.write(1 + number % 2, b"line %d of the log\n" % number)


def die() -> None:
    os.kill(os.getpid(), _signal.SIGKILL)


FIRST = {
    "plain": plain,
    "deaf": deaf,
    "fork": fork,
    "escape": escape,
    "deaf_escape": deaf_escape,
    "bare_escape": bare_escape,
    "relay": relay,
    "write": write,
    "fail": plain,
    "die": die,
}


def main() -> None:
    kind, ms = sys.argv[3:]
    note("begin")
    hold(sys.argv[2])
    FIRST[kind]()
    beat(FOR_EVER_MS if os.path.exists(f"{sys.argv[1]}.held") else float(ms))
    note("end")
    os._exit(FAILS_WITH if kind == "fail" else 0)


if __name__ == "__main__":
    main()
