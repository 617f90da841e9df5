"""The options that `run`, `add`, `plan` and `template` share, and the JobSpec they make. `payload` has what is run."""

import argparse
import os

from semantica_daemon import prose
from semantica_daemon.cli import payload
from semantica_daemon.cli.command import Any, Group, Json, Option, Options
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.parser import whole_number
from semantica_daemon.cli.times import duration, instant
from semantica_daemon.client.exit_codes import DATA

PRIORITIES = {"low": -10, "normal": 0, "high": 10}
USAGE_LINE = "[options] [--] COMMAND [ARGUMENT …]\n       semantica {} [options] --type TYPE [--payload JSON]"
# Fields that are set by no option of a job, or by one that sets several fields.
OTHER_NAMES = {
    "cron_expression": "the cron expression", "timezone": "--zone", "name": "the name", "template_id": "the template",
    "schedule.wait_for_event": "--on-event", "schedule.conditions": "--on-event", "param_overrides": "the parameters",
    "env_vars": "--env", "job_type": "--type", "slots": "--slots", "max_queued": "--max-queued",
}  # fmt: skip


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


def event(text: str) -> tuple[str, str | None]:
    """KEY or KEY=VALUE."""
    key, given, value = text.partition("=")
    if not key:
        raise ValueError(f"{text!r} has no key: write KEY or KEY=VALUE, such as git:commit=main")
    return key, value if given else None


def _refuse_every(text: str) -> Any:
    raise CommandFailed("--every adds a schedule", "use `semantica add --every`")


COMMAND = Option("command", nargs=argparse.REMAINDER, metavar="COMMAND", help="the command and its arguments")
NO_EVERY = Option("--every", type=_refuse_every, help=argparse.SUPPRESS)
TYPE = Option("--type", metavar="TYPE",
              help="job type (default: the command's name; with a subject, the whole command)")  # fmt: skip
TEMPLATE = Option("--template", metavar="NAME", help="start from this template; the other options change it")
WHAT_IS_RUN = [
    Option("--payload", metavar="JSON", help="for a handler instead of a command; - reads stdin, @FILE a file"),
    Option("-C", "--cwd", metavar="DIR", help="folder to run in (default: the current one)"),
    Option("--umask", type=umask, metavar="OCTAL", help="umask (default: yours)"),
    Option("-e", "--env", action="append", default=[], metavar="NAME[=VALUE]",
           help="pass one more variable: yours, or with this value (PATH, HOME, LANG … are always passed)"),
    Option("--env-all", action="store_true", help="pass your whole environment"),
    Option("--stdin", action="store_true", help="pass all of stdin, up to 10 MB of text"),
    Option("--leftovers", choices=("end", "keep"), field="leftovers",
           help="what happens to processes it leaves behind (end)"),
    Option("-Q", "--queue", metavar="NAME", field="queue", help="the queue (default)"),
    Option("-p", "--priority", type=priority, metavar="P", field="priority", help="low, normal, high, or -100 to 100"),
    Option("-t", "--tag", field="user_tag", help="a label of yours, to list or cancel by"),
    Option("-g", "--group", field="chain_group_id", help="a label for jobs that belong together"),
    Option("-k", "--key", field="idempotency_key",
           help="idempotency key: adding a job with the same key again returns the first one"),
    Option("--durable", action="store_true", field="durable", help="return only when the job is synced to disk"),
]  # fmt: skip
STARTS = Group("when it starts", [
    Option("--at", type=instant, metavar="WHEN", field="schedule.scheduled_at", help="not before this time"),
    Option("--after", type=duration, metavar="D", field="schedule.delay_ms", help="not before this delay"),
    Option("--when-idle", action="store_true", field="schedule.wait_for_idle",
           help="when the machine is idle (see `semantica machine`)"),
    Option("--on-power", action="store_true", field="schedule.require_charging",
           help="when the machine is on mains power"),
    Option("--on-event", action="append", default=[], type=event, metavar="KEY[=VALUE]",
           help="after `semantica emit KEY[=VALUE]` (repeat it with a value for further events)"),
    Option("--stop-when-lost", action="store_true", field="stop_when_lost",
           help="when idle or power is lost, end the run and wait again"),
    Option("--debounce", type=duration, metavar="D", field="debounce_ms",
           help="when no newer job of its subject was added for this long"),
    Option("--max-wait", type=duration, metavar="D", field="max_wait_ms",
           help="the longest that --debounce may delay it"),
], "all that are given must hold. "
   "WHEN: 10m (from now), 14:30, tomorrow 02:00, monday 9:00, 2031-05-01T14:30")  # fmt: skip
