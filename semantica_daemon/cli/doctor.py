"""`semantica doctor`: checks one thing after another and says what to do. Works where no daemon can start."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress

from semantica_daemon import PROTOCOL, VERSION, prose
from semantica_daemon.cli import config, format, job_table, machine, other_folder
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.client import daemon_lock
from semantica_daemon.client.autostart import daemon_environment
from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import CallRefused, ConnectionLost, NoDaemon
from semantica_daemon.client.exit_codes import CONFIGURATION, NO_DAEMON
from semantica_daemon.client.results import Job
from semantica_daemon.paths import LONGEST_SOCKET, Paths, printable

OK, WARN, FAIL = "ok", "warn", "FAIL"
ENOUGH_FREE = 200_000_000
CONFIG_CHECK_S = 30
CANARY_S = 15
CANARY: Json = {
    "queue": job_table.HIDDEN["except_queue"][0], "user_tag": "doctor", "priority": 100,
    "ttl_ms": CANARY_S * 1000, "timeout_ms": CANARY_S * 1000,
}  # fmt: skip
PREFIX = "semanticad: "
SHOWS_RUNNING = "`semantica status` shows what is running"

Finding = tuple[str, str, str, str]  # verdict, check, what was seen, hint


def run(arguments: Any, terminal: Terminal) -> int:
    found: list[Finding] = []
    for finding in _findings(terminal.paths, arguments.start):
        found.append(finding)
        verdict, what, seen, hint = finding
        if not terminal.as_json and not (verdict == OK and terminal.quiet):
            terminal.print(f"{verdict:<4}  {what}: {seen}" + (f"\n      → {hint}" if hint else ""))
            terminal.flush()
    if terminal.as_json:
        names = ("verdict", "check", "seen", "hint")
        terminal.print_json({"checks": [dict(zip(names, finding, strict=True)) for finding in found]})
    return 1 if any(finding[0] == FAIL for finding in found) else 0


def _findings(paths: Paths, start: bool) -> Iterator[Finding]:
    yield OK, "python", f"{'.'.join(map(str, sys.version_info[:3]))} at {sys.executable}", ""
    yield _folder("data folder", paths.data)
    yield _folder("socket folder", os.path.dirname(paths.socket))
    yield _folder("log folder", os.path.dirname(paths.log), is_private=False)
    yield _socket_path(paths)
    yield _config_file(paths)
    yield _disk(paths)
    try:
        client = Client(paths, autostart=start)
    except NoDaemon as missing:
        yield _no_daemon(paths, missing)
        return
    with client:
        yield from _daemon(client, paths)


def _folder(what: str, folder: str, is_private: bool = True) -> Finding:
    path = printable(folder)
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return OK, what, f"{path} (created when it is needed)", ""
    except OSError as error:
        return FAIL, what, f"{path}: {error.strerror}", "make it readable for you, or set SEMANTICA_HOME"
    if is_private and not stat.S_ISDIR(found.st_mode):
        return FAIL, what, f"{path} is not a folder", "remove it, or set SEMANTICA_HOME to another place"
    if is_private and found.st_uid != os.getuid():
        return FAIL, what, f"{path} belongs to user {found.st_uid}", "set SEMANTICA_HOME to a folder of yours"
    if is_private and found.st_mode & 0o022:
        return FAIL, what, f"others can write to {path}", f"chmod go-w {path}"
    if not os.access(folder, os.W_OK | os.X_OK):
        return FAIL, what, f"{path} cannot be written to", f"chmod u+rwx {path}"
    return OK, what, path, ""


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
    if problem := _config_problem(paths):
        return FAIL, "config file", problem, "correct the file, or move it away to use the defaults"
    return OK, "config file", path, ""


def _config_problem(paths: Paths) -> str:
    """What `semanticad --check`, in a process of its own, says about the file; empty when it accepts the file."""
    command = [sys.executable, "-P", "-m", "semantica_daemon", "--check", "--config", paths.config]
    try:
        done = subprocess.run(
            command, cwd="/", env=daemon_environment(paths), stdin=subprocess.DEVNULL, capture_output=True,
            timeout=CONFIG_CHECK_S, encoding="utf-8", errors="replace", check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"it could not be checked: {error}"
    if done.returncode == 0:
        return ""
    lines = done.stderr.splitlines() or [f"the check ended with exit code {done.returncode}"]
    return next((line.removeprefix(PREFIX) for line in lines if line.startswith(PREFIX)), lines[-1])


def _disk(paths: Paths) -> Finding:
    folder = paths.data
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    if free >= ENOUGH_FREE:
        return OK, "disk", f"{format.size(free)} free", ""
    seen, hint = f"{format.size(free)} free at {printable(folder)}", "free some space: jobs need it for their logs"
    return FAIL if free < ENOUGH_FREE // 10 else WARN, "disk", seen, hint


def _no_daemon(paths: Paths, missing: NoDaemon) -> Finding:
    """No daemon is only a warning: the next command starts one."""
    log = printable(paths.log)
    if missing.exit_code != NO_DAEMON:
        return FAIL, "daemon", missing.message, "" if missing.exit_code == CONFIGURATION else f"see its log: {log}"
    with suppress(OSError):  # of a folder that cannot be read, which is reported already
        if daemon_lock.is_held(paths.lock):
            return FAIL, "daemon", "one is running and does not answer", f"wait a moment and try again; its log: {log}"
    return WARN, "daemon", "none is running", "`semantica doctor --start` starts one and tests it"


def _daemon(client: Client, paths: Paths) -> Iterator[Finding]:
    """What the daemon reports about itself, and one job of each kind as a test."""
    try:
        health, in_force = client.call("admin.health"), client.call("admin.config")
        is_ready = health["status"] == "ready"
        yield OK if is_ready else WARN, "daemon", f"{health['status']}, up {prose.duration(health['uptime_ms'])}", ""
        yield _same_version(health)
        if text := other_folder.sentence(in_force, paths):
            yield WARN, "data folder", text, other_folder.hint(paths)
        yield _storage(health["parts"]["writer"])
        yield _processes(health["parts"]["processes"])
        slots = health["parts"]["dispatcher"]["slots"]
        handlers = ", ".join(in_force["handlers"]) or "only the built-in ones"
        yield OK, "configuration", f"slots: {slots}, handlers: {handlers}", ""
        for sentence in config.difference(in_force):
            yield WARN, "configuration", sentence, ""
        yield from _machine(client.call("machine.get"))
        paused = [queue["queue"] for queue in client.call("queue.list")["queues"] if queue["paused"]]
        if paused:
            yield WARN, "queues", f"paused: {', '.join(paused)}", "`semantica queue resume` resumes them"
        yield _canary("a handler", lambda: _noop(client))
        yield _canary("a command", lambda: client.run(["true"], cwd="/", **CANARY))
    except (CallRefused, ConnectionLost) as error:
        yield FAIL, "daemon", str(error), "`semantica restart`, and try again"


def _same_version(health: Json) -> Finding:
    seen = f"daemon {health['version']}, this command {VERSION}"
    hint = "`semantica restart` starts the daemon of this version"
    if health["protocol"] != PROTOCOL:
        return FAIL, "version", f"{seen}; their protocols are {health['protocol']} and {PROTOCOL}", hint
    return (OK, "version", seen, "") if health["version"] == VERSION else (WARN, "version", seen, hint)


def _storage(writer: Json) -> Finding:
    if writer["trouble"]:
        trouble = str(writer["trouble"])
        is_full = trouble == "E_STORAGE_FULL" or "full" in trouble
        hint = "free some space on the disk; the daemon then goes on by itself" if is_full else "see the daemon's log"
        return FAIL, "database", f"cannot be written to: {trouble}", hint
    return OK, "database", f"{writer['batches']} commits, no trouble", ""


def _processes(found: Json) -> Finding:
    """How the processes of a run are found when it is ended."""
    if found["cgroup"]:
        limits = ", ".join(f"--{name}" for name in found["controllers"]) or "neither --memory nor --cpu"
        return OK, "processes", f"each run has a cgroup of its own in {found['cgroup']}; limits: {limits}", ""
    return OK, "processes", f"found by their parents and by marks, without cgroups: {found['problem']}", ""


def _machine(found: Json) -> Iterator[Finding]:
    """Unknown is only a warning: jobs that need to know keep waiting."""
    hint = "jobs with --when-idle wait until it is known: `semantica machine` shows the sources"
    yield (OK, "idle", machine.idle(found), "") if found["idle"] is not None else (WARN, "idle", "not known", hint)
    yield OK, "power", machine.power(found), ""


def _noop(client: Client) -> Job:
    return client.wait(client.enqueue("semantica.noop", **CANARY)["job_id"], 2 * CANARY_S)


def _canary(what: str, run: Callable[[], Any]) -> Finding:
    try:
        job = run()
    except TimeoutError as error:
        return FAIL, what, str(error), SHOWS_RUNNING
    if job["state"] == "DONE":
        took = prose.duration(job["finished_at"] - job["started_at"])
        return (
            OK,
            what,
            f"ran in {took}, after {prose.duration(job['started_at'] - job['created_at'])} in its queue",
            "",
        )
    if job["state"] == "SKIPPED_TTL":
        return WARN, what, "no slot became free for it", SHOWS_RUNNING
    return FAIL, what, f"{job['state']}: {(job['error'] or {}).get('message', '')}", f"semantica show {job['job_id']}"


OPTIONS = [Option("--start", "start the daemon when there is none, and test it")]
COMMAND = Command(
    "Check whether everything works, and say what to do where it does not. Exit code 1 when something FAILs. "
    "Starts no daemon without --start.",
    run,
    OPTIONS,
    """
  semantica doctor
  semantica doctor --start

With --json: {"checks": [{"verdict": "ok" | "warn" | "FAIL", "check": …, "seen": …, "hint": …}]}.""",
)
