"""The options that `run`, `add`, `plan` and `template` share, and the JobSpec they make. `payload` has what is run."""

import argparse
import os
import re

from semantica_daemon import prose
from semantica_daemon.cli import needs, payload
from semantica_daemon.cli.command import HIDDEN, Any, Group, Json, Option, Options
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.parser import positive, whole_number
from semantica_daemon.cli.times import duration, instant
from semantica_daemon.client.exit_codes import DATA

PRIORITIES = {"low": -10, "normal": 0, "high": 10}
USAGE_LINE = "[options] [--] COMMAND [ARGUMENT …]\n       semantica {} [options] --type TYPE [--payload JSON]"
# Fields that are set by no option of a job, or by one that sets several fields.
OTHER_NAMES = {
    "cron_expression": "the cron expression", "timezone": "--zone", "name": "the name", "template_id": "the template",
    "schedule.wait_for_event": "--on-event", "schedule.conditions": "--on-event", "param_overrides": "the parameters",
    "payload": "the payload", "key": "the key",
    "env_vars": "--env", "job_type": "--type", "slots": "--slots", "max_queued": "--max-queued",
    "event_types": "--type", "backoff": "--backoff", "backoff_base_ms": "--backoff",
    "retry_on.exit_codes": "--retry-on", "parents": "--needs", "before": "--before", "after": "--after",
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


def attempts(text: str) -> int:
    found = whole_number(text)
    if found < 1:
        raise ValueError(f"with {found} attempts it would never run: give 1 (no retry) or more")
    return found


def backoff(text: str) -> Json:
    """5s, linear, or both as linear,5s: the fields they set."""
    fields: Json = {}
    for part in text.split(","):
        if part in ("linear", "exponential"):
            fields["backoff"] = part
        else:
            fields["backoff_base_ms"] = duration(part)
    return fields


def exit_codes(text: str) -> Json:
    """75,99: the field retry_on."""
    return {"exit_codes": [whole_number(one) for one in text.split(",")]}


def memory(text: str) -> int:
    """512M or 2G, in bytes."""
    found = re.fullmatch(r"(\d+)([KMGT]?)B?", text.upper())
    if found is None:
        raise ValueError(f"{text!r} is not a size: write 512M or 2G")
    return int(found[1]) << 10 * " KMGT".index(found[2] or " ")


def percent(text: str) -> int:
    return whole_number(text.removesuffix("%"))


def event(text: str) -> tuple[str, str | None]:
    """KEY or KEY=VALUE."""
    key, given, value = text.partition("=")
    if not key:
        raise ValueError(f"{text!r} has no key: write KEY or KEY=VALUE, such as git:commit=main")
    return key, value if given else None


def awaited_event(text: str) -> tuple[str, str | None]:
    """An event, or the end of a job: job:ID, job:ID=failed."""
    return needs.end_of_job(*event(text))


def _refuse_every(text: str) -> Any:
    raise CommandFailed("--every adds a schedule", "use `semantica add --every`")


COMMAND = Option("command COMMAND", "the command and its arguments", nargs=argparse.REMAINDER)
NO_EVERY = Option("--every EVERY", HIDDEN, _refuse_every)
TYPE = Option("--type TYPE",
              "job type (default: the command's name; with a subject, the whole command, but with --gather its name, "
              "with --append one type for all commands)")  # fmt: skip
TEMPLATE = Option("--template NAME", "start from this template; the other options change it")
WHAT_IS_RUN = [
    Option("--payload JSON", "for a handler instead of a command; - reads stdin, @FILE a file"),
    Option("--external", "leave it to an external worker, which gets the command or the payload; see `workers`"),
    Option("-C, --cwd DIR", "folder to run in (default: the current one)"),
    Option("--umask OCTAL", "umask (default: yours)", umask),
    Option("-e, --env NAME[=VALUE]", action="append", default=[],
           help="set a variable: to yours, or to this value; a secret named here is required"),
    Option("--clean-env", "pass only PATH, HOME, LANG … and what --env names, not your whole environment"),
    Option("--env-all", "store your whole environment, without secrets, in a template; a job gets it anyway"),
    Option("--stdin", "read all of stdin and store it with the job, up to 10 MB of text, counted as JSON"),
    Option("--leftovers {end,keep}", "what happens to processes it leaves behind (end)", field="leftovers"),
    Option("-Q, --queue NAME", "the queue (default)", field="queue"),
    Option("-p, --priority P", "low, normal, high, or -100 to 100", priority, "priority"),
    Option("-t, --tag TAG", "a label of yours, to list or cancel by", field="user_tag"),
    Option("-g, --group GROUP", "a label for jobs that belong together", field="chain_group_id"),
    Option("--concurrency-key KEY",
           "jobs of a queue with the same key run one at a time (`semantica queue set --key` allows more)",
           field="concurrency_key"),
    Option("--slots N", "how many slots of its queue a run takes (1)", positive, "slots"),
    Option("-k, --key KEY",
           "idempotency key: adding a job with the same key again returns the first one", field="idempotency_key"),
    Option("--durable", "return only when the job is synced to disk", field="durable"),
]  # fmt: skip
STARTS = Group("when it starts", [
    Option("--at WHEN", "not before this time", instant, "schedule.scheduled_at"),
    Option("--after D", "not before this delay", duration, "schedule.delay_ms"),
    Option("--when-idle", "when the machine is idle (see `semantica machine`)", field="schedule.wait_for_idle"),
    Option("--on-power", "when the machine is on mains power", field="schedule.require_charging"),
    Option("--on-event KEY[=VALUE]", type=awaited_event, action="append", default=[],
           help="after `semantica emit KEY[=VALUE]`, or after the end of a job: job:ID, job:ID=failed "
                "(may be repeated; at most one of them without a value)"),
    Option("--hold", "when you release it, with `semantica release`", field="hold"),
    Option("--stop-when-lost", "when idle or power is lost, end the run and wait again", field="stop_when_lost"),
    Option("--debounce D", "when no newer job of its subject was added for this long", duration, "debounce_ms"),
    Option("--max-wait D", "the longest that --debounce may delay it", duration, "max_wait_ms"),
], "all that are given must hold. "
   "WHEN: 10m or '10 minutes' (from now), 14:30, 4pm, noon, tomorrow 02:00, monday 9:00, 2031-05-01T14:30")  # fmt: skip
NEWEST_WINS = Group("newest wins", [
    Option("-s, --subject WHAT",
           "what it is about: a newer job of the same subject and type replaces it", field="subject_key"),
    Option("--generation N",
           "version number of the subject; a job with a lower one than the newest known is not run "
           "(default: one more each time)", whole_number, "generation"),
    Option("--newest-wins PATH", "subject = the absolute path of this file, generation = its time of change"),
    Option("--supersede {lane,subject,none,keep,append}",
           "waiting jobs it replaces: same subject and type (lane), same subject (subject), none; or --keep, --append",
           field="supersede"),
    Option("--keep", "while a job of the same subject and type waits, return that one and add none"),
    Option("--append", "run the jobs of the same subject and type one after the other, and drop none"),
    Option("--gather", "give it the payloads of the jobs it replaces, or that are kept as it ($SEMANTICA_GATHERED)",
           field="gather"),
    Option("--force", "run this generation again when its job has ended", field="force"),
    Option("--on-running {finish,cancel}", "let an older job that is running finish, or cancel it", field="on_running"),
])  # fmt: skip
RUNS = Group("runs", [
    Option("--timeout D", "end a run that takes longer", duration, "timeout_ms"),
    Option("--grace D", "time between SIGTERM and SIGKILL (5s)", duration, "grace_ms"),
    Option("--attempts N",
           "how many runs it gets when it fails, the first one included (1)", attempts, "max_attempts"),
    Option("--backoff D", "delay before the second run, doubles each time (1s); linear,2s adds 2s each time", backoff),
    Option("--backoff-max D", "the longest delay before a run (1h)", duration, "backoff_max_ms"),
    Option("--retry-on CODES", "retry only after these exit codes, such as 75,99; any other one ends the job",
           exit_codes, "retry_on"),
    Option("--ttl D",
           "skip it when it has waited this long for a slot (time spent waiting for an event or a time does not count)",
           duration, "ttl_ms"),
    Option("--deadline WHEN", "skip it, or end its run, at this time", instant, "deadline"),
    Option("--memory SIZE", "memory that its processes may use, such as 512M; needs a cgroup (see `semantica doctor`)",
           memory, "limits.memory_bytes"),
    Option("--cpu PERCENT", "CPU time that they may use: 50 is half a core, 200 two cores; needs a cgroup",
           percent, "limits.cpu_percent"),
    Option("--nice N", "lower priority for CPU and disk, 0 to 19", whole_number, "limits.nice"),
    Option("--on-interrupt {fail,requeue}",
           "when the daemon is stopped or dies during its run: end as FAILED (fail), or run again (requeue)",
           field="on_interrupt"),
], "D: 500ms 10s 5m 2h 1d 1h30m; a plain number is seconds")  # fmt: skip
ATTACHED = Group("while it is followed", [
    Option("--pty", "give the job a terminal of this one's size; each key goes to it (Ctrl-] three times detaches)"),
    Option("--cancel-on-interrupt", "cancel the job at the first Ctrl-C, SIGTERM or SIGHUP"),
], "Ctrl-C leaves the job running; a second one within 2 s cancels it")  # fmt: skip
FIELDS = {one.field: one for one in (*WHAT_IS_RUN, *STARTS.options, *NEWEST_WINS.options, *RUNS.options) if one.field}
OF_TEMPLATE: Options = [Group("what is run", [TYPE, *WHAT_IS_RUN]), STARTS, NEWEST_WINS, RUNS]
JOB_STARTS = Group(STARTS.title, [needs.OPTION, *STARTS.options], STARTS.description)
OF_ADD: Options = [COMMAND, Group("what is run", [TYPE, TEMPLATE, *WHAT_IS_RUN]), JOB_STARTS, *OF_TEMPLATE[2:]]
OF_RUN: Options = [*OF_ADD, ATTACHED, NO_EVERY]
OF_TEMPLATE_RUN: Options = [OF_TEMPLATE[0], JOB_STARTS, *OF_TEMPLATE[2:], ATTACHED]


def option_of(field: str) -> str | None:
    """The option that sets this field."""
    return FIELDS[field].names[-1] if field in FIELDS else OTHER_NAMES.get(field)


def job_spec(arguments: Any, in_template: bool = False) -> Json:
    """The fields that are given. `in_template`: for a template, which is not handed the whole environment."""
    spec: Json = {}
    schedule: Json = {}
    limits: Json = {}
    part_of = {"": spec, "schedule": schedule, "limits": limits}
    for field, option in FIELDS.items():
        value = getattr(arguments, option.dest)
        if value is not None and value is not False:
            part, _, name = field.rpartition(".")
            part_of[part][name] = value
    if limits:
        spec["limits"] = limits
    kind = "AT" if "scheduled_at" in schedule else "AFTER" if "delay_ms" in schedule else "CONDITION"
    schedule |= _events(arguments.on_event)
    if schedule:
        spec["schedule"] = {"type": kind, **schedule}
    spec |= {} if in_template else needs.parents(arguments.needs)
    spec |= _mode(arguments)
    return spec | (arguments.backoff or {}) | _newest_wins(arguments) | payload.fields(arguments, in_template)


def _events(given: list[tuple[str, str | None]]) -> Json:
    keys = [key for key, value in given if value is None]
    conditions = {key: value for key, value in given if value is not None}
    if len(keys) > 1 and all(key.startswith(needs.JOB) for key in keys):
        raise CommandFailed("--on-event: a job can wait for any end of only one job", "--needs waits for several jobs")
    if len(keys) > 1:
        hint = f"give the others a value: --on-event {keys[1]}=VALUE, and the same value to `semantica emit`"
        raise CommandFailed("--on-event: a job can wait for only one event without a value", hint)
    for key, value in given:
        if value is not None and conditions[key] != value:
            hint = "add one job for each value, or wait for the key without a value"
            raise CommandFailed(f"--on-event {key}: a job cannot wait for two values of it", hint)
    return ({"wait_for_event": keys[0]} if keys else {}) | ({"conditions": conditions} if conditions else {})


def _mode(arguments: Any) -> Json:
    """--keep and --append are short for values of --supersede."""
    given = [arguments.supersede] if arguments.supersede else []
    given += [mode for mode in ("keep", "append") if getattr(arguments, mode)]
    if len(set(given)) > 1:
        problem = f"a job cannot be added with {given[0]} and with {given[1]}"
        raise CommandFailed(problem, "give one of --supersede, --keep and --append")
    return {"supersede": given[0]} if given else {}


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
    reasons += [{"kind": "held"}] if spec.get("hold") else []
    reasons += needs.reasons(spec)
    reasons += [{"kind": "idle"}] if schedule.get("wait_for_idle") else []
    reasons += [{"kind": "power"}] if schedule.get("require_charging") else []
    event = schedule.get("wait_for_event")
    events = [*([(event, None)] if event else []), *(schedule.get("conditions") or {}).items()]
    for key, value in events:
        if not key.startswith(needs.JOB):
            reasons.append({"kind": "event" if value is None else "condition", "key": key, "value": value})
    if spec.get("debounce_ms"):
        reasons.append({"kind": "debounce", "debounce_ms": spec["debounce_ms"], "max_wait_ms": spec.get("max_wait_ms")})
    return reasons
