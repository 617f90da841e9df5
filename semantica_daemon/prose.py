"""Durations, instants and typed reasons (kind + facts) as text for people. The daemon fills `message` and `summary`
with it, the command line renders the same reasons in the user's time zone.

`cli/format` has ages and other cells of tables, `cli/repeat` the intervals of schedules. Imports little, because the
command line loads it.
"""

import re
import time
from collections.abc import Callable

LIMIT = r"Expected `(?:str|int|float)`( of length)? (>=|<=) (-?\d+)"  # not compiled here: most commands never use it
FIELD = r"Object (missing required|contains unknown) field `(.*)`"


def duration(ms: float) -> str:
    """340ms, 1.2s, 58s, 3m05s, 2h04m, 3d02h."""
    if ms < 1000:
        return f"{max(0, round(ms))}ms"
    if ms < 59_950:
        return f"{ms / 1000:.1f}s".replace(".0s", "s")
    seconds = round(ms / 1000)
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    if seconds < 86_400:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02}m"
    return f"{seconds // 86_400}d{seconds % 86_400 // 3600:02}h"


def instant(at: int, now: int) -> str:
    """14:30:00, 02:00:00 tomorrow, 2031-05-01 14:30:00: in the zone of this process."""
    try:
        then, today = time.localtime(at / 1000), time.localtime(now / 1000)
    except (OverflowError, ValueError, OSError):
        return str(at)
    noon = time.mktime((today.tm_year, today.tm_mon, today.tm_mday + 1, 12, 0, 0, 0, 0, -1))
    days = {today[:3]: "", time.localtime(noon)[:3]: " tomorrow"}
    return time.strftime("%H:%M:%S" if then[:3] in days else "%Y-%m-%d %H:%M:%S", then) + days.get(then[:3], "")


def short_id(job_id: str) -> str:
    return job_id[:8]


def count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def requirement(problem: str) -> str:
    """A message of msgspec in plain words: must not be empty, must be 0 or more, has no `path`; others as they are."""
    if found := re.match(FIELD, problem):
        return f"{'has no' if found[1] == 'missing required' else 'takes no'} `{found[2]}`"
    found = re.match(LIMIT, problem)
    if found is None:
        return problem
    of_length, sign, limit = found.groups()
    rest = problem[found.end() :]
    if of_length:
        length = f"have at least {limit} characters" if sign == ">=" else f"have at most {limit} characters"
        return f"must {'not be empty' if (sign, limit) == ('>=', '1') else length}{rest}"
    return f"must be {limit} or {'more' if sign == '>=' else 'less'}{rest}"


Facts = dict[str, object]
Clock = Callable[[int], str]


def reason(facts: Facts, now: int, clock: Clock) -> str:
    """A reason of job.explain as one clause; `clock` renders an instant."""
    kind = str(facts["kind"])
    return RENDERERS[kind](facts, now, clock) if kind in RENDERERS else str(facts.get("message") or kind)


def start(reasons: list[Facts], now: int, clock: Clock) -> str:
    """What follows "starts": the earliest instant and what has to come true; empty when nothing holds the job back."""
    if any(facts["kind"] == "superseded" for facts in reasons):
        return "never: a newer generation of its lane is already known"
    at = max((_number(facts, "at") for facts in reasons if facts["kind"] == "time"), default=0)
    instant_text = f"{clock(at)}, in {duration(at - now)}" if at > now else ""
    clauses = [CLAUSES[str(facts["kind"])](facts) for facts in reasons if facts["kind"] in CLAUSES]
    if not clauses:
        return instant_text
    later = f"{instant_text}, or later, " if instant_text else ""
    return f"{later}when {', '.join(clauses[:-1])}{' and ' if clauses[1:] else ''}{clauses[-1]}"


def short_start(reasons: list[Facts], clock: Callable[[int | None], str]) -> str:
    """The same in the few words of a column: 14:30:00, when idle."""
    return ", ".join(SHORT[str(facts["kind"])](facts, clock) for facts in reasons if facts["kind"] in SHORT)


