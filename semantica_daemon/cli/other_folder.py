"""Notices a daemon that uses another data folder than this shell would: another HOME, the same socket."""

import os
import shlex

from semantica_daemon.cli.command import Json, Terminal
from semantica_daemon.client import daemon_lock
from semantica_daemon.client.client import Client
from semantica_daemon.paths import Paths, printable


def sentence(in_force: Json, paths: Paths) -> str:
    """Empty when the daemon, whose admin.config is given, has the data folder that this shell would use."""
    of_daemon, of_shell = in_force["paths"]["data"], printable(paths.data)
    if os.path.realpath(of_daemon) == os.path.realpath(of_shell):
        return ""
    return f"the daemon on {printable(paths.socket)} uses the data folder {of_daemon}, this shell would use {of_shell}"


def hint(paths: Paths) -> str:
    return f"SEMANTICA_HOME={shlex.quote(printable(paths.data))} gives this shell a daemon of its own"


def warn(client: Client, terminal: Terminal) -> None:
    """Before a job is added. A caller that names the socket has chosen the daemon."""
    if "SEMANTICA_SOCKET" in os.environ or daemon_lock.is_held(terminal.paths.lock):
        return
    if text := sentence(client.call("admin.config"), terminal.paths):
        terminal.note(f"{text}; {hint(terminal.paths)}")
