"""The process at the other end of a connection: whether it runs as our user, and whether it is still there."""

import os
import select
import socket
import struct


def is_us(connection: socket.socket) -> bool:
    """By SO_PEERCRED on Linux; elsewhere the modes of the socket (0600) and its folder (0700) keep others out."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return bool(uid == os.getuid())


def is_gone(descriptor: int) -> bool:
    """Whether it has closed both directions; a peer that has half-closed still reads its answers."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(happened & select.POLLHUP for _, happened in poll.poll(0))
