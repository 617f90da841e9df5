"""What `run`, `add` and `plan` share: their options, and the JobSpec these make. `work` has what the job does,
`waiting` when it may start."""

import argparse
import os
import re

from semantica_daemon.client import times, waiting, words, work
from semantica_daemon.client.codes import DATA, USAGE
from semantica_daemon.client.parser import Namespace, Parser, of
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.terminal import Failed

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
OTHERS = {
    "cron_expression": "the cron expression", "timezone": "--zone", "name": "the name", "template_id": "the template",
    "schedule.conditions": "--on-event", "param_overrides": "the parameters",
}  # fmt: skip


def in_words_of_the_line(text: str) -> str:
    """What the daemon says of a field is said of the option that stands for it."""
    what, at, field = text.partition(" - at `$.")
    called = option_of(field.rstrip("`").removeprefix("spec.").partition("[")[0]) if at else None
    what = re.sub(r"\b(template|schedule)\.list\b", r"`semantica \1 list`", what)
    # Names that are plain words mean themselves more often than not.
    what = re.sub(r"\b[a-z]+(_[a-z]+)+\b", lambda word: option_of(word[0]) or word[0], what)
    if called is None:
        return what + at + field
    return what if what.startswith(called.removeprefix("the ")) else f"{called}: {what}"


def option_of(field: str) -> str | None:
    """How the line calls a field of a JobSpec or of a schedule."""
    if field in OTHERS:
        return OTHERS[field]
    options = {place: option for option, place in (FIELDS | waiting.PLACES).items()}
    options |= {place.rpartition(".")[2]: option for place, option in options.items()}
    return f"--{options[field].replace('_', '-')}" if field in options else None


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
    rules(parser)


def rules(parser: Parser) -> None:
    """All of a job but its command."""
    _about_the_work(parser)
    waiting.options(parser)
    _about_newest_wins(parser)
    _about_its_runs(parser)


def _about_the_work(parser: Parser) -> None:
    add = parser.add_argument_group("the work").add_argument
    add("--type", metavar="TYPE", help="job type (default: the command's own name; with a subject, all of the command)")
    if parser.takes_command:
        add("--template", metavar="NAME", help="as this template says, but for what is given here")
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


def _about_its_runs(parser: Parser) -> None:
    group = parser.add_argument_group("its runs", "D: 500ms 10s 5m 2h 1d 1h30m; a plain number is seconds")
    group.add_argument("--timeout", type=DURATION, metavar="D", help="end a run that takes longer")
    group.add_argument("--grace", type=DURATION, metavar="D", help="between asking it to end and making it (5s)")
    group.add_argument("--attempts", type=int, metavar="N", help="how many runs it gets when it fails (1)")
    group.add_argument("--backoff", type=DURATION, metavar="D", help="before the second run; doubles each time (1s)")
    group.add_argument("--ttl", type=DURATION, metavar="D", help="skip it when it has waited this long for a slot")
    group.add_argument("--deadline", type=of(times.instant), metavar="WHEN", help="worthless after this")
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
    spec.update(waiting.fields(arguments))
    spec.update(work.asked(arguments))
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
    return {"subject_key": work.text(os.path.realpath(path), "the path"), "generation": found.st_mtime_ns // 1_000_000}
