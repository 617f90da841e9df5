"""When a job may start: the options, the JobSpec fields they make, and the sentence that `add` prints about it."""

from semantica_daemon import prose
from semantica_daemon.cli import times
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.parser import Namespace, Parser, type_of
from semantica_daemon.client.exit_codes import USAGE
from semantica_daemon.client.json_types import Json

DURATION = type_of(times.duration)
ALL_MUST_HOLD = (
    "all that are given must hold. WHEN: 10m (from now), 14:30, tomorrow 02:00, monday 9:00, 2031-05-01T14:30"
)


def event(text: str) -> tuple[str, str | None]:
    """KEY or KEY=VALUE."""
    key, given, value = text.partition("=")
    if not key:
        raise ValueError(f"{text!r} has no key: write KEY or KEY=VALUE, such as git:commit=main")
    return key, value if given else None


def add_options(parser: Parser) -> None:
    add = parser.add_argument_group("when it starts", ALL_MUST_HOLD).add_argument
    add("--at", type=type_of(times.instant), metavar="WHEN", help="not before this time")
    add("--after", type=DURATION, metavar="D", help="not before this delay")
    add("--when-idle", action="store_true", help="when the machine is idle (see `semantica machine`)")
    add("--on-power", action="store_true", help="when the machine is on mains power")
    add("--on-event", action="append", default=[], type=type_of(event), metavar="KEY[=VALUE]",
        help="after `semantica emit KEY[=VALUE]` (repeat it with a value for further events)")  # fmt: skip
    add("--stop-when-lost", action="store_true", help="when idle or power is lost, end the run and wait again")
    add("--debounce", type=DURATION, metavar="D", help="when no newer job of its subject was added for this long")
    add("--max-wait", type=DURATION, metavar="D", help="the longest that --debounce may delay it")


def fields(arguments: Namespace) -> Json:
    """The fields of a JobSpec, only those that are given."""
    found: Json = {"debounce_ms": arguments.debounce, "max_wait_ms": arguments.max_wait}
    found = {name: value for name, value in found.items() if value is not None}
    if arguments.stop_when_lost:
        found["stop_when_lost"] = True
    schedule = _schedule(arguments)
    return {**found, "schedule": schedule} if schedule else found


def _schedule(arguments: Namespace) -> Json:
    found: Json = {}
    if arguments.at is not None:
        found["scheduled_at"] = arguments.at
    if arguments.after is not None:
        found["delay_ms"] = arguments.after
    kind = {"scheduled_at": "AT", "delay_ms": "AFTER"}.get(next(iter(found), ""), "CONDITION")
    if arguments.when_idle:
        found["wait_for_idle"] = True
    if arguments.on_power:
        found["require_charging"] = True
    found |= _events(arguments.on_event)
    return {"type": kind, **found} if found else {}


def _events(given: list[tuple[str, str | None]]) -> Json:
    keys = [key for key, value in given if value is None]
    conditions = {key: value for key, value in given if value is not None}
    if len(keys) > 1:
        hint = f"give the others a value: --on-event {keys[1]}=VALUE, and the same value to `semantica emit`"
        raise CommandFailed("--on-event: a job can wait for only one event without a value", USAGE, hint)
    for key, value in given:
        if value is not None and conditions[key] != value:
            hint = "add one job for each value, or wait for the key without a value"
            raise CommandFailed(f"--on-event {key}: a job cannot wait for two values of it", USAGE, hint)
    found: Json = {"wait_for_event": keys[0]} if keys else {}
    return {**found, "conditions": conditions} if conditions else found


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
        limits = {name: spec.get(name) for name in ("debounce_ms", "max_wait_ms")}
        reasons.append({"kind": "debounce", **limits})
    return reasons
