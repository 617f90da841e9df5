"""Whether a daemon holds the lock of its data folder, which is the only certain sign that one is running."""

import fcntl
import os
import time

LOOK_EVERY_S = 0.02


def is_held(lock: str) -> bool:
    """Takes a shared lock for an instant only, so that a daemon that is starting does not find it taken."""
    try:
        handle = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def wait_until_free(lock: str, timeout_ms: int | None, holder: int | None = None) -> bool:
    """Polls, because a lock cannot be waited for without taking it. Ends as well when process `holder` is gone: the
    lock may then belong to the next daemon."""
    until = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
    while is_held(lock) and (holder is None or _exists(holder)):
        if until is not None and time.monotonic() >= until:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def _exists(pid: int) -> bool:
    """False also for a process of another user, which has got the number of a daemon that is gone."""
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True
