"""`semantica version`: the version of this command and of its protocol. Needs no daemon."""

from semantica_daemon import PROTOCOL, VERSION
from semantica_daemon.cli.command import Any, Command, Terminal


def run(arguments: Any, terminal: Terminal) -> None:
    text = f"semantica {VERSION}" + ("" if terminal.quiet else f" (protocol {PROTOCOL})")
    terminal.show({"version": VERSION, "protocol": PROTOCOL}, [text])


COMMAND = Command("Show the version of this command and its protocol.", run)
