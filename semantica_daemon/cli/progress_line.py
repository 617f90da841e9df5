"""The progress of a job on the last line of a terminal, for `semantica run`. It is erased before anything else is
written, and drawn again when the cursor is at the beginning of a line."""

import os
import sys
from collections.abc import Callable

from semantica_daemon.cli import format
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client import output
from semantica_daemon.client.client import Client
from semantica_daemon.client.json_types import Json
from semantica_daemon.client.results import Event

ERASE = "\r\x1b[K"
# The last two end an attempt; job.started may come after the first report.
EVENTS = ["job.progress", "job.retrying", "job.requeued"]
FIELDS = ("percent", "phase", "items_completed", "items_total", "message")


def with_progress_line(
    client: Client, terminal: Terminal, job_id: str, show: Callable[[Json], None]
) -> Callable[[Json], None]:
    """Returns `show`, which writes a reply of job.logs, with a progress line below what it writes; `show` itself when
    stderr is not a terminal."""
    if terminal.quiet or not sys.stderr.isatty():
        return show
    line = ProgressLine()
    terminal.before_note = line.erase
    client.listen(line.update, job_id=job_id, since=0, event_types=EVENTS)

    def show_above(reply: Json) -> None:
        if reply["chunk"]:
            line.erase()
            show(reply)
            *_, (_, last) = output.pieces(reply)
            line.is_at_start = last.endswith(b"\n")
        if reply["eof"]:
            line.erase()
        else:
            line.draw()

    return show_above


class ProgressLine:
    def __init__(self) -> None:
        self.is_at_start = True  # whether the cursor is at the beginning of a line
        self._progress: Json = dict.fromkeys(FIELDS)
        self._is_drawn = False

    def update(self, event: Event) -> None:
        """A report changes the fields that it has; each attempt begins without a report."""
        if event["event_type"] == "job.progress":
            self._progress |= {name: event["payload"][name] for name in FIELDS if event["payload"][name] is not None}
            self.draw()
        else:
            self._progress = dict.fromkeys(FIELDS)
            self.erase()

    def draw(self) -> None:
        text = format.clean(format.progress(self._progress))
        if text and self.is_at_start:
            self._write(ERASE + text[: _columns() - 1])
            self._is_drawn = True

    def erase(self) -> None:
        if self._is_drawn:
            self._write(ERASE)
            self._is_drawn = False

    def _write(self, text: str) -> None:
        """Ignores errors: a closed terminal must not end the command."""
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):
            return


def _columns() -> int:
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80
