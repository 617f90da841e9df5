"""`semantica why`: why a job has not started, rendered from the typed reasons of job.explain in the user's zone."""

from semantica_daemon import prose
from semantica_daemon.cli import ids
from semantica_daemon.cli.command import Any, Command, Json, Terminal
from semantica_daemon.cli.format import clean, instant_and_delay, now
from semantica_daemon.client.client import Client

SOON_MS = 500
WAITING = ("QUEUED", "SCHEDULED")


def run(arguments: Any, terminal: Terminal) -> None:
    with terminal.client() as client:
        for text in arguments.id:
            found = client.call("job.explain", job_id=ids.resolve(client, terminal.paths, text))
            if terminal.as_json:
                terminal.print_json(found, lines=len(arguments.id) > 1)
                continue
            state = "waiting: " if found["state"] in WAITING else ""
            terminal.print(f"job {prose.short_id(found['job_id'])}: {state}{'; '.join(_reasons(found))}")
            for line in [] if terminal.quiet else _details(found):
                terminal.print(f"  {line}")


def _reasons(found: Json) -> list[str]:
    since = now()
    return [clean(_sentence(reason, since)) for reason in found["reasons"]]


def _sentence(reason: Json, since: int) -> str:
    text = prose.reason(reason, since, lambda at: prose.instant(at, since))
    if reason["kind"] != "paused":
        return text
    queue = f" {reason['queue']}" if reason.get("queue") else ""
    return f"{text} (`semantica queue resume{queue}` resumes it)"


def _details(found: Json) -> list[str]:
    """Each reason on a line when there are several, the position in the queue, and the likely start."""
    rows = _reasons(found) if len(found["reasons"]) > 1 else []
    position, at, since = found["queue_position"], found["estimated_start_at"], now()
    if position is not None:
        before = f"{prose.count(position, 'job')} of its queue before it"
        rows.append(before if position else "it is the next of its queue")
    is_shown = at in [reason.get("at") for reason in found["reasons"] if reason["kind"] == "time"]
    if at is not None and at > since and not is_shown:
        rows.append(f"starts about {instant_and_delay(at, since)}")
    return rows


def waiting_for(client: Client, job_id: str) -> str | None:
    """The reasons as one line; None when the job does not wait, or starts within half a second."""
    found = client.call("job.explain", job_id=job_id)
    at = found["estimated_start_at"] if found["state"] == "SCHEDULED" else None
    if found["state"] not in WAITING or (at is not None and at - now() < SOON_MS):
        return None
    return "; ".join(_reasons(found))


COMMAND = Command(
    "Why a job has not started, or how it ended; when it is likely to start.",
    run,
    [ids.JOBS],
    """
  semantica why @last
  semantica list -q --state waiting | xargs semantica why

With --json: the result of job.explain, one line for each job.""",
)
