"""Who is at the other end of a connection: us, and still there?"""

import os
import select
import socket
import struct


def is_us(connection: socket.socket) -> bool:
    """By SO_PEERCRED on Linux; elsewhere the 0600 socket in its 0700 folder is the guard."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    _, uid, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i")))
    return bool(uid == os.getuid())


def is_gone(descriptor: int) -> bool:
    """Has closed both ways; one that has only half-closed still reads its answers."""
    poll = select.poll()
    poll.register(descriptor, 0)
    return any(happened & select.POLLHUP for _, happened in poll.poll(0))
