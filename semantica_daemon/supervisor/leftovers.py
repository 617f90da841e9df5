"""Names the processes that a command has left running, for its log."""

import os
import time

from semantica_daemon.processes.table import Process, read_file

MOST_NAMED = 10
LONGEST_NAME = 60
LOOKS, LOOK_EVERY_S = 5, 0.002


def sentence(argv: list[str], left: list[Process]) -> str:
    """`argv`: of the command that has left them."""
    names = [f"{_command_of(process, argv)} ({process.pid})" for process in left[:MOST_NAMED]]
    names += ["…"] if len(left) > MOST_NAMED else []
    count = "1 process running, which was" if len(left) == 1 else f"{len(left)} processes running, which were"
    return f"the command left {count} ended: {', '.join(names)}"


def _command_of(process: Process, argv: list[str]) -> str:
    """The command line of the process. Between fork and exec it is still that of the shell that made the process, so it
    is read again for a moment."""
    of_parent = [os.fsencode(word) for word in argv]
    for look in range(LOOKS):
        words = read_file(f"/proc/{process.pid}/cmdline").rstrip(b"\0").split(b"\0")
        if words != of_parent:
            break
        if look < LOOKS - 1:
            time.sleep(LOOK_EVERY_S)
    text = b" ".join(words).decode("utf-8", "replace") or process.name
    text = "".join(char if char.isprintable() else " " for char in text)
    return text if len(text) <= LONGEST_NAME else f"{text[: LONGEST_NAME - 1]}…"
