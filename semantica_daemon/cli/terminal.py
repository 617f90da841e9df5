"""The output of a command: data to stdout, notes to stderr, as --json and --quiet ask for it."""

import json
import os
import sys
from collections.abc import Callable, Iterable

from semantica_daemon import paths
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.format import clean
from semantica_daemon.cli.wakeup import wakeup
from semantica_daemon.client.client import Client
from semantica_daemon.client.exit_codes import INTERNAL
from semantica_daemon.client.json_types import Any


class Terminal:
    def __init__(self, as_json: bool = False, quiet: bool = False, autostart: bool = True) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.autostart = autostart
        self.paths = paths.find(os.environ)
        self.before_note: Callable[[], None] = lambda: None  # erases a progress line

    def client(self) -> Client:
        return Client(self.paths, self.autostart, self.note, wakeup())

    def call(self, method: str, /, **params: Any) -> Any:
        """One call over a connection of its own."""
        with self.client() as client:
            return client.call(method, **params)

    def show(self, result: Any, ids: Iterable[str] = (), draw: Callable[[], None] | None = None) -> None:
        """Prints a result: as JSON with --json, else its ids with --quiet or without `draw`, else by `draw`."""
        if self.as_json:
            self.print_json(result)
        elif draw is not None and not self.quiet:
            draw()
        else:
            for one in ids:
                self.print(one)

    def print(self, text: str) -> None:
        """A line of data."""
        write(text + "\n")

    def print_json(self, value: Any, lines: bool = False) -> None:
        """Indented on a terminal, else on one line. `lines`: one of several documents, flushed at once."""
        indented = sys.stdout.isatty() and not lines
        text = json.dumps(value, indent=2 if indented else None, ensure_ascii=not indented)
        self.print(_escaped(text) if indented else text)
        if lines:
            self.flush()

    def clear(self) -> None:
        """Clears the screen before data that replaces the data shown before; off a terminal nothing is cleared."""
        if sys.stdout.isatty():
            write("\x1b[H\x1b[J")
            self.flush()

    def flush(self) -> None:
        sys.stdout.flush()

    newline = "\n"  # of a note; a terminal in raw mode needs more

    def note(self, text: str) -> None:
        """A sentence on stderr, unless --quiet is given."""
        if not self.quiet:
            self.before_note()
            print_error(text, newline=self.newline)


def _escaped(text: str) -> str:
    """JSON in which characters that move the cursor or change the direction of text are escaped."""
    if text.replace("\n", "").isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def write(text: str) -> None:
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise cannot_write(error) from None


def cannot_write(error: OSError) -> CommandFailed:
    return CommandFailed(f"cannot write to stdout: {error.strerror}", exit_code=INTERNAL)


def print_error(text: str, hint: str = "", newline: str = "\n") -> None:
    """To stderr. Errors of the streams are ignored: a closed terminal must not change what the command does."""
    lines = [f"semantica: {clean(text)}", *([f"  {clean(hint)}"] if hint else [])]
    for stream, data in ((sys.stdout, ""), (sys.stderr, newline.join([*lines, ""]))):
        try:
            stream.write(data)
            stream.flush()
        except RuntimeError:  # this is a signal's handler, which has interrupted a write to the same stream
            os.write(stream.fileno(), data.encode("utf-8", "replace"))
        except (OSError, ValueError):
            continue
