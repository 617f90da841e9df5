"""`semantica why`: why a job has not started, rendered from the typed reasons of job.explain in the user's zone."""

from semantica_daemon import prose
from semantica_daemon.cli import ids
from semantica_daemon.cli.command import Any, Command, Json, Terminal
from semantica_daemon.cli.format import clean, now
from semantica_daemon.client.client import WAITING_STATES, Client

SOON_MS = 500


def run(arguments: Any, terminal: Terminal) -> None:
    with terminal.client() as client:
        for text in arguments.id:
            found = client.call("job.explain", job_id=ids.resolve(client, terminal.paths, text))
            if terminal.as_json:
                terminal.print_json(found, lines=len(arguments.id) > 1)
                continue
            _print(terminal, found, _reasons(found))


def _print(terminal: Terminal, found: Json, reasons: list[str]) -> None:
    """One reason on the line of the job, several on a line each; with --quiet all of them on the line of the job."""
    is_one_line = terminal.quiet or len(reasons) == 1
    state = "waiting" if found["state"] in WAITING_STATES else ""
    parts = [f"job {prose.short_id(found['job_id'])}", state, "; ".join(reasons) if is_one_line else ""]
    terminal.print(": ".join(filter(None, parts)))
    for line in [] if terminal.quiet else [*([] if is_one_line else reasons), *_expectation(found)]:
        terminal.print(f"  {line}")


def _reasons(found: Json) -> list[str]:
    since = now()
    return [clean(_sentence(reason, since)) for reason in found["reasons"]]


def _sentence(reason: Json, since: int) -> str:
    text = prose.reason(reason, since, lambda at: prose.instant(at, since))
    if reason["kind"] == "held":
        return f"{text} (`semantica release` lets it start)"
    if reason["kind"] != "paused":
        return text
    queue = f" {reason['queue']}" if reason.get("queue") else ""
    return f"{text} (`semantica queue resume{queue}` resumes it)"


def _expectation(found: Json) -> list[str]:
    """The place in the queue and the likely start, unless a reason names it."""
    kinds, at, since = [reason["kind"] for reason in found["reasons"]], found["estimated_start_at"], now()
    is_next = found["queue_position"] == 0 and not {"ahead", "worker"} & set(kinds)
    rows = ["it is next in its queue"] if is_next else []
    if at is not None and at > since and at not in [reason.get("at") for reason in found["reasons"]]:
        seconds = -(-(at - since) // 1000)  # an estimate: whole seconds, at least one
        rows.append(f"starts about {prose.instant(at, since)}, in {prose.duration(seconds * 1000)}")
    return rows


def waiting_for(client: Client, job_id: str) -> str | None:
    """The reasons as one line; None when the job does not wait, or starts within half a second."""
    found = client.call("job.explain", job_id=job_id)
    at = found["estimated_start_at"] if found["state"] == "SCHEDULED" else None
    if found["state"] not in WAITING_STATES or (at is not None and at - now() < SOON_MS):
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
