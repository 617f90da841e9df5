"""One connection to the daemon: JSON messages, one per line, with time limits. Not for several threads at once."""

import json
import socket
import sys
import time
from collections.abc import Callable

from semantica_daemon.client.errors import CallRefused, ConnectionLost
from semantica_daemon.client.json_types import Json

CHUNK = 262_144
LARGEST_CALL = 16 * 1024 * 1024
# How long the daemon may take beyond what the call itself asks it to wait; longer means that it hangs.
PATIENCE_S = 60.0
NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
SO_NOSIGPIPE = 0x1022  # of macOS, which has no MSG_NOSIGNAL


class Connection:
    def __init__(self, connected: socket.socket, report: Callable[[str], None], received: bytes = b"") -> None:
        """`report` is called once for each reply that is late; `received` was read from the socket before."""
        self._socket = connected
        self._report = report
        self._received = bytearray(received)
        self._searched = 0
        self._is_late = False
        if sys.platform == "darwin":
            self._socket.setsockopt(socket.SOL_SOCKET, SO_NOSIGPIPE, 1)

    def close(self) -> None:
        self._socket.close()

    def send(self, message: Json) -> None:
        line = _encoded(message) + b"\n"
        if len(line) > LARGEST_CALL:
            hint = "put large data into a file and pass the file's name"
            problem = f"the call has {len(line)} bytes, the daemon accepts {LARGEST_CALL}"
            raise CallRefused(-32600, problem, {"hint": hint})
        try:
            self._socket.settimeout(PATIENCE_S)
            self._socket.sendall(line, NO_SIGNAL)
        except OSError as error:
            raise ConnectionLost(f"the daemon does not accept the call: {error}") from None

    def receive(self, late_at: float | None) -> Json:
        """The next message. After `late_at` (monotonic seconds) the delay is reported, PATIENCE_S later the connection
        counts as lost; None waits without end."""
        while (end := self._received.find(b"\n", self._searched)) < 0:
            self._searched = len(self._received)
            self._received += self._chunk(late_at)
        line = bytes(self._received[:end])
        del self._received[: end + 1]
        self._searched = 0
        self._is_late = False
        return _decoded(line)

    def _chunk(self, late_at: float | None) -> bytes:
        try:
            chunk = self._read(late_at)
        except TimeoutError:
            raise ConnectionLost("the daemon does not answer; `semantica doctor` finds out why") from None
        except OSError as error:
            raise ConnectionLost(f"the connection to the daemon broke: {error}") from None
        if not chunk:
            raise ConnectionLost("the daemon closed the connection")
        return chunk

    def _read(self, late_at: float | None) -> bytes:
        if late_at is not None and not self._is_late:
            try:
                return self._read_until(late_at)
            except TimeoutError:
                self._is_late = True
                self._report(f"the daemon has not answered yet; waiting for up to {PATIENCE_S:.0f}s more")
        return self._read_until(None if late_at is None else late_at + PATIENCE_S)

    def _read_until(self, until: float | None) -> bytes:
        self._socket.settimeout(None if until is None else max(0.001, until - time.monotonic()))
        return self._socket.recv(CHUNK)


def _encoded(message: Json) -> bytes:
    """In UTF-8; text with lone surrogates has to be escaped."""
    try:
        return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        return json.dumps(message).encode()


def _decoded(line: bytes) -> Json:
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise ConnectionLost("the process that answers on the socket is not a Semantica daemon")
    return message
