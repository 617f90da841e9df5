"""Whether some daemon holds the lock of its data directory: the only thing that says for certain that there is one."""

import fcntl
import os
import time

LOOK_EVERY_S = 0.02


def is_held(lock: str) -> bool:
    """Takes it for no longer than it needs to know: a daemon that starts just then must not find it taken."""
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
    """Nothing tells when a lock becomes free without taking it, so this looks again and again. Once the holder is gone
    the lock may already be another's."""
    until = None if timeout_ms is None else time.monotonic() + timeout_ms / 1000
    while is_held(lock) and (holder is None or _is_there(holder)):
        if until is not None and time.monotonic() >= until:
            return False
        time.sleep(LOOK_EVERY_S)
    return True


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True
