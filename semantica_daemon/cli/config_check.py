"""Checks the configuration file as the daemon does when it starts, in a process of its own: `semanticad --check`."""

import subprocess
import sys

from semantica_daemon.client.autostart import daemon_environment
from semantica_daemon.paths import Paths

CHECK_TIMEOUT_S = 30
PREFIX = "semanticad: "


def problem(paths: Paths) -> str:
    """The daemon's sentence about what is wrong with the file; empty when it accepts the file."""
    command = [sys.executable, "-P", "-m", "semantica_daemon", "--check", "--config", paths.config]
    try:
        done = subprocess.run(
            command, cwd="/", env=daemon_environment(paths), stdin=subprocess.DEVNULL, capture_output=True,
            timeout=CHECK_TIMEOUT_S, encoding="utf-8", errors="replace", check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it could not be checked: {error}"
    if done.returncode == 0:
        return ""
    lines = done.stderr.splitlines() or [f"the check ended with exit code {done.returncode}"]
    return next((line.removeprefix(PREFIX) for line in lines if line.startswith(PREFIX)), lines[-1])
