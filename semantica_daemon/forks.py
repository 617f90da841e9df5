"""Closes descriptors of the daemon (lock, sockets) in forked children.

A handler may fork, as multiprocessing does, and its child may outlive the daemon: with the lock it would keep the next
daemon from starting, with a socket it would keep clients waiting."""

import os
from contextlib import suppress

_private: set[int] = set()


def keep_from_children(descriptor: int) -> None:
    _private.add(descriptor)


def forget(descriptor: int) -> None:
    _private.discard(descriptor)


def _close_private() -> None:
    for descriptor in _private:
        with suppress(OSError):
            os.close(descriptor)
    _private.clear()


os.register_at_fork(after_in_child=_close_private)
