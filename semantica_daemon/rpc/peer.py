"""The process at the other end of a connection: its user, and whether it is still there."""

import os
import select
import socket
import struct


def uid_of(connection: socket.socket) -> int:
    """By SO_PEERCRED on Linux; elsewhere our own: the modes of the socket (0600) and its folder (0700) keep others
    out."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return os.getuid()
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return int(uid)


def is_gone(descriptor: int) -> bool:
    """Whether it has closed both directions; a peer that has half-closed still reads its answers."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(happened & select.POLLHUP for _, happened in poll.poll(0))