NEWEST_WINS = Group("newest wins", [
    Option("-s", "--subject", metavar="WHAT", field="subject_key",
           help="what it is about: a newer job of the same subject and type replaces it"),
    Option("--generation", type=whole_number, metavar="N", field="generation",
           help="version of the subject; must grow (default: counted)"),
    Option("--newest-wins", metavar="PATH", help="subject = this file, generation = its time of change"),
    Option("--supersede", choices=("lane", "subject", "none"), field="supersede",
           help="which jobs it replaces: of its type, of any, none"),
    Option("--on-running", choices=("finish", "cancel"), field="on_running",
           help="let an older job that is running finish, or cancel it"),
])  # fmt: skip
RUNS = Group("runs", [
    Option("--timeout", type=duration, metavar="D", field="timeout_ms", help="end a run that takes longer"),
    Option("--grace", type=duration, metavar="D", field="grace_ms", help="time between SIGTERM and SIGKILL (5s)"),
    Option("--attempts", type=whole_number, metavar="N", field="max_attempts",
           help="how many runs it gets when it fails (1); 0 and 1 both mean one run"),
    Option("--backoff", type=duration, metavar="D", field="backoff_base_ms",
           help="delay before the second run; doubles (1s)"),
    Option("--ttl", type=duration, metavar="D", field="ttl_ms",
           help="skip it when it has waited this long for a slot"),
    Option("--deadline", type=instant, metavar="WHEN", field="deadline", help="do not start it after this"),
    Option("--on-interrupt", choices=("fail", "requeue"), field="on_interrupt",
           help="when the daemon dies during its run (fail)"),
], "D: 500ms 10s 5m 2h 1d 1h30m; a plain number is seconds")  # fmt: skip
FIELDS = {one.field: one for one in (*WHAT_IS_RUN, *STARTS.options, *NEWEST_WINS.options, *RUNS.options) if one.field}
OF_TEMPLATE: Options = [Group("what is run", [TYPE, *WHAT_IS_RUN]), STARTS, NEWEST_WINS, RUNS]
OF_ADD: Options = [COMMAND, Group("what is run", [TYPE, TEMPLATE, *WHAT_IS_RUN]), *OF_TEMPLATE[1:]]
OF_RUN: Options = [*OF_ADD, NO_EVERY]


def field_of(path: str) -> str:
    """The field at this JSON path: `ttl_ms` for `$.spec.ttl_ms`."""
    return path.removeprefix("$.").removeprefix("spec.").partition("[")[0]


def option_of(field: str) -> str | None:
    """The option that sets this field."""
    return FIELDS[field].names[-1] if field in FIELDS else OTHER_NAMES.get(field)


def job_spec(arguments: Any) -> Json:
    """The fields that are given."""
    spec: Json = {}
    schedule: Json = {}
    for field, option in FIELDS.items():
        value = getattr(arguments, option.dest)
        if value is not None and value is not False:
            (schedule if field.startswith("schedule.") else spec)[field.removeprefix("schedule.")] = value
    kind = "AT" if "scheduled_at" in schedule else "AFTER" if "delay_ms" in schedule else "CONDITION"
    schedule |= _events(arguments.on_event)
    if schedule:
        spec["schedule"] = {"type": kind, **schedule}
    return spec | _newest_wins(arguments) | payload.fields(arguments)


def _events(given: list[tuple[str, str | None]]) -> Json:
    keys = [key for key, value in given if value is None]
    conditions = {key: value for key, value in given if value is not None}
    if len(keys) > 1:
        hint = f"give the others a value: --on-event {keys[1]}=VALUE, and the same value to `semantica emit`"
        raise CommandFailed("--on-event: a job can wait for only one event without a value", hint)
    for key, value in given:
        if value is not None and conditions[key] != value:
            hint = "add one job for each value, or wait for the key without a value"
            raise CommandFailed(f"--on-event {key}: a job cannot wait for two values of it", hint)
    return ({"wait_for_event": keys[0]} if keys else {}) | ({"conditions": conditions} if conditions else {})


def _newest_wins(arguments: Any) -> Json:
    path = arguments.newest_wins
    if path is None:
        return {}
    if arguments.subject is not None or arguments.generation is not None:
        hint = "leave out --subject and --generation"
        raise CommandFailed("--newest-wins already sets subject and generation", hint)
    try:
        found = os.stat(path)
    except OSError as error:
        raise CommandFailed(f"--newest-wins {path}: {error.strerror}", "name a file that exists", DATA) from None
    subject = payload.check_text(os.path.realpath(path), "the path")
    return {"subject_key": subject, "generation": found.st_mtime_ns // 1_000_000}


def start_reasons(spec: Json, now: int) -> list[prose.Facts]:
    """What holds back a job of this spec, in the typed form that job.plan returns too."""
    schedule = spec.get("schedule") or {}
    at = max(schedule.get("scheduled_at", 0), now + schedule.get("delay_ms", 0))
    reasons: list[prose.Facts] = [{"kind": "time", "at": at}] if at > now else []
    reasons += [{"kind": "idle"}] if schedule.get("wait_for_idle") else []
    reasons += [{"kind": "power"}] if schedule.get("require_charging") else []
    reasons += [{"kind": "event", "key": schedule["wait_for_event"]}] if schedule.get("wait_for_event") else []
    conditions = (schedule.get("conditions") or {}).items()
    reasons += [{"kind": "condition", "key": key, "value": value} for key, value in conditions]
    if spec.get("debounce_ms"):
        reasons.append({"kind": "debounce", "debounce_ms": spec["debounce_ms"], "max_wait_ms": spec.get("max_wait_ms")})
    return reasons
