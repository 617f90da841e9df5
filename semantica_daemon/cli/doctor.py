"""`semantica doctor`: checks one thing after another and says what to do. Works where no daemon can start."""

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator

from semantica_daemon import PROTOCOL, VERSION, prose
from semantica_daemon.cli import config_check, format, machine
from semantica_daemon.cli.command import Command
from semantica_daemon.cli.parser import Namespace, Parser
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client import daemon_lock
from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import CallRefused, ConnectionLost, NoDaemon
from semantica_daemon.client.exit_codes import CONFIGURATION, NO_DAEMON
from semantica_daemon.client.json_types import Json
from semantica_daemon.paths import LONGEST_SOCKET, Paths, printable

OK, WARN, FAIL = "ok", "warn", "FAIL"
OLDEST_PYTHON = (3, 11)
ENOUGH_FREE = 200_000_000
CANARY_S = 15

Finding = tuple[str, str, str, str]  # verdict, check, what was seen, hint


def run(arguments: Namespace, terminal: Terminal) -> int:
    found: list[Finding] = []
    for finding in _findings(terminal.paths, arguments.start):
        found.append(finding)
        if not terminal.as_json:
            _print_finding(finding, terminal)
    if terminal.as_json:
        names = ("verdict", "check", "seen", "hint")
        terminal.print_json({"checks": [dict(zip(names, finding, strict=True)) for finding in found]})
    return 1 if any(finding[0] == FAIL for finding in found) else 0


def _print_finding(finding: Finding, terminal: Terminal) -> None:
    verdict, what, seen, hint = finding
    if verdict == OK and terminal.quiet:
        return
    terminal.print(f"{verdict:<4}  {what}: {seen}" + (f"\n      → {hint}" if hint else ""))
    terminal.flush()


def _findings(paths: Paths, start: bool) -> Iterator[Finding]:
    yield _python()
    yield from _folders(paths)
    yield _socket_path(paths)
    yield _config_file(paths)
    yield _disk(paths)
    try:
        client = Client(paths, autostart=start)
    except NoDaemon as missing:
        yield _no_daemon(paths, missing)
        return
    with client:
        yield from _daemon(client)


def _python() -> Finding:
    version = tuple(sys.version_info[:3])
    if version < OLDEST_PYTHON:
        return FAIL, "python", f"{_dotted(version)} is too old", f"use Python {_dotted(OLDEST_PYTHON)} or newer"
    return OK, "python", f"{_dotted(version)} at {sys.executable}", ""


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _folders(paths: Paths) -> Iterator[Finding]:
    folders = {"data folder": paths.data, "socket folder": os.path.dirname(paths.socket)}
    for what, folder in {**folders, "log folder": os.path.dirname(paths.log)}.items():
        yield _folder(what, folder, private=what != "log folder")


def _folder(what: str, folder: str, private: bool) -> Finding:
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return OK, what, f"{printable(folder)} (created when it is needed)", ""
    except OSError as error:
        return FAIL, what, f"{printable(folder)}: {error.strerror}", "make it readable for you, or set SEMANTICA_HOME"
    if not stat.S_ISDIR(found.st_mode) and private:
        return FAIL, what, f"{printable(folder)} is not a folder", "remove it, or set SEMANTICA_HOME to another place"
    if found.st_uid != os.getuid() and private:
        return (
            FAIL,
            what,
            f"{printable(folder)} belongs to user {found.st_uid}",
            "set SEMANTICA_HOME to a folder of yours",
        )
    if found.st_mode & 0o022 and private:
        return FAIL, what, f"others can write to {printable(folder)}", f"chmod go-w {printable(folder)}"
    if not os.access(folder, os.W_OK | os.X_OK):
        return FAIL, what, f"{printable(folder)} cannot be written to", f"chmod u+rwx {printable(folder)}"
    return OK, what, printable(folder), ""


def _socket_path(paths: Paths) -> Finding:
    length = len(os.fsencode(paths.socket))
    if length > LONGEST_SOCKET:
        seen = f"{length} bytes, the system takes {LONGEST_SOCKET}: {printable(paths.socket)}"
        return FAIL, "socket path", seen, "set SEMANTICA_SOCKET to a shorter path"
    return OK, "socket path", printable(paths.socket), ""


def _config_file(paths: Paths) -> Finding:
    path = printable(paths.config)
    if not os.path.lexists(paths.config):
        return OK, "config file", f"none at {path}; the defaults are used", ""
    problem = config_check.problem(paths)
    if problem:
        return FAIL, "config file", problem, "correct the file, or move it away to use the defaults"
    return OK, "config file", path, ""


def _disk(paths: Paths) -> Finding:
    folder = paths.data
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    if free < ENOUGH_FREE:
        verdict = FAIL if free < ENOUGH_FREE // 10 else WARN
        return (
            verdict,
            "disk",
            f"{format.size(free)} free at {printable(folder)}",
            "free some space: jobs need it for their logs",
        )
    return OK, "disk", f"{format.size(free)} free", ""


