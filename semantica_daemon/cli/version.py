"""`semantica version`: the version of this command and of its protocol. Needs no daemon."""

from semantica_daemon import PROTOCOL, VERSION
from semantica_daemon.cli.command import Command
from semantica_daemon.cli.parser import Namespace
from semantica_daemon.cli.terminal import Terminal


def run(arguments: Namespace, terminal: Terminal) -> int:
    if terminal.as_json:
        terminal.print_json({"version": VERSION, "protocol": PROTOCOL})
    else:
        terminal.print(f"semantica {VERSION}" if terminal.quiet else f"semantica {VERSION} (protocol {PROTOCOL})")
    return 0


COMMAND = Command("Show the version of this command and its protocol.", run)
