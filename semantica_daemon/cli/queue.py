"""`semantica queue`: lists, pauses, resumes and deletes queues; sets their limits, which override the config file."""

from semantica_daemon import prose
from semantica_daemon.cli import format, limits, tables, times
from semantica_daemon.cli.command import Any, Command, Json, Option, Subcommands, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.parser import whole_number


def _state(queue: Json) -> str:
    return ("PAUSED" if queue["paused"] else "open") + _until(queue)


def _until(queue: Json) -> str:
    return "" if queue["resume_at"] is None else f" until {format.instant(queue['resume_at'])}"


COLUMNS: tables.Columns = {
    "queue": "queue", "state": _state, "running": "running", "slots": "slots", "queued": "queued",
    "scheduled": "scheduled", "on running": "on_running",
}  # fmt: skip
LIMITED = {**COLUMNS, "limits": lambda queue: ", ".join(limits.texts(queue)) or None}


def list_queues(arguments: Any, terminal: Terminal) -> None:
    found = terminal.call("queue.list")
    if arguments.name is not None:
        found["queues"] = [one for one in found["queues"] if one["queue"] == arguments.name]
    nothing = f"there is no queue {arguments.name}; the first job in it creates it"
    names = [one["queue"] for one in found["queues"]]
    columns = LIMITED if any(limits.texts(one) for one in found["queues"]) else COLUMNS
    terminal.show(found, names, lambda: tables.table(columns, found["queues"], "limits", nothing))


def pause(arguments: Any, terminal: Terminal) -> None:
    given = {} if arguments.duration is None else {"resume_after_ms": arguments.duration}
    done = terminal.call("queue.pause", **_one_or_all(arguments), **given)
    _report(terminal, done, f"{_which(done)} paused{_until(done)}; running jobs go on")


def resume(arguments: Any, terminal: Terminal) -> None:
    done = terminal.call("queue.resume", **_one_or_all(arguments))
    state = "still paused: all queues are (`semantica queue resume`)" if done["paused"] else "open"
    _report(terminal, done, f"{_which(done)} {state}")


def _one_or_all(arguments: Any) -> Json:
    return {} if arguments.name is None else {"queue": arguments.name, "must_exist": not _may_create(arguments)}


def _may_create(arguments: Any) -> bool:
    return getattr(arguments, "create", False)


def _which(done: Json) -> str:
    return "every queue is" if done["queue"] is None else f"queue {done['queue']} is"


def set_limits(arguments: Any, terminal: Terminal) -> None:
    given = {one.dest: value for one in LIMITS if (value := getattr(arguments, one.dest)) is not None}
    if "key" in given:
        given["keys"] = dict(given.pop("key"))
    if not given or (arguments.name is None and list(given) != ["slots"]):
        hint = "semantica queue set QUEUE --slots N [--max-queued N] [--rate 10/1m] [--key 'repo:*=2']"
        raise CommandFailed("queue set: give a queue and at least one setting", hint)
    if arguments.name is None:
        done = terminal.call("queue.configure", **given)
        limit = f"at most {prose.count(done['slots'], 'job')} at once in all queues together"
        return _report(terminal, done, limit if arguments.slots else f"{limit}, as set in the config file")
    done = terminal.call("queue.configure", **_one_or_all(arguments), **given)
    slots, waiting = prose.count(done["slots"], "slot"), f"at most {done['max_queued']} waiting"
    parts = [slots, waiting, f"on running {done['on_running']}", *limits.texts(done)]
    _report(terminal, done, f"queue {done['queue']}: {', '.join(parts)}")
    for warning in done["warnings"]:
        terminal.note(f"{warning}; `semantica queue set --slots N` changes that limit")


def delete(arguments: Any, terminal: Terminal) -> None:
    done = terminal.call("queue.delete", queue=arguments.name)
    rest = "; the queue itself stays: it is the default, or the config file names it" if done["remains"] else ""
    _report(terminal, done, f"queue {done['queue']} deleted{rest}")


def _report(terminal: Terminal, done: Json, sentence: str) -> None:
    terminal.show(done, draw=lambda: terminal.note(sentence))


NAME = Option("name QUEUE", "which queue (default: all of them)", nargs="?")
WHICH = Option("name QUEUE", "which queue (without one, --slots is the limit of all queues together)", nargs="?")
FOR = Option("--for D", "resume after this (default: never)", times.duration, dest="duration")
CREATE = Option("--create", "create the queue if there is none of this name")
LIMITS = [
    Option("--slots N", "how many of its jobs run at once; 0 = none, without a queue = as in the config", whole_number),
    Option("--max-queued N", "refuse more waiting jobs than this", whole_number),
    Option("--on-running {finish,cancel}", "what a newer generation does to a running job"),
    Option("--rate N/D", "how many runs start in any time of this length: 10/1m; none: no rate", limits.rate),
    Option("--key PATTERN=N", type=limits.key_limit, action="append",
           help="how many jobs run at once with one concurrency key, of those that match: 'repo:*=2' (1 without a "
           "match); 'api:*=2,10/1m' adds a rate, 'repo:*=none' removes the pattern; may be repeated"),
]  # fmt: skip
SET_EXAMPLE = "semantica queue set build --slots 2 --on-running cancel"
COMMAND = Subcommands(
    "Queues: their jobs and their limits.",
    {
        "list": Command("List queues.", list_queues, [NAME], "semantica queue list build"),
        "pause": Command("Start no more jobs.", pause, [NAME, FOR, CREATE], "semantica queue pause build --for 10m"),
        "resume": Command("Start jobs again.", resume, [NAME], "semantica queue resume build"),
        "set": Command("Set the limits of a queue.", set_limits, [WHICH, *LIMITS, CREATE], SET_EXAMPLE),
        "delete": Command(
            "Delete a queue without waiting or running jobs: its settings and totals. Its ended jobs stay.",
            delete,
            [Option("name QUEUE", "which queue")],
            "semantica queue delete build",
        ),
    },
    f"""
  semantica queue
  semantica queue pause build --for 10m
  semantica queue resume                  all of them
  {SET_EXAMPLE}
  semantica queue set --slots 8           of all queues together""",
)