def _event(facts: Facts) -> str:
    value = facts.get("value")
    return f"event {facts['key']}" if value is None else f"event {facts['key']}={value}"


def _debounced(facts: Facts) -> str:
    longest = facts.get("max_wait_ms")
    limit = f" (for at most {duration(_number(facts, 'max_wait_ms'))})" if longest else ""
    return f"its subject has been quiet for {duration(_number(facts, 'debounce_ms'))}{limit}"


# By the kind of a reason: what has to come true before a job starts.
CLAUSES: dict[str, Callable[[Facts], str]] = {
    "idle": lambda _: "the machine is idle",
    "power": lambda _: "the machine is on mains power",
    "event": lambda facts: f"{_event(facts)} is emitted",
    "condition": lambda facts: f"{_event(facts)} is emitted",
    "debounce": _debounced,
    "turn": lambda _: "the previous job of its schedule has ended",
    "held": lambda _: "it is released",
    "reserved": lambda facts: f"the reservation of {_holder(facts)} has ended",
    "lane": lambda _: "the job before it in its lane has ended",
    "parent": lambda facts: f"{_job(facts)} {_end(facts)}",
    "parents": lambda facts: f"{_more_jobs(facts)} {'has' if facts['count'] == 1 else 'have'} ended",
    "slots": lambda _: "a slot is free",
    "key": lambda facts: f"fewer jobs with the key {facts['key']} run",
    "group": lambda facts: f"fewer jobs of group {facts['group']} run",
    "rate": lambda facts: f"the rate of {_rated(facts)} allows it",
    "worker": lambda _: "a worker claims it",
}


# By the kind of a reason: the same for a column of a table.
SHORT: dict[str, Callable[[Facts, Callable[[int | None], str]], str]] = {
    "time": lambda facts, clock: clock(_number(facts, "at")),
    "retry": lambda facts, clock: f"{clock(_number(facts, 'at'))} (attempt {facts['attempt']})",
    "debounce": lambda facts, clock: f"{clock(_number(facts, 'at'))} (debounce)",
    "idle": lambda facts, clock: "when idle",
    "power": lambda facts, clock: "on mains power",
    "event": lambda facts, clock: f"after {_event(facts)}",
    "condition": lambda facts, clock: f"after {_event(facts)}",
    "turn": lambda facts, clock: f"after {_job(facts)}",
    "held": lambda facts, clock: "when released",
    "reserved": lambda facts, clock: f"after {_job(facts)}" if _job(facts) else f"by {clock(_number(facts, 'at'))}",
    "lane": lambda facts, clock: f"after {_job(facts)}",
    "parent": lambda facts, clock: f"after {_job(facts)}",
    "parents": lambda facts, clock: f"after {_more_jobs(facts)}",
    "paused": lambda facts, clock: "when resumed" if facts.get("at") is None else clock(_number(facts, "at")),
    "ahead": lambda facts, clock: f"after {count(_number(facts, 'ahead'), 'job')}" if facts.get("ahead") else "now",
    "worker": lambda facts, clock: "when a worker claims it" if facts.get("count") else "no worker for it",
    "slots": lambda facts, clock: "when a slot is free" if facts.get("slots") else "never: no slots",
    "key": lambda facts, clock: f"key {facts['key']} is full",
    "group": lambda facts, clock: f"group {facts['group']} is full",
    "rate": lambda facts, clock: f"{clock(_number(facts, 'at'))} (rate)",
}


def _number(facts: Facts, name: str) -> int:
    value = facts.get(name)
    return value if isinstance(value, int) else 0


def _job(facts: Facts) -> str:
    """Empty when the reason names no job."""
    return f"job {short_id(str(facts['job_id']))}" if facts.get("job_id") else ""


def _more_jobs(facts: Facts) -> str:
    return count(_number(facts, "count"), "more job")


def _holder(facts: Facts) -> str:
    """Who holds a reservation: the job that runs under it, or the client that has acquired it."""
    return _job(facts) or str(facts["reserved_by"])


