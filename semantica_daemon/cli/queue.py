"""`semantica queue`: lists queues, pauses and resumes them, sets their limits, which override the config file."""

from semantica_daemon import prose
from semantica_daemon.cli import format, tables, times
from semantica_daemon.cli.command import Command, Subcommands
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.parser import Namespace, Parser, type_of, whole_number
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.exit_codes import USAGE
from semantica_daemon.client.json_types import Json

COLUMNS = ("queue", "state", "running", "slots", "queued", "scheduled", "on running")
SETTINGS = ("slots", "max_queued", "on_running")


def row(queue: Json) -> list[object]:
    state = "PAUSED" if queue["paused"] else "open"
    if queue["resume_at"] is not None:
        state += f" until {format.instant(queue['resume_at'])}"
    return [queue["queue"], state, *(queue[name] for name in ("running", "slots", "queued", "scheduled", "on_running"))]


def list_queues(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        found = client.call("queue.list")
    if arguments.name is not None:
        found["queues"] = [one for one in found["queues"] if one["queue"] == arguments.name]
    if terminal.as_json:
        terminal.print_json(found)
    elif terminal.quiet:
        for one in found["queues"]:
            terminal.print(one["queue"])
    elif found["queues"]:
        tables.table(COLUMNS, [row(one) for one in found["queues"]])
    else:
        terminal.note(f"there is no queue {arguments.name} yet; the first job in it creates it")
    return 0


def pause(arguments: Namespace, terminal: Terminal) -> int:
    params: Json = {} if arguments.name is None else {"queue": arguments.name}
    if arguments.duration is not None:
        params["resume_after_ms"] = arguments.duration
    with terminal.client() as client:
        done = client.call("queue.pause", **params)
    until = f" until {format.instant(done['resume_at'])}" if done["resume_at"] is not None else ""
    return _report(terminal, done, f"{_which(done)} paused{until}; running jobs go on")


def resume(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        done = client.call("queue.resume", **({} if arguments.name is None else {"queue": arguments.name}))
    if done["paused"]:
        return _report(terminal, done, f"{_which(done)} still paused: all queues are (`semantica queue resume`)")
    return _report(terminal, done, f"{_which(done)} open")


def _which(done: Json) -> str:
    return "every queue is" if done["queue"] is None else f"queue {done['queue']} is"


def set_limits(arguments: Namespace, terminal: Terminal) -> int:
    given = {name: value for name in SETTINGS if (value := getattr(arguments, name)) is not None}
    if not (arguments.name and given):
        hint = "semantica queue set QUEUE --slots N [--max-queued N] [--on-running finish|cancel]"
        raise CommandFailed("queue set: give a queue and at least one setting", USAGE, hint)
    with terminal.client() as client:
        done = client.call("queue.configure", queue=arguments.name, **given)
    limits = f"{prose.count(done['slots'], 'slot')}, at most {done['max_queued']} waiting"
    return _report(terminal, done, f"queue {done['queue']}: {limits}, on running {done['on_running']}")


def _report(terminal: Terminal, done: Json, sentence: str) -> int:
    if terminal.as_json:
        terminal.print_json(done)
    else:
        terminal.note(sentence)
    return 0


def _name_option(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", metavar="QUEUE", help="which queue (default: all of them)")


def _pause_options(parser: Parser) -> None:
    _name_option(parser)
    parser.add_argument(
        "--for", dest="duration", type=type_of(times.duration), metavar="D", help="resume after this (default: never)"
    )


def _set_options(parser: Parser) -> None:
    parser.add_argument("name", nargs="?", metavar="QUEUE", help="which queue")
    parser.add_argument(
        "--slots", type=type_of(whole_number), metavar="N", help="how many of its jobs run at once; 0 = none"
    )
    parser.add_argument(
        "--max-queued", type=type_of(whole_number), metavar="N", help="refuse more waiting jobs than this"
    )
    parser.add_argument(
        "--on-running", choices=("finish", "cancel"), help="what a newer generation does to a running job"
    )


COMMAND = Subcommands(
    "Queues: their jobs and their limits.",
    {
        "list": Command("List queues.", list_queues, _name_option, "\n  semantica queue list build"),
        "pause": Command("Start no more jobs.", pause, _pause_options, "\n  semantica queue pause build --for 10m"),
        "resume": Command("Start jobs again.", resume, _name_option, "\n  semantica queue resume build"),
        "set": Command(
            "Set the limits of a queue.",
            set_limits,
            _set_options,
            "\n  semantica queue set build --slots 2 --on-running cancel",
        ),
    },
    """
  semantica queue
  semantica queue pause build --for 10m
  semantica queue resume                  all of them
  semantica queue set build --slots 2 --on-running cancel""",
)
