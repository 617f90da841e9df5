"""`semantica service`: installs, shows and uninstalls the daemon as a service of systemd or launchd, which start it at
login; prints its log. `client/unit.py` has the commands of the manager, `unit_files.py` the files."""

import contextlib
import os
import pwd
import shlex

from semantica_daemon import prose
from semantica_daemon.cli import stop, tables, unit_files
from semantica_daemon.cli.command import Any, Command, Option, Subcommands, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.parser import positive
from semantica_daemon.client import daemon_lock, unit
from semantica_daemon.client.client import Client
from semantica_daemon.client.exit_codes import CONFIGURATION, NO_DAEMON, TEMPORARY
from semantica_daemon.paths import printable

MANAGER = "launchd" if unit.IS_MACOS else "systemd"
NOT_REACHABLE = f"{MANAGER} does not answer for this user"
LOG_IN = f"log in as this user on a machine that runs {MANAGER}; `semantica` also works without a service"
LINGER = "it starts when you log in; `loginctl enable-linger` lets it start when the machine starts"
SHOWN_LINES = 50


def show_status(arguments: Any, terminal: Terminal) -> None:
    is_installed = unit.is_installed(terminal.paths)
    found = {"manager": MANAGER, "installed": is_installed, "files": [printable(file) for file in unit.files()]}
    if is_installed:
        found |= {"up_to_date": unit_files.are_current(terminal.paths), "reachable": unit.is_reachable()}
        found |= _seen_by_systemd()
    terminal.show(found, draw=lambda: tables.pairs((name, _text(value)) for name, value in found.items()))
    if not is_installed:
        terminal.note("no service is installed for this daemon; `semantica service install` installs one")
    elif not found["up_to_date"]:
        terminal.note("the files are of another version or place; `semantica service install` writes them again")


def _seen_by_systemd() -> dict[str, object]:
    if unit.IS_MACOS:
        return {}
    seen = unit.properties("ActiveState", "UnitFileState", "StatusText")
    return {
        "state": seen.get("ActiveState", "unknown"),
        "starts_at_login": seen.get("UnitFileState") == "enabled",
        "status": seen.get("StatusText", ""),
    }


def _text(value: object) -> object:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(value) if isinstance(value, list) else value


def install(arguments: Any, terminal: Terminal) -> None:
    if arguments.print:
        return _print_files(terminal)
    other = unit.installed_socket()
    if other and other != terminal.paths.socket:
        hint = "`semantica service uninstall`, with the SEMANTICA_HOME of that daemon, removes it"
        raise CommandFailed(f"a service for the daemon on {printable(other)} is installed", hint, CONFIGURATION)
    _need_manager()
    for path, text in unit_files.rendered(terminal.paths).items():
        unit_files.write(path, text)
    _run_all(unit.enabling())
    if (jobs := _running_jobs(terminal)) > 0:
        terminal.note(
            f"installed; {prose.count(jobs, 'running job')}: `semantica restart` moves the daemon to {MANAGER}"
        )
        return
    stop.stop_daemon(terminal, None)
    with Client(terminal.paths, report=terminal.note):
        terminal.note(f"installed: {MANAGER} runs the daemon")
    if not unit.IS_MACOS and not os.path.exists(f"/var/lib/systemd/linger/{pwd.getpwuid(os.getuid()).pw_name}"):
        terminal.note(LINGER)


def _running_jobs(terminal: Terminal) -> int:
    """Of a daemon that is running already; 0 when there is none."""
    if not daemon_lock.is_held(terminal.paths.lock):
        return 0
    with Client(terminal.paths, autostart=False) as client:
        return int(client.call("admin.stats")["system"]["running"])


def uninstall(arguments: Any, terminal: Terminal) -> None:
    if arguments.print:
        removed = [("rm", printable(file)) for file in unit.files()]
        for command in [*unit.removing(), *removed, *unit.rereading()]:
            terminal.print(shlex.join(command))
        return
    if not unit.is_installed(terminal.paths):
        raise CommandFailed("no service is installed for this daemon", "", NO_DAEMON)
    _need_manager()
    _run_all(unit.removing())
    for file in unit.files():
        with contextlib.suppress(FileNotFoundError):
            os.remove(file)
    _run_all(unit.rereading())
    terminal.note("uninstalled; the jobs are kept, and the next command that needs the daemon starts it")


def logs(arguments: Any, terminal: Terminal) -> None:
    """The daemon logs to the same file whether a service or a command has started it."""
    if not os.path.exists(terminal.paths.log):
        raise CommandFailed(
            f"there is no log yet: {printable(terminal.paths.log)}", "the daemon has not run", NO_DAEMON
        )
    os.execvp("tail", ["tail", "-n", str(arguments.lines), *(["-F"] if arguments.follow else []), terminal.paths.log])


def _print_files(terminal: Terminal) -> None:
    for path, text in unit_files.rendered(terminal.paths).items():
        terminal.print(f"# {printable(path)}\n{text}")
    for command in [*unit.enabling(), *unit.starting()]:
        terminal.print(f"# {shlex.join(command)}")


def _need_manager() -> None:
    if not unit.is_reachable():
        raise CommandFailed(NOT_REACHABLE, LOG_IN, TEMPORARY)


def _run_all(commands: "list[unit.Command]") -> None:
    for command in commands:
        if (done := unit.run(command, unit.CHANGE_TIMEOUT_S)).returncode:
            raise CommandFailed(
                f"{shlex.join(command)}: {done.stderr.strip()}", "`semantica service status`", TEMPORARY
            )


PRINT = Option("--print", "print the files and commands, and change nothing")
LINES = Option("-n, --lines N", f"the last N lines ({SHOWN_LINES})", positive, default=SHOWN_LINES)
FOLLOW = Option("-f, --follow", "go on with new lines")
COMMAND = Subcommands(
    "The daemon as a service of systemd or launchd, which start it when you log in.",
    {
        "status": Command("Show whether it is installed and runs.", show_status, [], "semantica service status"),
        "install": Command(
            "Install the service and start it. A daemon with running jobs is left alone until `semantica restart`.",
            install,
            [PRINT],
            "semantica service install --print",
        ),
        "uninstall": Command("Stop the service and remove it.", uninstall, [PRINT], "semantica service uninstall"),
        "logs": Command("Show the log of the daemon.", logs, [LINES, FOLLOW], "semantica service logs -f"),
    },
    """
  semantica service install
  semantica service install --print       what it would do
  semantica service logs -f""",
)
