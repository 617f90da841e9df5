"""What systemd and the daemon exchange: the listening socket that systemd has opened (LISTEN_FDS), and the states that
the daemon reports (sd_notify). Without systemd nothing is exchanged. `client/unit.py` finds and starts the unit."""

import os
import socket
from collections.abc import MutableMapping
from contextlib import suppress

from semantica_daemon.environment import SERVICE_MANAGER
from semantica_daemon.errors import StartRefused

FIRST_DESCRIPTOR = 3

Environment = MutableMapping[str, str]


class Notifier:
    """Sends states such as READY=1 to the address in $NOTIFY_SOCKET. A state that cannot be sent is dropped: the daemon
    works without systemd. `every_ms` is how often systemd's watchdog must receive `alive`, at the latest."""

    def __init__(self, address: str = "", every_ms: int | None = None) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.every_ms = every_ms

    def send(self, *states: str) -> None:
        if not self._address:
            return
        text = "\n".join(state.replace("\n", " ") for state in states)
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)
            sender.sendto(os.fsencode(text), self._address)

    def alive(self, running: int) -> None:
        self.send("WATCHDOG=1", f"STATUS=running jobs: {running}")


def notifier(env: Environment) -> Notifier:
    """By the variables that systemd sets. Half of the watchdog's time, as sd_watchdog_enabled(3) recommends."""
    usec, pid = env.get("WATCHDOG_USEC", ""), env.get("WATCHDOG_PID", str(os.getpid()))
    is_watched = usec.isdecimal() and pid == str(os.getpid())
    return Notifier(env.get("NOTIFY_SOCKET", ""), max(1, int(usec) // 2000) if is_watched else None)


def inherited_socket(env: Environment, path: str) -> socket.socket | None:
    """The socket that systemd listens on; None when it has passed none to this process. Raises StartRefused unless it
    is one Unix socket, bound to the path where clients look for the daemon."""
    if env.get("LISTEN_PID") != str(os.getpid()):
        return None
    hint = "run `semantica service install` again"
    if env.get("LISTEN_FDS") != "1":
        raise StartRefused(f"systemd passed {env.get('LISTEN_FDS')} sockets, the daemon expects one: {hint}")
    try:
        inherited = socket.socket(fileno=FIRST_DESCRIPTOR)
        name = inherited.getsockname()
    except OSError as error:
        raise StartRefused(f"systemd passed no socket in descriptor {FIRST_DESCRIPTOR}: {error}; {hint}") from error
    if inherited.type != socket.SOCK_STREAM or name != path:
        raise StartRefused(f"systemd listens on {name!r}, and clients connect to {path}: {hint}")
    inherited.set_inheritable(False)
    return inherited


def forget(env: Environment) -> None:
    """Removes systemd's variables, so that a process started by a handler does not act as the daemon."""
    for name in [name for name in env if name.startswith(SERVICE_MANAGER)]:
        del env[name]
