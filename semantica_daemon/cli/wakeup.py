"""A pipe that becomes readable with each signal, so that a command that waits for the daemon handles it at once.

`client/connection` waits for it beside the socket.
"""

import os
from _signal import set_wakeup_fd  # type: ignore[import-not-found]  # `signal` makes every command slower

_reading = -1


def wakeup() -> int:
    """The reading end; every call returns the same pipe."""
    global _reading
    if _reading < 0:
        _reading, writing = os.pipe()
        os.set_blocking(_reading, False)
        os.set_blocking(writing, False)
        set_wakeup_fd(writing, warn_on_full_buffer=False)
    return _reading