def _no_daemon(paths: Paths, missing: NoDaemon) -> Finding:
    """No daemon is only a warning: the next command starts one."""
    if missing.exit_code == CONFIGURATION:
        return FAIL, "daemon", missing.message, ""
    if missing.exit_code != NO_DAEMON:
        return FAIL, "daemon", missing.message, f"see its log: {printable(paths.log)}"
    if _is_held(paths):
        hint = f"wait a moment and try again; its log: {printable(paths.log)}"
        return FAIL, "daemon", "one is running and does not answer", hint
    return WARN, "daemon", "none is running", "`semantica doctor --start` starts one and tests it"


def _is_held(paths: Paths) -> bool:
    try:
        return daemon_lock.is_held(paths.lock)
    except OSError:
        return False


def _daemon(client: Client) -> Iterator[Finding]:
    """What the daemon reports about itself, and one job of each kind as a test."""
    try:
        health = client.call("admin.health")
        yield _ready(health)
        yield _same_version(health)
        yield _storage(health)
        yield _check_config(client)
        yield from _machine(client)
        yield from _check_pauses(client)
        yield _canary("a handler", lambda: _noop(client))
        yield _canary("a command", lambda: client.run(["true"], cwd="/", **CANARY))
    except (CallRefused, ConnectionLost) as error:
        yield FAIL, "daemon", str(error), "`semantica stop`, and try again"


CANARY: Json = {"queue": "semantica.doctor", "user_tag": "doctor", "priority": 100, "ttl_ms": CANARY_S * 1000}
CANARY |= {"timeout_ms": CANARY_S * 1000}


def _noop(client: Client) -> Json:
    return client.wait(client.enqueue("semantica.noop", **CANARY)["job_id"], 2 * CANARY_S)


def _ready(health: Json) -> Finding:
    seen = f"{health['status']}, up {prose.duration(health['uptime_ms'])}"
    return (OK, "daemon", seen, "") if health["status"] == "ready" else (WARN, "daemon", seen, "")


def _same_version(health: Json) -> Finding:
    seen = f"daemon {health['version']}, this command {VERSION}"
    hint = "`semantica stop`: the next command starts the daemon of its own version"
    if health["protocol"] != PROTOCOL:
        return FAIL, "version", f"{seen}; their protocols are {health['protocol']} and {PROTOCOL}", hint
    return (OK, "version", seen, "") if health["version"] == VERSION else (WARN, "version", seen, hint)


def _storage(health: Json) -> Finding:
    trouble = health["parts"]["writer"]["trouble"]
    if trouble:
        return (
            FAIL,
            "database",
            f"cannot be written to: {trouble}",
            "free some space on the disk; the daemon then goes on by itself",
        )
    return OK, "database", f"{health['parts']['writer']['batches']} commits, no trouble", ""


def _check_config(client: Client) -> Finding:
    found = client.call("admin.config")
    slots = found["daemon"]["max_slots"] or "one for each core"
    return (
        OK,
        "configuration",
        f"slots: {slots}, handlers: {', '.join(found['handlers']) or 'only the built-in ones'}",
        "",
    )


def _machine(client: Client) -> Iterator[Finding]:
    """Unknown is only a warning: jobs that need to know keep waiting."""
    found = client.call("machine.get")
    hint = "jobs with --when-idle wait until it is known: `semantica machine` shows the sources"
    yield (OK, "idle", machine.idle(found), "") if found["idle"] is not None else (WARN, "idle", "not known", hint)
    yield OK, "power", machine.power(found), ""


def _check_pauses(client: Client) -> Iterator[Finding]:
    queues = [queue["queue"] for queue in client.call("queue.list")["queues"] if queue["paused"]]
    if queues:
        yield WARN, "queues", f"paused: {', '.join(queues)}", "`semantica queue resume` resumes them"


def _canary(what: str, run: Callable[[], Json]) -> Finding:
    try:
        job = run()
    except TimeoutError as error:
        return FAIL, what, str(error), "`semantica status` shows what is running"
    if job["state"] == "DONE":
        return OK, what, f"ran in {prose.duration(job['finished_at'] - job['created_at'])}", ""
    if job["state"] == "SKIPPED_TTL":
        return WARN, what, "no slot became free for it", "`semantica status` shows what is running"
    return FAIL, what, f"{job['state']}: {(job['error'] or {}).get('message', '')}", f"semantica show {job['job_id']}"


def options(parser: Parser) -> None:
    parser.add_argument("--start", action="store_true", help="start the daemon when there is none, and test it")


COMMAND = Command(
    "Check whether everything works, and say what to do where it does not. Exit code 1 when something FAILs. "
    "Starts no daemon without --start.",
    run,
    options,
    """
  semantica doctor
  semantica doctor --start

With --json: {"checks": [{"verdict": "ok" | "warn" | "FAIL", "check": …, "seen": …, "hint": …}]}.""",
)
