"""The supervisor's end of the socket to the daemon."""

import os
import time
from contextlib import suppress

from semantica_daemon.supervisor.messages import Decoder, Exited, Report, Request, Spawned, encode

READ_BYTES = 65_536  # a larger buffer would cost a memory mapping for every read
SPAWNED_DELAY_S = 0.004


class Channel:
    """Reports are collected and sent together by `flush`. A Spawned is delayed for a moment: many commands end at once,
    and then a single Exited reports both, which saves the daemon a wake-up and a commit."""

    def __init__(self, handle: int) -> None:
        self.handle = handle
        self._decoder = Decoder()
        self._reports: list[Report] = []
        self._delayed: dict[str, tuple[float, Spawned]] = {}  # in the order in which they are due

    def receive(self) -> list[Request] | None:
        """None when the daemon is gone, for whatever reason."""
        try:
            received = os.read(self.handle, READ_BYTES)
        except OSError:
            received = b""
        return self._decoder.feed(received) if received else None

    def send_spawned(self, report: Spawned) -> None:
        self._delayed[report.run_id] = (time.monotonic() + SPAWNED_DELAY_S, report)

    def send(self, report: Report) -> None:
        """After the run's own Spawned if that is still delayed; an Exited takes its place."""
        delayed = self._delayed.pop(report.run_id, None)
        if delayed is not None and isinstance(report, Exited):
            report = report._replace(pid=delayed[1].pid, started_at=delayed[1].started_at)
        elif delayed is not None:
            self._reports.append(delayed[1])
        self._reports.append(report)

    def timeout_ms(self) -> int | None:
        """How long `flush` has nothing to send; None: until the next report."""
        for due, _ in self._delayed.values():
            return max(0, int((due - time.monotonic()) * 1000) + 1)
        return None

    def flush(self) -> None:
        """Sends what is due. If the daemon is gone, `receive` notices."""
        if self._delayed:
            self._send_overdue(time.monotonic())
        if not self._reports:
            return
        left, self._reports = encode(self._reports), []
        with suppress(OSError):
            while left:
                left = left[os.write(self.handle, left) :]

    def _send_overdue(self, now: float) -> None:
        for run_id in [run_id for run_id, (due, _) in self._delayed.items() if due <= now]:
            self._reports.append(self._delayed.pop(run_id)[1])
