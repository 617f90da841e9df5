"""`semantica why`: what a job waits for, in the daemon's own words; `run` says the same while its job waits."""

from semantica_daemon.client import ids, spec, times, words
from semantica_daemon.client.connection import Client
from semantica_daemon.client.parser import Command, Namespace, Parser, of
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.terminal import Terminal

SOON_MS = 500
WAITING = ("QUEUED", "SCHEDULED")


def why(arguments: Namespace, terminal: Terminal) -> int:
    with terminal.client() as client:
        for text in arguments.id:
            found = client.call("job.explain", job_id=ids.resolve(client, terminal.where, text))
            if terminal.as_json:
                terminal.document(found, lines=len(arguments.id) > 1)
                continue
            terminal.data(f"job {ids.short(found['job_id'])}: {_summary(found)}")
            for line in [] if terminal.quiet else _more(found):
                terminal.data(f"  {line}")
    return 0


def _summary(found: Json) -> str:
    """While it waits in words of ours: the daemon's zone need not be the user's."""
    if found["state"] in WAITING:
        return f"it waits: {'; '.join(_reasons(found))}"
    return words.clean(spec.in_words_of_the_line(found["summary"]))


def _reasons(found: Json) -> list[str]:
    return [words.clean(_said(reason)) for reason in found["reasons"]]


def _said(reason: Json) -> str:
    """In the user's zone, and in words of the line."""
    at, now = reason.get("at") or 0, words.now()
    if reason["kind"] == "time" and at > now:
        return f"scheduled for {times.when(at, now)}"
    if reason["kind"] == "paused":
        until = f" until {times.day(at, now)}" if at else ""
        queue = reason.get("queue")
        what = f"queue {queue} is" if queue else "every queue is"
        return f"{what} paused{until} (`semantica queue resume{f' {queue}' if queue else ''}`)"
    return spec.in_words_of_the_line(reason["message"].removeprefix("waits "))


def _more(found: Json) -> list[str]:
    """Each reason by itself when there are several, its place, and when it is likely to start if none says so."""
    rows = _reasons(found) if len(found["reasons"]) > 1 else []
    place, at, now = found["queue_position"], found["estimated_start_at"], words.now()
    if place is not None:
        rows.append(
            "it is the next of its queue" if place == 0 else f"{words.many(place, 'job')} of its queue before it"
        )
    told = at in [reason.get("at") for reason in found["reasons"] if reason["kind"] == "time"]
    return [*rows, f"starts about {times.when(at, now)}"] if at is not None and at > now and not told else rows


def waits(client: Client, job_id: str) -> str | None:
    """The rest of a sentence that begins "job … waits: "; None when it does not wait any more, or not for long."""
    found = client.call("job.explain", job_id=job_id)
    at = found["estimated_start_at"] if found["state"] == "SCHEDULED" else None
    if found["state"] not in WAITING or (at is not None and at - words.now() < SOON_MS):
        return None
    return "; ".join(_reasons(found))


def options(parser: Parser) -> None:
    parser.add_argument("id", nargs="+", type=of(ids.check), metavar="ID", help="ids, beginnings of ids, or @last")


WHY = Command(
    "Why a job has not started yet, or what has become of it; when it may start.",
    why,
    options,
    """
  semantica why @last
  semantica list -q --state waiting | xargs semantica why

With --json: the answer of job.explain, one line for each job.""",
)
