"""`semantica run --now`: the job starts at once, ahead of all others, under a reservation that ends with it."""

from semantica_daemon.cli import reservations
from semantica_daemon.cli.command import Any, Group, Json, Option, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.client.client import Client

# By the field of the job: the options that make it wait.
WAITS = {
    "schedule": "a time, an event or the machine", "debounce_ms": "--debounce", "parents": "--needs",
    "hold": "--hold",
}  # fmt: skip
OPTIONS = Group("at once", [
    Option("--now", "start it now, ahead of all jobs and even if no slot is free; no other job starts before it ends"),
    reservations.WAIT,
])  # fmt: skip


def check(arguments: Any, spec: Json) -> None:
    if not arguments.now and arguments.wait is not None:
        raise CommandFailed("--wait needs --now", "without --now a job waits for its turn anyway")
    for field, what in WAITS.items() if arguments.now else ():
        if field in spec:
            raise CommandFailed(f"--now starts it at once: it cannot wait for {what}", "leave out one of them")


def execute(client: Client, terminal: Terminal, wait_ms: int, spec: Json) -> Json:
    """The job in the shape of the reply to job.enqueue."""
    done = reservations.call(client, terminal, "job.execute", wait_ms, **spec, wait_for="start")
    job = done["job"]
    return {**done, **{name: job[name] for name in ("job_id", "queue", "state", "generation")}}
