"""What `run`, `add` and `plan` share: their options, and the JobSpec these make of a command or a payload."""

import argparse
import os
import sys

from semantica_daemon.client import words
from semantica_daemon.client.calling import document
from semantica_daemon.client.codes import DATA, USAGE
from semantica_daemon.client.parser import Namespace, Parser, of
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.surroundings import is_text, may_go, variables
from semantica_daemon.client.terminal import Failed

LARGEST_STDIN = 10_000_000
LONGEST_TYPE = 128
PRIORITIES = {"low": -10, "normal": 0, "high": 10}
DURATION = of(words.duration)
# As the option is called here, and as the field is called in a JobSpec.
FIELDS = {
    "queue": "queue", "subject": "subject_key", "generation": "generation", "supersede": "supersede",
    "on_running": "on_running", "tag": "user_tag", "group": "chain_group_id", "priority": "priority",
    "attempts": "max_attempts", "backoff": "backoff_base_ms", "timeout": "timeout_ms", "grace": "grace_ms",
    "ttl": "ttl_ms", "deadline": "deadline", "on_interrupt": "on_interrupt", "leftovers": "leftovers",
    "key": "idempotency_key",
}  # fmt: skip


def priority(text: str) -> int:
    if text in PRIORITIES:
        return PRIORITIES[text]
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is no priority: low, normal, high, or a number from -100 to 100") from None


def umask(text: str) -> int:
    try:
        found = int(text, 8)
    except ValueError:
        found = -1
    if not 0 <= found <= 0o777:
        raise ValueError(f"{text!r} is no umask: three octal digits, such as 022")
    return found


def options(parser: Parser) -> None:
    parser.takes_command = True
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command and its arguments")
    _about_the_work(parser)
    _about_newest_wins(parser)
    _about_time(parser)


def _about_the_work(parser: Parser) -> None:
    add = parser.add_argument_group("the work").add_argument
    add("--type", metavar="TYPE", help="job type (default: the command's own name; with a subject, all of the command)")
    add("--payload", metavar="JSON", help="for a handler instead of a command; - reads stdin, @FILE a file")
    add("-C", "--cwd", metavar="DIR", help="where it runs (default: here)")
    add("--umask", type=of(umask), metavar="OCTAL", help="its umask (default: yours)")
    add("-e", "--env", action="append", default=[], metavar="NAME[=VALUE]",
        help="one more variable: yours, or with this value (PATH, HOME, LANG … go along by themselves)")  # fmt: skip
    add("--env-all", action="store_true", help="your whole environment")
    add("--stdin", action="store_true", help="give it all of stdin, up to 10 MB of text")
    add("--leftovers", choices=("end", "keep"), help="what happens to processes it leaves behind (end)")
    add("-Q", "--queue", metavar="NAME", help="which queue (default)")
    add("-p", "--priority", type=of(priority), metavar="P", help="low, normal, high, or -100 to 100")
    add("-t", "--tag", help="a label of yours, to list or cancel by")
    add("-g", "--group", help="a label for jobs that belong together")
    add("-k", "--key", help="idempotency key: the same key again is the same job")
    add("--durable", action="store_true", help="answer only when it is synced to disk")


def _about_newest_wins(parser: Parser) -> None:
    add = parser.add_argument_group("newest wins").add_argument
    add("-s", "--subject", metavar="WHAT", help="what it is about: newer jobs of the same subject and type replace it")
    add("--generation", type=int, metavar="N", help="which version of the subject; must grow (default: counted)")
    add("--newest-wins", metavar="PATH", help="subject = this file, generation = when it was last changed")
    add("--supersede", choices=("lane", "subject", "none"), help="what it replaces: of its type, of any, nothing")
    add("--on-running", choices=("finish", "cancel"), help="let an older one that runs finish, or end it")


def _about_time(parser: Parser) -> None:
    group = parser.add_argument_group("time", "durations: 500ms 10s 5m 2h 1d 1h30m; a plain number is seconds")
    group.add_argument("--timeout", type=DURATION, metavar="D", help="end a run that takes longer")
    group.add_argument("--grace", type=DURATION, metavar="D", help="between asking it to end and making it (5s)")
    group.add_argument("--attempts", type=int, metavar="N", help="how many runs it gets when it fails (1)")
    group.add_argument("--backoff", type=DURATION, metavar="D", help="before the second run; doubles each time (1s)")
    group.add_argument("--after", type=DURATION, metavar="D", help="start no sooner than this from now")
    group.add_argument("--at", type=of(words.instant), metavar="WHEN", help="start then: 14:30, 2031-05-01T14:30")
    group.add_argument("--ttl", type=DURATION, metavar="D", help="skip it when it has waited this long for a slot")
    group.add_argument("--deadline", type=of(words.instant), metavar="WHEN",
                       help="worthless after this: 10m (from now), 14:30")  # fmt: skip
    group.add_argument("--on-interrupt", choices=("fail", "requeue"), help="when the daemon dies under it (fail)")


