"""A peer on the daemon's socket that is no daemon: it sends what a test wants."""

import json
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any


def peer(home: Path, talk: Callable[[Any], None]) -> threading.Thread:
    """Takes one connection and lets `talk` have its stream."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(home / "daemon.sock"))
    listener.listen(1)

    def serve() -> None:
        connection, _ = listener.accept()
        with listener, connection, connection.makefile("rwb") as stream:
            talk(stream)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


def answer(stream: Any, *parts: bytes) -> None:
    """One request is read, then these are written, each by itself."""
    json.loads(stream.readline())
    for part in parts:
        stream.write(part)
        stream.flush()
