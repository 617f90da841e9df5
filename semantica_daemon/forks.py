"""What a forked child must not hold: the lock, the socket, the connections. A handler may fork (multiprocessing does)
and its child outlive the daemon; with the lock it would keep the next one out, with a socket keep clients waiting."""

import os
from contextlib import suppress

_ours: set[int] = set()


def keep_from_children(descriptor: int) -> None:
    _ours.add(descriptor)


def forget(descriptor: int) -> None:
    _ours.discard(descriptor)


def _close_ours() -> None:
    for descriptor in _ours:
        with suppress(OSError):
            os.close(descriptor)
    _ours.clear()


os.register_at_fork(after_in_child=_close_ours)