def job_spec(arguments: Namespace) -> Json:
    spec: Json = {}
    for option, field in FIELDS.items():
        value = getattr(arguments, option)
        if value is not None:
            spec[field] = value
    if arguments.durable:
        spec["durable"] = True
    spec.update(_newest_wins(arguments))
    spec.update(_schedule(arguments))
    spec.update(_command(arguments) if arguments.command else _handler(arguments))
    return spec


def _newest_wins(arguments: Namespace) -> Json:
    path = arguments.newest_wins
    if path is None:
        return {}
    if arguments.subject is not None or arguments.generation is not None:
        raise Failed("--newest-wins already says subject and generation", USAGE, "leave --subject and --generation out")
    try:
        found = os.stat(path)
    except OSError as error:
        raise Failed(f"--newest-wins {path}: {error.strerror}", DATA, "name a file that is there") from None
    return {"subject_key": _text(os.path.realpath(path), "the path"), "generation": found.st_mtime_ns // 1_000_000}


def _schedule(arguments: Namespace) -> Json:
    if arguments.after is not None and arguments.at is not None:
        raise Failed("--after and --at are both given", USAGE, "choose one")
    if arguments.after is not None:
        return {"schedule": {"type": "AFTER", "delay_ms": arguments.after}}
    return {} if arguments.at is None else {"schedule": {"type": "AT", "scheduled_at": arguments.at}}


def _handler(arguments: Namespace) -> Json:
    """A job without a command: its type names a handler of the daemon."""
    if arguments.type is None:
        raise Failed("nothing to run", USAGE, "give a command after --, or --type and --payload for a handler")
    for name in ("cwd", "umask", "env", "env_all", "stdin"):
        if getattr(arguments, name):
            raise Failed(f"--{name.replace('_', '-')} goes with a command, and there is none", USAGE)
    payload = {} if arguments.payload is None else document(_payload_text(arguments.payload), "the payload's words")
    return {"job_type": arguments.type, "payload": payload}


def _payload_text(given: str) -> str:
    if given == "-":
        return sys.stdin.read()
    if not given.startswith("@"):
        return given
    try:
        with open(given[1:], encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise Failed(f"--payload {given}: {error}", DATA) from None


def _command(arguments: Namespace) -> Json:
    argv = [_text(word, "the command") for word in arguments.command]
    if arguments.payload is not None:
        raise Failed("a command and --payload are both given", USAGE, "choose one")
    mask = arguments.umask
    if mask is None:
        os.umask(mask := os.umask(0))
    payload: Json = {"argv": argv, "cwd": _folder(arguments.cwd), "umask": mask}
    if arguments.stdin:
        payload["stdin"] = _stdin()
    name = arguments.type or _type_of(argv, arguments.subject or arguments.newest_wins)
    mode = {"execution_mode": "SUBPROCESS", "job_type": name}
    return {**mode, "payload": payload, "env_vars": _variables(arguments)}


def _type_of(argv: list[str], subject: str | None) -> str:
    """The command's own name. With a subject it is the whole command: a newer `lint a.py` replaces an older one, and
    not the tests of a.py that happen to be run by the same interpreter."""
    name = os.path.basename(argv[0]) if subject is None else " ".join(argv)
    if len(name) <= LONGEST_TYPE:
        return name or "command"
    import zlib  # noqa: PLC0415

    return f"{name[: LONGEST_TYPE - 9]}#{zlib.crc32(name.encode()):08x}"


def _folder(given: str | None) -> str:
    try:
        here = "/" if given and os.path.isabs(given) else os.getcwd()
    except FileNotFoundError:
        raise Failed("the folder you are in is gone", DATA, "go to another, or give --cwd with a whole path") from None
    folder = os.path.normpath(os.path.join(here, given)) if given else here
    if not os.path.isdir(folder):
        raise Failed(f"--cwd {given}: there is no such folder", DATA)
    return _text(folder, "the folder")


def _stdin() -> str:
    data = sys.stdin.buffer.read(LARGEST_STDIN + 1) if sys.stdin is not None else b""
    if len(data) > LARGEST_STDIN:
        raise Failed("stdin has more than 10 MB", DATA, "put it into a file and give the command its name")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        hint = "put it into a file and give the command its name"
        raise Failed(f"stdin is not UTF-8 text (byte {error.start})", DATA, hint) from None


def _variables(arguments: Namespace) -> dict[str, str]:
    """The caller's, by the list or all of them, and those that are asked for by name."""
    found = variables(os.environ, arguments.env_all)
    for asked in arguments.env:
        name, given, value = asked.partition("=")
        if not may_go(name):
            raise Failed(f"--env {words.clean(name)}: no job can be given a variable of this name", USAGE)
        if not given and name not in os.environ:
            raise Failed(f"--env {name}: it is not set here", USAGE, f"set it, or write --env {name}=VALUE")
        found[name] = _text(value if given else os.environ[name], f"${name}")
    return found


def _text(word: str, what: str) -> str:
    if not is_text(word):
        raise Failed(f"{what} is not UTF-8: {words.clean(word)}", DATA)
    return word
