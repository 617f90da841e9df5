"""The stdin of `semantica run`, sent to the job as the job reads it. `payload` reads the stdin that is stored."""

import os
import stat
import time
from collections.abc import Callable
from contextlib import suppress

from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import CallRefused, ConnectionLost, NoDaemon

CHUNK = 65_536
DETACH_KEY = 0x1D  # Ctrl-]
PRESSES, WITHIN_S = 3, 1.0


def is_piped() -> bool:
    """Whether stdin is a pipe, a file or a socket: neither a terminal nor /dev/null."""
    found = os.fstat(0)
    return not stat.S_ISCHR(found.st_mode) or not (os.isatty(0) or found.st_rdev == os.stat(os.devnull).st_rdev)


class StdinSender:
    """Has a connection of its own: when this command ends or is killed, the job's stdin ends."""

    def __init__(self, terminal: Terminal, window: tuple[int, int] | None) -> None:
        """`window`: rows and columns of the terminal that the job gets."""
        self.has_terminal = window is not None
        self.is_open = is_piped() or (self.has_terminal and os.isatty(0))
        self._paths = terminal.paths
        self._client = Client(terminal.paths, terminal.autostart, terminal.note)
        asked = {} if window is None else {"rows": window[0], "columns": window[1]}
        self.attach_id: str = self._client.call("job.attach", stdin=self.is_open, **asked)["attach_id"]
        self._has_sent = False
        self._detach_keys: list[float] = []  # when each of the last ones was pressed

    def start(self) -> None:
        """Sends in a thread until stdin or the job has ended."""
        if self.is_open:
            _in_thread(self._send)

    def start_resizing(self, changes: int, size: Callable[[], tuple[int, int]]) -> None:
        """Sends the size now and whenever the pipe `changes` is readable, in a thread and over a connection of its own,
        because a call of the other thread may wait."""
        with suppress(CallRefused, ConnectionLost, NoDaemon):
            client = Client(self._paths, autostart=False)
            _in_thread(lambda: self._resize(client, changes, size))

    def _resize(self, client: Client, changes: int, size: Callable[[], tuple[int, int]]) -> None:
        with suppress(CallRefused, ConnectionLost):  # the main thread reports a daemon that is gone
            while True:
                rows, columns = size()
                client.call("job.input", attach_id=self.attach_id, rows=rows, columns=columns)
                os.read(changes, CHUNK)

    def about_next_run(self) -> str:
        """The part about stdin of the note about a further run."""
        return " without stdin, which the first one has read; --stdin stores it for all" if self._has_sent else ""

    def _send(self) -> None:
        import base64  # noqa: PLC0415
        import signal  # noqa: PLC0415

        while self.is_open:
            try:
                data = os.read(0, CHUNK)
            except OSError:  # a folder, or a terminal that is gone
                data = b""
            if self.has_terminal and self._detaches(data):
                os.kill(os.getpid(), signal.SIGHUP)
            try:
                text = base64.b64encode(data).decode()
                taken = self._client.call("job.input", attach_id=self.attach_id, data=text, eof=not data)
                self.is_open = taken["is_open"]
                self._has_sent |= bool(data)
            except (CallRefused, ConnectionLost):  # the main thread reports a daemon that is gone
                self.is_open = False

    def _detaches(self, keys: bytes) -> bool:
        """Whether Ctrl-] was pressed three times within a second, with no other key between."""
        for key in keys:
            pressed = [*self._detach_keys, time.monotonic()][-PRESSES:]
            self._detach_keys = pressed if key == DETACH_KEY else []
        pressed = self._detach_keys
        return len(pressed) == PRESSES and pressed[-1] - pressed[0] <= WITHIN_S


def _in_thread(action: Callable[[], None]) -> None:
    import signal  # noqa: PLC0415
    import threading  # noqa: PLC0415

    def work() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the main thread handles them
        action()

    threading.Thread(target=work, daemon=True).start()
