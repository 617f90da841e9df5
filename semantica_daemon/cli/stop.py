"""`semantica stop`: stops the daemon and returns when it is gone."""

from semantica_daemon import prose
from semantica_daemon.cli.command import Any, Command, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.wait import TIMEOUT
from semantica_daemon.client import daemon_lock
from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import NoDaemon
from semantica_daemon.client.exit_codes import NO_DAEMON, TIMED_OUT

UNRESPONSIVE_MS = 10_000


def run(arguments: Any, terminal: Terminal) -> None:
    was_running = stop_daemon(terminal, arguments.timeout)
    text = "the daemon has stopped" if was_running else "no daemon is running"
    terminal.show({"stopped": was_running}, draw=lambda: terminal.note(text))


def stop_daemon(terminal: Terminal, timeout_ms: int | None) -> bool:
    """Returns when the daemon is gone, which is when its lock is free: whether one was running."""
    try:
        client = Client(terminal.paths, autostart=False)
    except NoDaemon as missing:
        return _without_connection(terminal, missing, timeout_ms or UNRESPONSIVE_MS)
    with client:
        system = client.call("admin.stats")["system"]
        grace = prose.duration(client.call("admin.config")["daemon"]["grace_ms"])
        client.call("admin.shutdown", reason="semantica stop")
    if system["running"]:
        terminal.note(f"ending {prose.count(system['running'], 'running job')} (SIGTERM, SIGKILL after {grace})…")
    if not daemon_lock.wait_until_free(terminal.paths.lock, timeout_ms, system["pid"]):
        late = prose.duration(timeout_ms or 0)
        raise CommandFailed(f"the daemon is still running after {late}", "`semantica stop` waits for it", TIMED_OUT)
    return True


def _without_connection(terminal: Terminal, missing: NoDaemon, timeout_ms: int) -> bool:
    if missing.exit_code != NO_DAEMON:
        raise missing
    if not daemon_lock.is_held(terminal.paths.lock):
        return False
    terminal.note("a daemon is running and does not answer, because it is starting or stopping; waiting")
    if not daemon_lock.wait_until_free(terminal.paths.lock, timeout_ms):
        raise CommandFailed("the daemon neither answers nor stops", "try again, or run `semantica doctor`", NO_DAEMON)
    return True


COMMAND = Command(
    "Stop the daemon. Running jobs are ended and recorded as FAILED, unless they have attempts left or "
    "`--on-interrupt requeue`; waiting jobs are kept.",
    run,
    [TIMEOUT],
    """
  semantica stop
  semantica stop --timeout 30s

With --json: {"stopped": true}, or false when none was running.""",
)
