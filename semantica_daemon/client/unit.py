"""The daemon as a unit of systemd or launchd: where its files are, whether they are for this user's paths, and the
commands of the manager. `autostart` starts it when it is installed, `cli/service.py` installs it."""

import os
import subprocess
import sys
from collections.abc import Sequence

from semantica_daemon.paths import Paths

IS_MACOS = sys.platform == "darwin"
NAME = "semantica.service"
SOCKET_NAME = "semantica.socket"
LABEL = "semantica.daemon"
LISTEN = "ListenStream="
QUERY_TIMEOUT_S = 10.0
CHANGE_TIMEOUT_S = 660.0  # more than TimeoutStartSec of the unit, for which `systemctl start` waits
NOT_RUN = 127  # the return code of a command that could not be run, or took too long

Command = Sequence[str]


def folder() -> str:
    """Where the manager reads the units of this user."""
    if IS_MACOS:
        return os.path.expanduser("~/Library/LaunchAgents")
    given = os.environ.get("XDG_CONFIG_HOME", "")
    return f"{given if given.startswith('/') else os.path.expanduser('~/.config')}/systemd/user"


def files() -> list[str]:
    names = [f"{LABEL}.plist"] if IS_MACOS else [SOCKET_NAME, NAME]
    return [f"{folder()}/{name}" for name in names]


def installed_socket() -> str:
    """The socket of the installed unit; empty when none is installed."""
    try:
        with open(files()[0], "rb") as file:
            content = file.read()
    except OSError:
        return ""
    if IS_MACOS:
        import plistlib  # noqa: PLC0415

        return str(plistlib.loads(content).get("EnvironmentVariables", {}).get("SEMANTICA_SOCKET", ""))
    lines = os.fsdecode(content).splitlines()
    return next((line.removeprefix(LISTEN) for line in lines if line.startswith(LISTEN)), "").replace("%%", "%")


def is_installed(paths: Paths) -> bool:
    """Whether a unit is installed that starts the daemon of these paths."""
    return installed_socket() == paths.socket


def domain() -> str:
    """The name of this user's session at launchd."""
    return f"gui/{os.getuid()}"


def enabling() -> list[Command]:
    """The commands that make the manager start the unit at login."""
    if IS_MACOS:
        return [("launchctl", "bootstrap", domain(), files()[0])]
    return [*rereading(), ("systemctl", "--user", "enable", "--quiet", NAME)]


def starting() -> list[Command]:
    """systemd refuses a unit that has failed too often until it is reset."""
    if IS_MACOS:
        return [("launchctl", "kickstart", f"{domain()}/{LABEL}")]
    return [("systemctl", "--user", "reset-failed", NAME, SOCKET_NAME), ("systemctl", "--user", "start", NAME)]


def removing() -> list[Command]:
    """The commands that stop the unit; its files can then be removed."""
    if IS_MACOS:
        return [("launchctl", "bootout", f"{domain()}/{LABEL}")]
    return [("systemctl", "--user", "disable", "--quiet", "--now", SOCKET_NAME, NAME)]


def rereading() -> list[Command]:
    """The commands after which the manager knows that files were written or removed."""
    return [] if IS_MACOS else [("systemctl", "--user", "daemon-reload")]


def is_reachable() -> bool:
    """Whether this user's manager answers: it is not there in a container, or while the user is not logged in."""
    command = ("launchctl", "print", domain()) if IS_MACOS else ("systemctl", "--user", "show", "--property=Version")
    return run(command, QUERY_TIMEOUT_S).returncode == 0


def properties(*names: str) -> dict[str, str]:
    """Properties of the service as systemd knows it; empty where systemd does not answer."""
    wanted = [f"--property={name}" for name in names]
    found = run(("systemctl", "--user", "show", *wanted, NAME), QUERY_TIMEOUT_S).stdout
    return {name: value for name, _, value in (line.partition("=") for line in found.splitlines())}


def run(command: Command, timeout_s: float) -> "subprocess.CompletedProcess[str]":
    env = {"XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}", **os.environ}  # a cron job does not have it
    try:
        return subprocess.run(
            command, env=env, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", errors="replace",
            timeout=timeout_s, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return subprocess.CompletedProcess(command, NOT_RUN, "", f"{command[0]}: {error}")
