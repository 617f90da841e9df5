"""What a run says, on its way to the writer: one report under way at a time, a bounded number of lines behind it.

A handler that says more than can be stored loses lines, and a line says how many; progress is merged, newest wins.
"""

import asyncio
import threading
from typing import Any

import msgspec

from semantica_daemon.engine.commands import CommandQueue
from semantica_daemon.store.database import Command
from semantica_daemon.store.transition import Running
from semantica_daemon.store.writes.report import Line, Report, report
from semantica_daemon.wire.run import Progress

MOST_LINES = 1000
FEW = 20  # lines that may be written on the loop
LONGEST_LINE = 65_536


class Reporter:
    def __init__(self, run: Running, commands: CommandQueue, loop: asyncio.AbstractEventLoop) -> None:
        self._run = run
        self._commands = commands
        self._loop = loop
        self._lock = threading.Lock()
        self._lines: list[Line] = []
        self._dropped = 0
        self._progress: Progress | None = None
        self._under_way = False

    def line(self, line: Line) -> None:
        with self._lock:
            if len(self._lines) < MOST_LINES:
                self._lines.append(line)
            else:
                self._dropped += 1
        self._nudge()

    def progress(self, progress: Progress) -> None:
        with self._lock:
            self._progress = progress if self._progress is None else _merged(self._progress, progress)
        self._nudge()

    def flush(self) -> None:
        """On the loop: send what is left, before the end of the run is."""
        self._submit(*self._take())

    def _nudge(self) -> None:
        with self._lock:
            if self._under_way:
                return
            self._under_way = True
        self._loop.call_soon_threadsafe(self._send)

    def _send(self) -> None:
        if not self._submit(*self._take()):
            with self._lock:
                self._under_way = False

    def _submit(self, lines: tuple[Line, ...], progress: Progress | None) -> bool:
        if not lines and progress is None:
            return False
        command = Command(report, Report(self._run, lines, progress))
        self._commands.submit(command, self._sent, must_commit=True, slow=len(lines) > FEW)
        return True

    def _sent(self, result: Any) -> None:
        self._send()

    def _take(self) -> tuple[tuple[Line, ...], Progress | None]:
        with self._lock:
            lines, progress, dropped = tuple(self._lines), self._progress, self._dropped
            self._lines, self._progress, self._dropped = [], None, 0
        if dropped:
            lines += (Line(f"{dropped} lines came faster than they could be stored and were dropped", "warn"),)
        return lines, progress


def storable(text: str) -> str:
    """Text that SQLite and JSON both take: no lone surrogates, and not endless."""
    return text[:LONGEST_LINE].encode("utf-8", "replace").decode()


def _merged(old: Progress, new: Progress) -> Progress:
    given = {name: value for name, value in msgspec.structs.asdict(new).items() if value is not None}
    return msgspec.structs.replace(old, **given)
