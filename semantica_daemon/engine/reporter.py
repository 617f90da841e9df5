"""Sends the log lines and the progress of one run to the writer: one report at a time, with a bounded number of lines
waiting.

Lines beyond the bound are dropped, and one more line has their number. Waiting progress is merged; the newest values
win.
"""

import asyncio
import threading
from typing import Any

import msgspec

from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.store.database import Command
from semantica_daemon.store.run_transition import Running
from semantica_daemon.store.writes.report import Line, Report, report
from semantica_daemon.wire.run import Progress

MAX_LINES = 1000
INLINE_LINES = 20  # more are written in the writer's thread
LONGEST_LINE = 65_536


class Reporter:
    _dropped = 0
    _progress: Progress | None = None
    _is_sending = False

    def __init__(self, run: Running, commands: CommandQueue, loop: asyncio.AbstractEventLoop) -> None:
        self._run = run
        self._commands = commands
        self._loop = loop
        self._lock = threading.Lock()
        self._lines: list[Line] = []

    def line(self, line: Line) -> None:
        with self._lock:
            if len(self._lines) < MAX_LINES:
                self._lines.append(line)
            else:
                self._dropped += 1
        self._send_soon()

    def progress(self, progress: Progress) -> None:
        with self._lock:
            self._progress = progress if self._progress is None else _merged(self._progress, progress)
        self._send_soon()

    def send(self, _: Any = None) -> None:
        """Submits the lines and progress that wait, and after their commit those that have come since. Called on the
        loop; also before the end of the run is submitted."""
        with self._lock:
            self._is_sending = bool(self._lines) or self._progress is not None
            if not self._is_sending:
                return
            lines, progress, dropped = tuple(self._lines), self._progress, self._dropped
            self._lines, self._progress, self._dropped = [], None, 0
        if dropped:
            lines += (Line(f"{dropped} lines came faster than they could be stored and were dropped", "warn"),)
        command = Command(report, Report(self._run, lines, progress))
        self._commands.submit(command, self.send, must_commit=True, slow=len(lines) > INLINE_LINES)

    def _send_soon(self) -> None:
        with self._lock:
            if self._is_sending:
                return
            self._is_sending = True
        self._loop.call_soon_threadsafe(self.send)


def storable(text: str) -> str:
    """Text that SQLite and JSON both accept: without lone surrogates, and of limited length."""
    return text[:LONGEST_LINE].encode("utf-8", "replace").decode()


def _merged(old: Progress, new: Progress) -> Progress:
    given = {name: value for name, value in msgspec.structs.asdict(new).items() if value is not None}
    return msgspec.structs.replace(old, **given)
