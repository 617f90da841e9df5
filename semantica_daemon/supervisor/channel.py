"""The supervisor's end of the socket to the daemon."""

import os
import time

from semantica_daemon.supervisor.messages import Decoder, Report, Request, encode
from semantica_daemon.supervisor.run import Run

READ_BYTES = 65_536  # a larger buffer would cost a memory mapping for every read
SPAWNED_DELAY_MS = 30


class Channel:
    """Reports are collected and sent together by `flush`. A Spawned is delayed for a moment: many commands end at once,
    and then a single Exited reports both, which saves the daemon a wake-up and a commit."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self._decoder = Decoder()
        self._unsent = b""
        self._delayed: dict[str, Run] = {}  # in the order in which their Spawned is due

    def receive(self) -> list[Request] | None:
        """None when the daemon is gone, for whatever reason."""
        try:
            received = os.read(self.handle, READ_BYTES)
        except OSError:
            received = b""
        return self._decoder.feed(received) if received else None

    def delay_spawned(self, run: Run) -> None:
        run.report_due = time.monotonic() + SPAWNED_DELAY_MS / 1000
        self._delayed[run.run_id] = run

    def send_exited(self, run: Run) -> None:
        is_delayed = self._delayed.pop(run.run_id, None) is not None
        self._unsent += encode(run.exited(with_process=is_delayed))

    def send(self, report: Report) -> None:
        """Sends the report after the Spawned of the same run."""
        if report.run_id in self._delayed:
            self._unsent += encode(self._delayed.pop(report.run_id).spawned())
        self._unsent += encode(report)

    def flush(self) -> int | None:
        """Sends what is due; if the daemon is gone, `receive` notices. Returns the ms until the next flush, None if no
        Spawned is delayed."""
        while self._delayed:
            run = next(iter(self._delayed.values()))
            if run.report_due > time.monotonic():
                break
            self._unsent += encode(self._delayed.pop(run.run_id).spawned())
        if self._unsent:
            self._write(self._unsent)
            self._unsent = b""
        return SPAWNED_DELAY_MS if self._delayed else None

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self.handle, data) :]
        except OSError:
            return