def _until(facts: Facts, now: int) -> str:
    return duration(_number(facts, "at") - now)


def _time(facts: Facts, now: int, clock: Clock) -> str:
    at = _number(facts, "at")
    return f"scheduled for {clock(at)}, in {_until(facts, now)}" if at > now else "due now: it joins its queue"


def _idle(facts: Facts, now: int, clock: Clock) -> str:
    if facts.get("idle_for_ms") is not None:
        return f"idle for {duration(_number(facts, 'idle_for_ms'))} of {duration(_number(facts, 'idle_ms'))}"
    detail, known = (
        str(facts.get("detail") or "the machine has to be idle"),
        "" if facts.get("known") else "known to be ",
    )
    return detail if detail.startswith("the machine ") else f"not {known}idle: {detail}"


def _lane(facts: Facts, now: int, clock: Clock) -> str:
    ahead = _number(facts, "ahead")
    others = f", and {count(ahead, 'more job')} {'comes' if ahead == 1 else 'come'} before this one" if ahead else ""
    return (
        f"{_job(facts) or 'a job'} of the same subject {IN_LANE.get(str(facts.get('state')), 'has not ended')}{others}"
    )


def _paused(facts: Facts, now: int, clock: Clock) -> str:
    what = f"queue {facts['queue']} is paused" if facts.get("queue") else "every queue is paused"
    return f"{what} until {clock(_number(facts, 'at'))}" if facts.get("at") is not None else what


def _slots(facts: Facts, now: int, clock: Clock) -> str:
    queue, slots, needed = facts.get("queue"), facts.get("slots"), _number(facts, "needed")
    if slots is None:
        return "a slot has to be free"
    if slots == 0:
        return f"queue {queue} has no slots"
    of_queue = f" of {queue}" if queue else ""
    if needed > _number(facts, "slots"):
        return f"it needs {needed} slots, and {f'queue {queue}' if queue else 'the daemon'} has only {slots}"
    if needed:
        free = _number(facts, "slots") - _number(facts, "running")
        return f"it needs {needed} slots, {free} of {slots}{of_queue} are free"
    if facts["running"] == slots == 1:
        return f"the only slot{of_queue} is in use"
    return f"{facts['running']} of {slots} slots{of_queue} are in use"


def _key(facts: Facts, now: int, clock: Clock) -> str:
    return _full(facts, f"with the key {facts['key']}")


def _group(facts: Facts, now: int, clock: Clock) -> str:
    return _full(facts, f"of group {facts['group']}")


def _full(facts: Facts, which: str) -> str:
    """`which`: the jobs that are limited."""
    most = facts.get("slots")
    if most == 0:
        return f"no job {which} may run"
    if most == 1:
        return f"{_job(facts) or 'another job'} {which} has not ended"
    return f"{facts['running']} jobs {which} are running, and no more may"


def _rated(facts: Facts) -> str:
    return f"key {facts['key']}" if facts.get("key") else f"queue {facts['queue']}"


def _rate(facts: Facts, now: int, clock: Clock) -> str:
    return f"the rate of {_rated(facts)} lets the next job start {clock(_number(facts, 'at'))}, in {_until(facts, now)}"


def _worker(facts: Facts, now: int, clock: Clock) -> str:
    workers = facts.get("count")
    if workers is None:
        return "a worker has to claim it"
    if workers:
        return f"it waits for {'the worker' if workers == 1 else f'one of {workers} workers'} that may claim it"
    return f"no worker for it: none that is alive takes {facts['job_type']} jobs of queue {facts['queue']}"


def _running(facts: Facts, now: int, clock: Clock) -> str:
    since = facts.get("started_at")
    verb = "starting" if facts["kind"] == "starting" else "running"
    text = f"{verb} for {duration(now - _number(facts, 'started_at'))}" if since is not None else "just started"
    if facts.get("requested_at") is not None:
        return f"{text}, asked to stop {duration(now - _number(facts, 'requested_at'))} ago"
    if _number(facts, "max_attempts") > 1:
        text += f", attempt {facts['attempt']} of {facts['max_attempts']}"
    return text + ("; a newer job of its subject is known" if facts.get("stale") else "")


