"""The options that `run`, `add`, `plan` and `template` share, and the JobSpec they make.

`payload` has what the job runs, `start_options` when it may start.
"""

import argparse
import os

from semantica_daemon.cli import payload, start_options, times
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.option_names import FIELDS
from semantica_daemon.cli.parser import Namespace, Parser, type_of, whole_number
from semantica_daemon.client.exit_codes import DATA, USAGE
from semantica_daemon.client.json_types import Any, Json

PRIORITIES = {"low": -10, "normal": 0, "high": 10}
DURATION = type_of(times.duration)
USAGE_LINE = "[options] [--] COMMAND [ARGUMENT …]\n       semantica {} [options] --type TYPE [--payload JSON]"


def priority(text: str) -> int:
    if text in PRIORITIES:
        return PRIORITIES[text]
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a priority: low, normal, high, or a number from -100 to 100") from None


def umask(text: str) -> int:
    try:
        found = int(text, 8)
    except ValueError:
        found = -1
    if not 0 <= found <= 0o777:
        raise ValueError(f"{text!r} is not a umask: three octal digits, such as 022")
    return found


def add_options(parser: Parser) -> None:
    """All options of a job, and its command."""
    parser.takes_command = True
    parser.add_argument("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command and its arguments")
    add_options_without_command(parser)


def add_options_of_one_job(parser: Parser) -> None:
    """Adds the options of `add` without --every, for `run` and `plan`."""
    add_options(parser)
    parser.add_argument("--every", type=_refuse_every, help=argparse.SUPPRESS)


def _refuse_every(text: str) -> Any:
    raise CommandFailed("--every adds a schedule", USAGE, "use `semantica add --every`")


def add_options_without_command(parser: Parser) -> None:
    _add_what_is_run(parser)
    start_options.add_options(parser)
    _add_newest_wins(parser)
    _add_runs(parser)


def _add_what_is_run(parser: Parser) -> None:
    add = parser.add_argument_group("what is run").add_argument
    add("--type", metavar="TYPE", help="job type (default: the command's name; with a subject, the whole command)")
    if parser.takes_command:
        add("--template", metavar="NAME", help="start from this template; the other options change it")
    add("--payload", metavar="JSON", help="for a handler instead of a command; - reads stdin, @FILE a file")
    add("-C", "--cwd", metavar="DIR", help="folder to run in (default: the current one)")
    add("--umask", type=type_of(umask), metavar="OCTAL", help="umask (default: yours)")
    add("-e", "--env", action="append", default=[], metavar="NAME[=VALUE]",
        help="pass one more variable: yours, or with this value (PATH, HOME, LANG … are always passed)")  # fmt: skip
    add("--env-all", action="store_true", help="pass your whole environment")
    add("--stdin", action="store_true", help="pass all of stdin, up to 10 MB of text")
    add("--leftovers", choices=("end", "keep"), help="what happens to processes it leaves behind (end)")
    add("-Q", "--queue", metavar="NAME", help="the queue (default)")
    add("-p", "--priority", type=type_of(priority), metavar="P", help="low, normal, high, or -100 to 100")
    add("-t", "--tag", help="a label of yours, to list or cancel by")
    add("-g", "--group", help="a label for jobs that belong together")
    add("-k", "--key", help="idempotency key: adding a job with the same key again returns the first one")
    add("--durable", action="store_true", help="return only when the job is synced to disk")


def _add_newest_wins(parser: Parser) -> None:
    add = parser.add_argument_group("newest wins").add_argument
    add(
        "-s", "--subject", metavar="WHAT", help="what it is about: a newer job of the same subject and type replaces it"
    )
    add(
        "--generation",
        type=type_of(whole_number),
        metavar="N",
        help="version of the subject; must grow (default: counted)",
    )
    add("--newest-wins", metavar="PATH", help="subject = this file, generation = its time of change")
    add("--supersede", choices=("lane", "subject", "none"), help="which jobs it replaces: of its type, of any, none")
    add("--on-running", choices=("finish", "cancel"), help="let an older job that is running finish, or cancel it")


def _add_runs(parser: Parser) -> None:
    group = parser.add_argument_group("runs", "D: 500ms 10s 5m 2h 1d 1h30m; a plain number is seconds")
    group.add_argument("--timeout", type=DURATION, metavar="D", help="end a run that takes longer")
    group.add_argument("--grace", type=DURATION, metavar="D", help="time between SIGTERM and SIGKILL (5s)")
    group.add_argument(
        "--attempts",
        type=type_of(whole_number),
        metavar="N",
        help="how many runs it gets when it fails (1); 0 and 1 both mean one run",
    )
    group.add_argument("--backoff", type=DURATION, metavar="D", help="delay before the second run; doubles (1s)")
    group.add_argument("--ttl", type=DURATION, metavar="D", help="skip it when it has waited this long for a slot")
    group.add_argument("--deadline", type=type_of(times.instant), metavar="WHEN", help="do not start it after this")
    group.add_argument("--on-interrupt", choices=("fail", "requeue"), help="when the daemon dies during its run (fail)")


def job_spec(arguments: Namespace) -> Json:
    spec: Json = {}
    for option, field in FIELDS.items():
        value = getattr(arguments, option)
        if value is not None:
            spec[field] = value
    if arguments.durable:
        spec["durable"] = True
    spec.update(_newest_wins(arguments))
    spec.update(start_options.fields(arguments))
    spec.update(payload.fields(arguments))
    return spec


def _newest_wins(arguments: Namespace) -> Json:
    path = arguments.newest_wins
    if path is None:
        return {}
    if arguments.subject is not None or arguments.generation is not None:
        hint = "leave out --subject and --generation"
        raise CommandFailed("--newest-wins already sets subject and generation", USAGE, hint)
    try:
        found = os.stat(path)
    except OSError as error:
        raise CommandFailed(f"--newest-wins {path}: {error.strerror}", DATA, "name a file that exists") from None
    subject = payload.check_text(os.path.realpath(path), "the path")
    return {"subject_key": subject, "generation": found.st_mtime_ns // 1_000_000}
