"""The daemon itself: `rpc`, `paths`, `config`, `stop`, `version`."""

import os

from semantica_daemon import PROTOCOL, VERSION
from semantica_daemon.client import calling, draw, holding, words
from semantica_daemon.client.codes import NO_DAEMON, TIMED_OUT, USAGE
from semantica_daemon.client.connection import Client, NoDaemon
from semantica_daemon.client.parser import Command, Namespace, Parser, of
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.terminal import Failed, Terminal
from semantica_daemon.places import shown

STILL_MS = 10_000


def rpc(arguments: Namespace, terminal: Terminal) -> int:
    return calling.call(terminal, arguments.method, arguments.params)


def rpc_options(parser: Parser) -> None:
    parser.add_argument("method", metavar="METHOD", help="as `semantica rpc rpc.discover` lists them")
    parser.add_argument("params", nargs="?", metavar="JSON", help="an object with its parameters; - reads stdin")


def paths(arguments: Namespace, terminal: Terminal) -> int:
    found = {name: shown(path) for name, path in terminal.where._asdict().items()}
    if terminal.as_json:
        terminal.document(found)
    else:
        draw.pairs(list(found.items()))
    return 0


def config(arguments: Namespace, terminal: Terminal) -> int:
    if arguments.what is not None:
        if arguments.what != "path":
            raise Failed(
                f"config: there is no {arguments.what}", USAGE, "`semantica config`, or `semantica config path`"
            )
        path = shown(terminal.where.config)
        terminal.document({"path": path}) if terminal.as_json else terminal.data(path)
        return 0
    with terminal.client() as client:
        found = client.call("admin.config")
    if terminal.as_json:
        terminal.document(found)
        return 0
    path = found.get("paths", {}).get("config", shown(terminal.where.config))
    terminal.chat(f"{path}" + ("" if os.path.exists(path) else " (no such file: these are the defaults)"))
    draw.pairs(_flat({name: value for name, value in found.items() if name != "paths"}))
    return 0


def _flat(values: Json, prefix: str = "") -> list[tuple[str, object]]:
    """Dotted names, as config.toml would have them."""
    rows: list[tuple[str, object]] = []
    for name, value in values.items():
        if isinstance(value, dict) and value:
            rows += _flat(value, f"{prefix}{name}.")
        elif value is not None:
            rows.append((prefix + name, value if value != {} else "-"))
    return rows


def config_options(parser: Parser) -> None:
    parser.add_argument("what", nargs="?", metavar="path", help="only where the file is; needs no daemon")


def stop(arguments: Namespace, terminal: Terminal) -> int:
    """Comes back when it is really gone: its lock is free."""
    try:
        client = Client(terminal.where, autostart=False)
    except NoDaemon as missing:
        return _not_running(terminal, missing, arguments.timeout or STILL_MS)
    with client:
        system = client.call("admin.stats")["system"]
        grace = words.length(client.call("admin.config")["daemon"]["grace_ms"])
        client.call("admin.shutdown", reason="semantica stop")
    if system["running"]:
        terminal.chat(f"{words.many(system['running'], 'running job')}: up to {grace} to end")
    if not holding.wait_until_free(terminal.where.lock, arguments.timeout, system["pid"]):
        terminal.chat(f"the daemon is still there after {words.length(arguments.timeout)}")
        return TIMED_OUT
    return _stopped(terminal, True)


def _not_running(terminal: Terminal, missing: NoDaemon, timeout_ms: int) -> int:
    if missing.exit_code != NO_DAEMON:
        raise missing
    if not holding.is_held(terminal.where.lock):
        return _stopped(terminal, False)
    terminal.chat("a daemon is there that does not answer, because it starts or stops; waiting")
    if not holding.wait_until_free(terminal.where.lock, timeout_ms):
        raise Failed("it neither answers nor leaves", NO_DAEMON, "try again, or look with `semantica doctor`")
    return _stopped(terminal, True)


def _stopped(terminal: Terminal, was_running: bool) -> int:
    if terminal.as_json:
        terminal.document({"stopped": was_running})
    else:
        terminal.chat("the daemon has stopped" if was_running else "no daemon is running")
    return 0


def stop_options(parser: Parser) -> None:
    parser.add_argument("--timeout", type=of(words.duration), metavar="D", help="give up waiting after this, with 124")


def version(arguments: Namespace, terminal: Terminal) -> int:
    if terminal.as_json:
        terminal.document({"version": VERSION, "protocol": PROTOCOL})
    else:
        terminal.data(f"semantica {VERSION}" if terminal.quiet else f"semantica {VERSION} (protocol {PROTOCOL})")
    return 0


RPC = Command(
    "Call any method of the daemon; prints its result as JSON.",
    rpc,
    rpc_options,
    """
  semantica rpc admin.health
  semantica rpc job.list '{"state": ["FAILED"], "limit": 5}'
  jq -n '{job_type: "semantica.noop"}' | semantica rpc job.enqueue -""",
)
PATHS = Command(
    "Where everything lies. Needs no daemon.",
    paths,
    examples="""
  semantica paths
  semantica paths --json | jq -r .socket""",
)
CONFIG = Command(
    "The configuration in force, and where its file is.",
    config,
    config_options,
    """
  semantica config
  $EDITOR "$(semantica config path)"      then `semantica stop`: the next command starts it anew""",
)
STOP = Command(
    "Stop the daemon. Running jobs get their grace period; what waits is kept.",
    stop,
    stop_options,
    """
  semantica stop
  semantica stop --timeout 30s

With --json: {"stopped": true}, or false when none was running.""",
)
VERSION_OF_IT = Command("The version of this command.", version)
