"""When a job may start: the options for it, the fields of a JobSpec they make, and what is said of it."""

from semantica_daemon.client import times, words
from semantica_daemon.client.codes import USAGE
from semantica_daemon.client.parser import Namespace, Parser, of
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.terminal import Failed

DURATION = of(words.duration)
SEVERAL = "--on-event: only one event without a value can be waited for"
# As the option is called here, and where its value stands in a JobSpec.
PLACES = {
    "at": "schedule.scheduled_at", "after": "schedule.delay_ms", "when_idle": "schedule.wait_for_idle",
    "on_power": "schedule.require_charging", "on_event": "schedule.wait_for_event",
    "stop_when_lost": "stop_when_lost", "debounce": "debounce_ms", "max_wait": "max_wait_ms",
}  # fmt: skip


def event(text: str) -> tuple[str, str | None]:
    """KEY or KEY=VALUE."""
    key, given, value = text.partition("=")
    if not key:
        raise ValueError(f"{text!r} has no key: write KEY or KEY=VALUE, such as git:commit=main")
    return key, value if given else None


def options(parser: Parser) -> None:
    told = (
        "all that is given must come true. WHEN: 10m (from now), 14:30, tomorrow 02:00, monday 9:00, 2031-05-01T14:30"
    )
    add = parser.add_argument_group("when it starts", told).add_argument
    add("--at", type=of(times.instant), metavar="WHEN", help="not before then")
    add("--after", type=DURATION, metavar="D", help="no sooner than this from now")
    add("--when-idle", action="store_true", help="when nobody uses the machine (`semantica machine` tells)")
    add("--on-power", action="store_true", help="when it is on mains power")
    add("--on-event", action="append", default=[], type=of(event), metavar="KEY[=VALUE]",
        help="after `semantica emit KEY[=VALUE]` (again: and after that one, with a value)")  # fmt: skip
    add("--stop-when-lost", action="store_true", help="end its run when idle or power is lost, and wait again")
    add("--debounce", type=DURATION, metavar="D", help="when its subject has been quiet this long")
    add("--max-wait", type=DURATION, metavar="D", help="the longest that --debounce may hold it back")


def fields(arguments: Namespace) -> Json:
    """Of a JobSpec; nothing of what is not asked for."""
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
        raise Failed(SEVERAL, USAGE, f"give the others a value: --on-event {keys[1]}=VALUE, `semantica emit` the same")
    for key, value in given:
        if value is not None and conditions[key] != value:
            hint = "hand in a job for each, or wait for the key without a value"
            raise Failed(f"--on-event {key}: it cannot have two values", USAGE, hint)
    found: Json = {"wait_for_event": keys[0]} if keys else {}
    return {**found, "conditions": conditions} if conditions else found


def sentence(spec: Json, now: int) -> str:
    """What follows "job …": when it starts, or what it waits for; nothing when it waits for nothing."""
    schedule = spec.get("schedule") or {}
    at = max(schedule.get("scheduled_at", 0), now + schedule.get("delay_ms", 0))
    reasons = [*conditions(schedule), *_quiet(spec)]
    time = times.when(at, now) if at > now else ""
    if not reasons:
        return f"starts {time}" if time else ""
    later = f"{time}, or later, " if time else ""
    return f"starts {later}when {', '.join(reasons[:-1])}{' and ' if reasons[1:] else ''}{reasons[-1]}"


def conditions(schedule: Json) -> list[str]:
    """What has to come true besides the time, each as the rest of "when …"."""
    found = ["the machine is idle"] if schedule.get("wait_for_idle") else []
    if schedule.get("require_charging"):
        found.append("it is on mains power")
    if schedule.get("wait_for_event"):
        found.append(f"{schedule['wait_for_event']} is emitted")
    return [*found, *(f"{key}={value} is emitted" for key, value in (schedule.get("conditions") or {}).items())]


def _quiet(spec: Json) -> list[str]:
    if not spec.get("debounce_ms"):
        return []
    most = f", for {words.length(spec['max_wait_ms'])} at most" if spec.get("max_wait_ms") else ""
    return [f"its subject has been quiet for {words.length(spec['debounce_ms'])}{most}"]
