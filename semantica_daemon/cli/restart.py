"""`semantica restart`: stops the daemon and starts it again, by its service when one is installed."""

from semantica_daemon.cli import stop
from semantica_daemon.cli.command import Any, Command, Terminal
from semantica_daemon.cli.wait import TIMEOUT
from semantica_daemon.client.client import Client


def run(arguments: Any, terminal: Terminal) -> None:
    was_running = stop.stop_daemon(terminal, arguments.timeout)
    reports: list[str] = []

    def report(text: str) -> None:
        reports.append(text)
        terminal.note(text)

    with Client(terminal.paths, report=report) as client:
        pid = client.call("admin.stats")["system"]["pid"]
    by_another = not any(text.startswith("started the daemon") for text in reports)
    text = f"the daemon is running again (process {pid})"
    terminal.show({"stopped": was_running, "pid": pid}, draw=lambda: terminal.note(text) if by_another else None)


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
