"""The stdin of `semantica run`, sent to the job as the job reads it. `payload` reads the stdin that is stored."""

import os
import stat

from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import CallRefused, ConnectionLost

CHUNK = 65_536


def is_piped() -> bool:
    """Whether stdin is a pipe, a file or a socket: neither a terminal nor /dev/null."""
    found = os.fstat(0)
    return not stat.S_ISCHR(found.st_mode) or not (os.isatty(0) or found.st_rdev == os.stat(os.devnull).st_rdev)


class StdinSender:
    """Has a connection of its own: when this command ends or is killed, the job's stdin ends."""

    def __init__(self, terminal: Terminal) -> None:
        self._client = Client(terminal.paths, terminal.autostart, terminal.note)
        self.attach_id: str = self._client.call("job.attach", stdin=True)["attach_id"]
        self.is_open = True
        self._has_sent = False

    def start(self) -> None:
        """Sends in a thread until stdin or the job has ended."""
        import threading  # noqa: PLC0415

        threading.Thread(target=self._send, daemon=True).start()

    def about_next_run(self) -> str:
        """What the note about a further run says of stdin."""
        return " without stdin, which the first one has read; --stdin stores it for all" if self._has_sent else ""

    def _send(self) -> None:
        import base64  # noqa: PLC0415
        import signal  # noqa: PLC0415

        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the main thread handles them
        while self.is_open:
            try:
                data = os.read(0, CHUNK)
            except OSError:  # a folder, or a terminal that is gone
                data = b""
            try:
                text = base64.b64encode(data).decode()
                taken = self._client.call("job.input", attach_id=self.attach_id, data=text, eof=not data)
                self.is_open = taken["is_open"]
                self._has_sent |= bool(data)
            except (CallRefused, ConnectionLost):  # the main thread reports a daemon that is gone
                self.is_open = False
