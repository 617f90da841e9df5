"""`semantica doctor`: what can be wrong, one thing after another, and what to do about it. Starts no daemon itself, and
works where none can start."""

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator

from semantica_daemon import PROTOCOL, VERSION
from semantica_daemon.client import holding, machine, words
from semantica_daemon.client.codes import NO_DAEMON
from semantica_daemon.client.connection import CallRefused, Client, ConnectionLost, NoDaemon
from semantica_daemon.client.parser import Command, Namespace, Parser
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.terminal import Terminal
from semantica_daemon.places import LONGEST_SOCKET, Places, shown

OK, WARN, FAIL = "ok", "warn", "FAIL"
OLDEST_PYTHON = (3, 11)
LEAST_FREE = 200_000_000
CANARY_S = 15

Finding = tuple[str, str, str, str]  # verdict, what was looked at, what was seen, what to do


def doctor(arguments: Namespace, terminal: Terminal) -> int:
    found: list[Finding] = []
    for finding in _findings(terminal.where, arguments.start):
        found.append(finding)
        if not terminal.as_json:
            _tell(finding, terminal)
    if terminal.as_json:
        names = ("verdict", "check", "seen", "hint")
        terminal.document({"checks": [dict(zip(names, finding, strict=True)) for finding in found]})
    return 1 if any(finding[0] == FAIL for finding in found) else 0


def _tell(finding: Finding, terminal: Terminal) -> None:
    verdict, what, seen, hint = finding
    if verdict == OK and terminal.quiet:
        return
    terminal.data(f"{verdict:<4}  {what}: {seen}" + (f"\n      → {hint}" if hint else ""))
    terminal.flush()


def _findings(where: Places, start: bool) -> Iterator[Finding]:
    yield _python()
    yield from _folders(where)
    yield _socket_path(where)
    yield _config_file(where)
    yield _disk(where)
    try:
        client = Client(where, autostart=start)
    except NoDaemon as missing:
        yield _missing(where, missing)
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


def _folders(where: Places) -> Iterator[Finding]:
    folders = {"data folder": where.data, "socket folder": os.path.dirname(where.socket)}
    for what, folder in {**folders, "log folder": os.path.dirname(where.log)}.items():
        yield _folder(what, folder, private=what != "log folder")


def _folder(what: str, folder: str, private: bool) -> Finding:
    try:
        found = os.lstat(folder)
    except FileNotFoundError:
        return OK, what, f"{shown(folder)} (is made when it is needed)", ""
    except OSError as error:
        return FAIL, what, f"{shown(folder)}: {error.strerror}", "make it readable for you, or set SEMANTICA_HOME"
    if not stat.S_ISDIR(found.st_mode) and private:
        return FAIL, what, f"{shown(folder)} is no folder", "remove it, or set SEMANTICA_HOME to another place"
    if found.st_uid != os.getuid() and private:
        return FAIL, what, f"{shown(folder)} belongs to user {found.st_uid}", "set SEMANTICA_HOME to a folder of yours"
    if found.st_mode & 0o022 and private:
        return FAIL, what, f"others can write to {shown(folder)}", f"chmod go-w {shown(folder)}"
    if not os.access(folder, os.W_OK | os.X_OK):
        return FAIL, what, f"{shown(folder)} cannot be written to", f"chmod u+rwx {shown(folder)}"
    return OK, what, shown(folder), ""


def _socket_path(where: Places) -> Finding:
    length = len(os.fsencode(where.socket))
    if length > LONGEST_SOCKET:
        seen = f"{length} bytes, the system takes {LONGEST_SOCKET}: {shown(where.socket)}"
        return FAIL, "socket path", seen, "set SEMANTICA_SOCKET to a shorter path"
    return OK, "socket path", shown(where.socket), ""


def _config_file(where: Places) -> Finding:
    """Only whether it is TOML: what its keys mean the daemon says when it starts."""
    import tomllib  # noqa: PLC0415

    path = shown(where.config)
    try:
        with open(where.config, "rb") as file:
            tomllib.load(file)
    except FileNotFoundError:
        return OK, "config file", f"none at {path}; the defaults are used", ""
    except (OSError, ValueError) as error:
        return FAIL, "config file", f"{path}: {error}", "repair that line, or move the file away"
    return OK, "config file", path, ""


def _disk(where: Places) -> Finding:
    folder = where.data
    while not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    free = shutil.disk_usage(folder).free
    if free < LEAST_FREE:
        verdict = FAIL if free < LEAST_FREE // 10 else WARN
        return (
            verdict,
            "disk",
            f"{words.size(free)} free at {shown(folder)}",
            "make room: jobs need some for their logs",
        )
    return OK, "disk", f"{words.size(free)} free", ""


