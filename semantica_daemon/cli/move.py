"""`semantica move`: gives a waiting job another place in its queue."""

from semantica_daemon import prose
from semantica_daemon.cli import ids
from semantica_daemon.cli.command import Any, Command, Group, Json, Option, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.client.client import Client


def run(arguments: Any, terminal: Terminal) -> None:
    with terminal.client() as client:
        where = _where(client, arguments, terminal)
        job_id = ids.resolve(client, terminal.paths, arguments.id)
        moved = client.call("job.move", job_id=job_id, **where)
        found = client.call("job.explain", job_id=job_id)
    terminal.show(moved, [found["job_id"]])
    ahead = found["queue_position"]
    if ahead is not None:
        place = "is next in its queue" if ahead == 0 else f"has {prose.count(ahead, 'job')} ahead of it"
        terminal.note(f"job {prose.short_id(found['job_id'])} {place}; its priority is {moved['priority']}")


def _where(client: Client, arguments: Any, terminal: Terminal) -> Json:
    if arguments.front or arguments.back:
        return {"to": "front" if arguments.front else "back"}
    for name in ("before", "after"):
        if (other := getattr(arguments, name)) is not None:
            return {name: ids.resolve(client, terminal.paths, other)}
    raise CommandFailed("move: no place is given", "give one of --front, --back, --before ID, --after ID")


WHERE = Group("", [
    Option("--front", "first of all jobs of its queue"),
    Option("--back", "last of all jobs of its queue"),
    Option("--before ID", "directly before this job of the same queue", ids.check),
    Option("--after ID", "directly after this job of the same queue", ids.check),
])  # fmt: skip
COMMAND = Command(
    "Give a job that waits for a slot another place in its queue. It takes the priority of the jobs that it is put "
    "between.",
    run,
    [ids.ONE_JOB, WHERE],
    """
  semantica move @last --front
  semantica move 3f2a --before 77c0
  semantica move 3f2a --back""",
)