def _done(facts: Facts, now: int, clock: Clock) -> str:
    if facts.get("at") is None or facts.get("started_at") is None:
        return "done"
    return f"done in {duration(_number(facts, 'at') - _number(facts, 'started_at'))}"


def _skipped(facts: Facts, now: int, clock: Clock) -> str:
    if facts.get("limit") == "ttl":
        return "skipped: it waited for a slot longer than its TTL"
    return "skipped: its deadline passed before it started"


def _end(facts: Facts) -> str:
    """How another job has to end: is DONE, has ended, has ended as FAILED."""
    wanted = facts.get("value")
    return "is DONE" if wanted == "DONE" else f"has ended as {wanted}" if wanted else "has ended"


def _parent(facts: Facts, now: int, clock: Clock) -> str:
    """job 3f2a is still running; with the state that it has to end in, unless that is DONE."""
    current = PHRASES.get(str(facts.get("state")))
    if current is None:
        return f"it starts when {_job(facts)} {_end(facts)}"
    wanted = "" if facts.get("value") == "DONE" else f"; it starts when that {_end(facts)}"
    return f"{_job(facts)}, which it needs, {current}{wanted}"


# By the state of a job that another one waits for.
IN_LANE = {
    "RUNNING": "is still running", "QUEUED": "comes first and waits in its queue",
    "SCHEDULED": "keeps its turn until its next attempt",
}  # fmt: skip
PHRASES = {"RUNNING": "is still running", "QUEUED": "waits in its queue", "SCHEDULED": "has not started yet"}


def _cancelled(facts: Facts, now: int, clock: Clock) -> str:
    return f"cancelled: it needed {_job(facts)}, which ended as {facts['value']}" if _job(facts) else "cancelled"


RENDERERS: dict[str, Callable[[Facts, int, Clock], str]] = {
    "time": _time,
    "retry": lambda facts, now, clock: f"attempt {facts['attempt']} of {facts['max_attempts']} in {_until(facts, now)}",
    "debounce": lambda facts, now, clock: f"its subject has to be quiet for {_until(facts, now)} more",
    "event": lambda facts, now, clock: f"{_event(facts)} has not been emitted yet",
    "condition": lambda facts, now, clock: f"{_event(facts)} has not been emitted yet",
    "idle": _idle,
    "power": lambda facts, now, clock: str(facts.get("detail") or "the machine has to be on mains power"),
    "turn": lambda facts, now, clock: f"{_job(facts)} of the same schedule has not ended",
    "held": lambda facts, now, clock: f"held since {clock(_number(facts, 'since'))}" if facts.get("since") else "held",
    "reserved": lambda facts, now, clock: f"reserved by {_holder(facts)} until {clock(_number(facts, 'at'))}",
    "paused": _paused,
    "lane": _lane,
    "parent": _parent,
    "parents": lambda facts, now, clock: f"it waits for {_more_jobs(facts)}",
    "ahead": lambda facts, now, clock: (
        f"{facts['ahead']} ahead in {facts['queue']}" if facts.get("ahead") else "it is next in its queue"
    ),
    "slots": _slots,
    "key": _key,
    "group": _group,
    "rate": _rate,
    "stopped": lambda facts, now, clock: f"cancelled: {_job(facts)} of its group failed",
    "worker": _worker,
    "running": _running,
    "starting": _running,
    "stopping": _running,
    "done": _done,
    "failed": lambda facts, now, clock: f"failed: {facts.get('error') or facts.get('code')}",
    "superseded": lambda facts, now, clock: f"superseded by {_job(facts)}" if _job(facts) else "superseded",
    "cancelled": _cancelled,
    "skipped": _skipped,
    "archived": lambda facts, now, clock: f"archived {duration(now - _number(facts, 'at'))} ago: its files are deleted",
}