def _missing(where: Places, missing: NoDaemon) -> Finding:
    """None is not an error by itself: the next command starts one."""
    if missing.exit_code != NO_DAEMON:
        return FAIL, "daemon", missing.message, f"its log may say more: {shown(where.log)}"
    if _is_held(where):
        hint = f"wait a moment and try again; its log: {shown(where.log)}"
        return FAIL, "daemon", "one is there and does not answer", hint
    return WARN, "daemon", "none is running", "`semantica doctor --start` starts one and tries it out"


def _is_held(where: Places) -> bool:
    try:
        return holding.is_held(where.lock)
    except OSError:
        return False


def _daemon(client: Client) -> Iterator[Finding]:
    """What it says of itself, and two jobs that show whether it does what it is for."""
    try:
        health = client.call("admin.health")
        yield _ready(health)
        yield _same_version(health)
        yield _storage(health)
        yield _configured(client)
        yield from _machine(client)
        yield from _paused(client)
        yield _canary("a handler", lambda: _noop(client))
        yield _canary("a command", lambda: client.run(["true"], cwd="/", **CANARY))
    except (CallRefused, ConnectionLost) as error:
        yield FAIL, "daemon", str(error), "`semantica stop`, and try again"


CANARY: Json = {"queue": "semantica.doctor", "user_tag": "doctor", "priority": 100, "ttl_ms": CANARY_S * 1000}
CANARY |= {"timeout_ms": CANARY_S * 1000}


def _noop(client: Client) -> Json:
    return client.wait(client.enqueue("semantica.noop", **CANARY)["job_id"], 2 * CANARY_S)


def _ready(health: Json) -> Finding:
    seen = f"{health['status']}, up {words.length(health['uptime_ms'])}"
    return (OK, "daemon", seen, "") if health["status"] == "ready" else (WARN, "daemon", seen, "")


def _same_version(health: Json) -> Finding:
    seen = f"daemon {health['version']}, this command {VERSION}"
    hint = "`semantica stop`: the next command starts the daemon of its own version"
    if health["protocol"] != PROTOCOL:
        return FAIL, "version", f"{seen}; they speak protocols {health['protocol']} and {PROTOCOL}", hint
    return (OK, "version", seen, "") if health["version"] == VERSION else (WARN, "version", seen, hint)


def _storage(health: Json) -> Finding:
    trouble = health["parts"]["writer"]["trouble"]
    if trouble:
        return FAIL, "database", f"cannot be written to: {trouble}", "make room on the disk; it goes on by itself"
    return OK, "database", f"{health['parts']['writer']['batches']} commits, no trouble", ""


def _configured(client: Client) -> Finding:
    found = client.call("admin.config")
    slots = found["daemon"]["max_slots"] or "one for each core"
    return (
        OK,
        "configuration",
        f"slots: {slots}, handlers: {', '.join(found['handlers']) or 'only the built-in ones'}",
        "",
    )


def _machine(client: Client) -> Iterator[Finding]:
    """Unknown is no error: it only keeps jobs waiting that need to know."""
    found = client.call("machine.get")
    hint = "jobs with --when-idle wait until it is known: `semantica machine` shows who was asked"
    yield (OK, "idle", machine.idle(found), "") if found["idle"] is not None else (WARN, "idle", "not known", hint)
    yield OK, "power", machine.power(found), ""


def _paused(client: Client) -> Iterator[Finding]:
    queues = [queue["queue"] for queue in client.call("queue.list")["queues"] if queue["paused"]]
    if queues:
        yield WARN, "queues", f"paused: {', '.join(queues)}", "`semantica queue resume` opens them"


def _canary(what: str, run: Callable[[], Json]) -> Finding:
    try:
        job = run()
    except TimeoutError as error:
        return FAIL, what, str(error), "`semantica status` shows what is in the way"
    if job["state"] == "DONE":
        return OK, what, f"ran in {words.length(job['finished_at'] - job['created_at'])}", ""
    if job["state"] == "SKIPPED_TTL":
        return WARN, what, "no slot became free for it", "`semantica status` shows what is in the way"
    return FAIL, what, f"{job['state']}: {(job['error'] or {}).get('message', '')}", f"semantica show {job['job_id']}"


def options(parser: Parser) -> None:
    parser.add_argument("--start", action="store_true", help="start the daemon when there is none, and try it out")


DOCTOR = Command(
    "Look whether everything works, and say what to do where it does not. Exit code 1 when something FAILs. "
    "Starts no daemon unless told to.",
    doctor,
    options,
    """
  semantica doctor
  semantica doctor --start

With --json: {"checks": [{"verdict": "ok" | "warn" | "FAIL", "check": …, "seen": …, "hint": …}]}.""",
)
