"""`semantica queue`: list, pause, resume and set; what is set here is kept and wins over the config file."""

from semantica_daemon.client import draw, words
from semantica_daemon.client.codes import USAGE
from semantica_daemon.client.parser import Command, Namespace, Parser, of
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.terminal import Failed, Terminal

COLUMNS = ("queue", "state", "running", "slots", "queued", "scheduled", "on running")
VERBS = ("list", "pause", "resume", "set")


def row(queue: Json) -> list[object]:
    state = "PAUSED" if queue["paused"] else "open"
    if queue["resume_at"] is not None:
        state += f" until {words.moment(queue['resume_at'])}"
    return [queue["queue"], state, *(queue[name] for name in ("running", "slots", "queued", "scheduled", "on_running"))]


def options(parser: Parser) -> None:
    parser.add_argument("verb", nargs="?", default="list", metavar="VERB", help="list (default), pause, resume, set")
    parser.add_argument("name", nargs="?", metavar="QUEUE", help="which; pause and resume without one mean all")
    parser.add_argument("--for", dest="duration", type=of(words.duration), metavar="D", help="pause: go on after this")
    parser.add_argument("--slots", type=int, metavar="N", help="set: how many of its jobs run at once; 0 = none")
    parser.add_argument("--max-queued", type=int, metavar="N", help="set: refuse more waiting jobs than this")
    parser.add_argument("--on-running", choices=("finish", "cancel"), help="set: what a newer generation does")


def queue(arguments: Namespace, terminal: Terminal) -> int:
    verb = arguments.verb
    if verb not in VERBS:
        import difflib  # noqa: PLC0415

        near = difflib.get_close_matches(verb, VERBS, 1)
        raise Failed(f"queue: there is no {verb}", USAGE, f"did you mean {near[0]}?" if near else f"{', '.join(VERBS)}")
    _check(arguments)
    return {"list": _list, "pause": _pause, "resume": _resume, "set": _set}[verb](arguments, terminal)


def _check(arguments: Namespace) -> None:
    """An option that would do nothing is a mistake."""
    rules = {"slots": "set", "max_queued": "set", "on_running": "set", "duration": "pause"}
    for name, verb in rules.items():
        if getattr(arguments, name) is not None and arguments.verb != verb:
            option = "for" if name == "duration" else name.replace("_", "-")
            raise Failed(f"queue {arguments.verb}: --{option} goes with `queue {verb}`", USAGE)
    given = [name for name, verb in rules.items() if verb == "set" and getattr(arguments, name) is not None]
    if arguments.verb == "set" and not (arguments.name and given):
        hint = "semantica queue set QUEUE --slots N [--max-queued N] [--on-running finish|cancel]"
        raise Failed("queue set: which queue, and what of it?", USAGE, hint)


def _list(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        found = client.call("queue.list")
    if arguments.name is not None:
        found["queues"] = [one for one in found["queues"] if one["queue"] == arguments.name]
    if terminal.as_json:
        terminal.document(found)
    elif terminal.quiet:
        for one in found["queues"]:
            terminal.data(one["queue"])
    elif found["queues"]:
        draw.table(COLUMNS, [row(one) for one in found["queues"]])
    else:
        terminal.chat(f"no queue {arguments.name} yet; the first job in it makes it")
    return 0


def _pause(arguments: Namespace, terminal: Terminal) -> int:
    asked: Json = {} if arguments.name is None else {"queue": arguments.name}
    if arguments.duration is not None:
        asked["resume_after_ms"] = arguments.duration
    with terminal.client() as client:
        done = client.call("queue.pause", **asked)
    until = f" until {words.moment(done['resume_at'])}" if done["resume_at"] is not None else ""
    return _done(terminal, done, f"{_which(done)} paused{until}; what runs goes on")


def _resume(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        done = client.call("queue.resume", **({} if arguments.name is None else {"queue": arguments.name}))
    if done["paused"]:
        return _done(terminal, done, f"{_which(done)} still paused: all queues are (`semantica queue resume`)")
    return _done(terminal, done, f"{_which(done)} open")


def _which(done: Json) -> str:
    return "every queue is" if done["queue"] is None else f"queue {done['queue']} is"


def _set(arguments: Namespace, terminal: Terminal) -> int:
    asked = {name: getattr(arguments, name) for name in ("slots", "max_queued", "on_running")}
    given = {name: value for name, value in asked.items() if value is not None}
    with terminal.client() as client:
        done = client.call("queue.configure", queue=arguments.name, **given)
    told = f"{words.many(done['slots'], 'slot')}, at most {done['max_queued']} waiting, on running {done['on_running']}"
    return _done(terminal, done, f"queue {done['queue']}: {told}")


def _done(terminal: Terminal, done: Json, sentence: str) -> int:
    if terminal.as_json:
        terminal.document(done)
    else:
        terminal.chat(sentence)
    return 0


QUEUE = Command(
    "The queues: what they hold, and their rules.",
    queue,
    options,
    """
  semantica queue
  semantica queue pause build --for 10m
  semantica queue resume                  all of them
  semantica queue set build --slots 2 --on-running cancel""",
    "[list | pause | resume | set] [QUEUE] [options]",
)
