"""Binding a path and listening on a socket are apart: a socket that was bound elsewhere is listened on as well."""

import os
import socket
import stat
from pathlib import Path

from semantica_daemon.rpc.server import stop_listening
from semantica_daemon.rpc.socket_file import SocketFile
from tests.harness import Client, Harness


async def test_the_daemon_answers_on_a_socket_that_it_was_handed(real: Harness, home: Path) -> None:
    path = home / "handed.sock"
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    bound.bind(os.fspath(path))
    listener = await real.daemon.server.listen(bound)
    client = await Client.connect(path)
    assert (await client.call("admin.health"))["status"] == "ready"
    await client.close()
    stop_listening(listener)
    assert path.exists(), "whoever has bound it removes it"


def test_a_bound_file_is_private_and_recognised_until_it_is_replaced(home: Path) -> None:
    file = SocketFile(home / "a.sock")
    bound = file.bind()
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert file.is_unchanged
    other = SocketFile(file.path).bind()
    assert not file.is_unchanged
    file.remove()
    assert file.path.exists(), "the other one's file stays"
    bound.close()
    other.close()
