"""`semantica add`: adds a job to the queue and prints its id; with --every it makes a schedule (`add_every`)."""

import socket
import time
from importlib import import_module

from semantica_daemon import prose
from semantica_daemon.cli import job_options, last_job, payload, schedule_options, start_options
from semantica_daemon.cli.command import Command
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.format import now
from semantica_daemon.cli.parser import Namespace, Parser, type_of
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.client import result
from semantica_daemon.client.connection import Connection
from semantica_daemon.client.errors import ConnectionLost
from semantica_daemon.client.exit_codes import USAGE
from semantica_daemon.client.json_types import Any, Json

ONLY_WITH_EVERY = ("zone", "name", "misfire", "overlap")


def run(arguments: Namespace, terminal: Terminal) -> int:
    if arguments.every is not None:
        add_every: Any = import_module("semantica_daemon.cli.add_every")
        return int(add_every.run(arguments, terminal))
    for name in ONLY_WITH_EVERY:
        if getattr(arguments, name) is not None:
            raise CommandFailed(f"add: --{name} needs --every", USAGE, "--every '0 3 * * *' makes a schedule")
    spec, started = job_options.job_spec(arguments), now()
    with terminal.client() as client:
        ack = client.call("job.enqueue", **payload.complete(client, spec))
    last_job.remember(terminal.paths, ack["job_id"])
    print_ack(terminal, ack)
    if ack["state"] == "SCHEDULED" and not ack["existing"]:
        _print_start(terminal, ack["job_id"], start_options.start_reasons(spec, started), started)
    return 0


def finish(descriptor: int, received: bytes, failure: OSError | None, quiet: bool) -> int:
    """Goes on with a job that the fast path has sent: `received` is the part of the reply that it has read."""
    terminal = Terminal(quiet=quiet)
    connection = Connection(socket.socket(fileno=descriptor), terminal.note, received)
    if failure is not None and not isinstance(failure, TimeoutError):
        raise ConnectionLost(f"the connection to the daemon broke: {failure}")
    ack = result(connection.receive(time.monotonic()))
    last_job.remember(terminal.paths, ack["job_id"])
    print_ack(terminal, ack)
    return 0


def print_ack(terminal: Terminal, ack: Json) -> None:
    if terminal.as_json:
        terminal.print_json(ack)
    else:
        terminal.print(ack["job_id"])
    print_notes(terminal, ack)


def print_notes(terminal: Terminal, ack: Json) -> None:
    """What an ack says besides the id."""
    name = prose.short_id(ack["job_id"])
    if ack["existing"]:
        terminal.note(f"this is job {name}, which was added before; it is {ack['state']}")
    elif ack["state"] == "SUPERSEDED":
        terminal.note(f"job {name} is not run: a newer generation is already known")
    if ack["superseded"]:
        older = prose.count(len(ack["superseded"]), "older job")
        terminal.note(f"job {name} supersedes {older}: {', '.join(map(prose.short_id, ack['superseded'][:5]))}")
    for warning in ack["warnings"]:
        terminal.note(warning)


def _print_start(terminal: Terminal, job_id: str, reasons: list[prose.Facts], since: int) -> None:
    text = prose.start(reasons, since, lambda at: prose.instant(at, since))
    if text:
        terminal.note(f"job {prose.short_id(job_id)} starts {text}")


def options(parser: Parser) -> None:
    job_options.add_options(parser)
    group = parser.add_argument_group("schedules", "make a schedule instead of a job; prints the schedule's id")
    group.add_argument(
        "--every",
        type=type_of(schedule_options.cron),
        metavar="CRON",
        help="'0 3 * * *', with seconds '30 0 3 * * *', @daily, @hourly …",
    )
    group.add_argument("--zone", metavar="ZONE", help="the time zone of CRON (default: yours)")
    group.add_argument("--name", metavar="NAME", help="name of the schedule and its template (default: by the command)")
    schedule_options.add_policies(group)


COMMAND = Command(
    "Add a job to the queue and return at once. Prints its id.",
    run,
    options,
    """
  semantica add -- make test
  semantica add --at 'tomorrow 02:00' -t nightly -- ./backup.sh
  semantica add --when-idle --on-power --stop-when-lost -- ./reindex
  semantica add --on-event git:commit=main -- make docs
  semantica add --newest-wins a.py --debounce 2s --max-wait 30s -- lint a.py
  semantica add --every '0 3 * * *' --name backup -- ./backup.sh
  semantica add --newest-wins a.py -- lint a.py      save ten times: one run, of the newest
  semantica add --type INDEX_FILE --payload '{"path": "a.py"}'
  id=$(semantica add -q -- make) && semantica wait $id""",
    job_options.USAGE_LINE.format("add"),
)
