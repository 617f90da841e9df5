"""Where a command speaks: data to stdout, chatter to stderr, by the options every command has."""

import json
import os
import sys
from collections.abc import Callable

from semantica_daemon import places
from semantica_daemon.client import words
from semantica_daemon.client.codes import INTERNAL
from semantica_daemon.client.connection import Client
from semantica_daemon.client.shapes import Any


class Failed(Exception):
    """A command that ends here: one line that says what is wrong, one that says what to do, and the exit code."""

    def __init__(self, message: str, exit_code: int, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.hint = hint


class Terminal:
    def __init__(self, as_json: bool = False, quiet: bool = False, autostart: bool = True) -> None:
        self.as_json = as_json
        self.quiet = quiet
        self.autostart = autostart
        self.where = places.find(os.environ)

    def client(self) -> Client:
        return Client(self.where, self.autostart, self.chat)

    def data(self, text: str) -> None:
        write(text + "\n")

    def document(self, value: Any, lines: bool = False) -> None:
        """JSON: indented for a person who looks at it, else one line; `lines`: one of several, for who reads along."""
        person = sys.stdout.isatty() and not lines
        indent = 2 if person else None
        self.data(json.dumps(value, indent=indent, ensure_ascii=not person))
        if lines:
            self.flush()

    def flush(self) -> None:
        """For those who read along."""
        sys.stdout.flush()

    def chat(self, text: str) -> None:
        if not self.quiet:
            complain(text)


def write(text: str) -> None:
    try:
        sys.stdout.write(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unwritable(error) from None


def unwritable(error: OSError) -> Failed:
    return Failed(f"cannot write to stdout: {error.strerror}", INTERNAL)


def complain(text: str, hint: str = "") -> None:
    """To stderr, in whatever state it is: a terminal that is gone must not change what happens."""
    _try_to(sys.stdout.flush)
    lines = [f"semantica: {words.clean(text)}", *([f"  {words.clean(hint)}"] if hint else [])]
    _try_to(lambda: sys.stderr.write("\n".join([*lines, ""])))
    _try_to(sys.stderr.flush)


def _try_to(step: Callable[[], object]) -> None:
    try:
        step()
    except (OSError, ValueError):
        return
