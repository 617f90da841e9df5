"""Listens on a socket that is bound already, and hands each new client to the connections. `socket_file` binds one."""

import asyncio
import socket

from semantica_daemon import forks
from semantica_daemon.rpc.connections import Connections

BACKLOG = 1024
AT_ONCE = 16  # accepted in one go; out of file descriptors, asyncio logs an error that many times a second


async def listen(bound: socket.socket, connections: Connections) -> asyncio.Server:
    forks.keep_from_children(bound.fileno())
    loop = asyncio.get_running_loop()
    server = await loop.create_unix_server(connections.accept, sock=bound, backlog=AT_ONCE)
    bound.listen(BACKLOG)
    return server


def stop_listening(server: asyncio.Server) -> None:
    """Accepts no new connections; open ones stay."""
    for listening in server.sockets:
        forks.forget(listening.fileno())
    server.close()
