"""One connection to the daemon: JSON messages, one per line, with time limits. Not for several threads at once."""

import json
import os
import select
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress

from semantica_daemon.client.errors import CallRefused, ConnectionLost
from semantica_daemon.client.json_types import Json

CHUNK = 262_144
LARGEST_CALL = 16 * 1024 * 1024
# How long the daemon may take beyond what the call itself asks it to wait; longer means that it hangs.
PATIENCE_S = 60.0
NO_SIGNAL = getattr(socket, "MSG_NOSIGNAL", 0)
CLOSED = "the daemon closed the connection"
NO_WAKEUP = -1
SO_NOSIGPIPE = 0x1022  # of macOS, which has no MSG_NOSIGNAL


class Connection:
    def __init__(
        self, connected: socket.socket, report: Callable[[str], None], received: bytes = b"", wakeup: int = NO_WAKEUP
    ) -> None:
        """`report` is called once for each reply that is late; `received` was read from the socket before. `wakeup`:
        the reading end of a pipe whose writing end was given to signal.set_wakeup_fd."""
        self._socket = connected
        self._wakeup = wakeup
        self._poll = select.poll()
        self._poll.register(connected, select.POLLIN)
        if wakeup != NO_WAKEUP:
            self._poll.register(wakeup, select.POLLIN)
        self._report = report
        self._received = bytearray(received)
        self._searched = 0
        self._is_late = False
        if sys.platform == "darwin":
            self._socket.setsockopt(socket.SOL_SOCKET, SO_NOSIGPIPE, 1)

    def close(self) -> None:
        self._socket.close()

    def send(self, message: Json) -> None:
        line = line_of(message)
        try:
            self._socket.settimeout(PATIENCE_S)
            self._socket.sendall(line, NO_SIGNAL)
        except (BrokenPipeError, ConnectionResetError):
            raise ConnectionLost(CLOSED) from None
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
        return decoded(line)

    def _chunk(self, late_at: float | None) -> bytes:
        try:
            chunk = self._read(late_at)
        except TimeoutError:
            raise ConnectionLost("the daemon does not answer; `semantica doctor` finds out why") from None
        except ConnectionResetError:
            raise ConnectionLost(CLOSED) from None
        except OSError as error:
            raise ConnectionLost(f"the connection to the daemon broke: {error}") from None
        if not chunk:
            raise ConnectionLost(CLOSED)
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
        """Waits by poll and not by recv: Python would handle a signal that comes just before a recv blocks only when
        the recv ends. The signal also makes `wakeup` readable, so a poll returns at once."""
        while ready := self._poll.poll(None if until is None else max(1, (until - time.monotonic()) * 1000)):
            if all(descriptor != self._wakeup for descriptor, _ in ready):
                return self._socket.recv(CHUNK)
            with suppress(BlockingIOError):  # the signal's handler may have used the same pipe
                os.read(self._wakeup, CHUNK)
        raise TimeoutError


def line_of(message: Json) -> bytes:
    """Raises CallRefused for a message that the daemon would not accept."""
    text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
    try:
        line = text.encode() + b"\n"
    except UnicodeEncodeError as error:
        begin, end = text.rfind('"', 0, error.start) + 1, text.find('"', error.start)
        problem = f"{text[begin:end]} is not UTF-8"
        raise CallRefused(-32602, problem, {"hint": "the daemon keeps text as UTF-8"}) from None
    if len(line) > LARGEST_CALL:
        hint = "put large data into a file and pass the file's name"
        problem = f"the call has {len(line)} bytes, the daemon accepts {LARGEST_CALL}"
        raise CallRefused(-32600, problem, {"hint": hint})
    return line


def decoded(line: bytes) -> Json:
    try:
        message = json.loads(line)
    except ValueError:
        message = None
    if not isinstance(message, dict):
        raise ConnectionLost("the process that answers on the socket is not a Semantica daemon")
    return message
