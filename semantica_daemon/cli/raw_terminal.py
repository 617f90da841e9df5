"""This terminal during `semantica run --pty`: every key goes to the job, whose own terminal has the same size.

`stdin` sends the keys and the sizes.
"""

import os
import signal
import termios
import tty
from contextlib import suppress

from semantica_daemon.cli.stdin import StdinSender
from semantica_daemon.cli.terminal import Terminal

USUAL_SIZE = os.terminal_size((80, 24))


class RawTerminal:
    """A context; without a terminal on stdin it changes nothing."""

    def __init__(self, terminal: Terminal, sender: StdinSender | None) -> None:
        self._terminal = terminal
        self._sender = sender
        self._is_used = sender is not None and sender.has_terminal and os.isatty(0)

    def __enter__(self) -> None:
        if self._is_used and self._sender is not None:
            self._saved = termios.tcgetattr(0)
            self._terminal.newline = "\r\n"
            changes, self._changed = os.pipe()
            os.set_blocking(self._changed, False)
            self._sender.start_resizing(changes, size)
            signal.signal(signal.SIGWINCH, self._note_change)
            tty.setraw(0)

    def __exit__(self, *_: object) -> None:
        if self._is_used:
            signal.signal(signal.SIGWINCH, signal.SIG_DFL)
            with suppress(termios.error, OSError):  # the terminal was closed
                termios.tcsetattr(0, termios.TCSADRAIN, self._saved)
            self._terminal.newline = "\n"

    def _note_change(self, number: int, frame: object) -> None:
        """Only wakes the thread that sends the size: the next signal may interrupt this handler anywhere."""
        with suppress(BlockingIOError):  # the thread has enough to read
            os.write(self._changed, b"+")


def size() -> tuple[int, int]:
    """Rows and columns of the terminal that one of the standard streams is."""
    for descriptor in (0, 1, 2):
        try:
            found = os.get_terminal_size(descriptor)
        except OSError:
            continue
        if found.lines and found.columns:
            return found.lines, found.columns
    return USUAL_SIZE.lines, USUAL_SIZE.columns
