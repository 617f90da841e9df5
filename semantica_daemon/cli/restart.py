"""`semantica restart`: stops the daemon and starts it again, by its service when one is installed."""

from semantica_daemon.cli import stop
from semantica_daemon.cli.command import Any, Command, Terminal
from semantica_daemon.cli.wait import TIMEOUT
from semantica_daemon.client.client import Client


def run(arguments: Any, terminal: Terminal) -> None:
    was_running = stop.stop_daemon(terminal, arguments.timeout)
    with Client(terminal.paths, report=terminal.note) as client:
        pid = client.call("admin.stats")["system"]["pid"]
    result = {"stopped": was_running, "pid": pid}
    terminal.show(result, draw=lambda: terminal.note(f"the daemon is running again (process {pid})"))


COMMAND = Command(
    "Stop the daemon and start it again. Running jobs get their grace period; waiting jobs are kept.",
    run,
    [TIMEOUT],
    """
  semantica restart                    after an upgrade or a change of config.toml
  semantica restart --timeout 30s

`semantica retry` runs a job again.
With --json: {"stopped": …, "pid": …}; "stopped" is false when no daemon was running.""",
)
