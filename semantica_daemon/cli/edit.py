"""`semantica edit`: changes a job that waits: its priority, tag, time, command and variables."""

from semantica_daemon import prose
from semantica_daemon.cli import ids, payload
from semantica_daemon.cli.command import Any, Command, Json, Option, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.job_options import priority
from semantica_daemon.cli.times import instant
from semantica_daemon.client.client import Client
from semantica_daemon.client.exit_codes import DATA


def run(arguments: Any, terminal: Terminal) -> None:
    changes = _changes(arguments)
    needs_job = bool(arguments.env or arguments.command)
    if not changes and not needs_job:
        raise CommandFailed("edit: nothing to change is given", "`semantica edit --help` describes its options")
    with terminal.client() as client:
        job_id = ids.resolve(client, terminal.paths, arguments.id)
        if needs_job:
            changes |= _command(client, job_id, arguments)
        job = client.call("job.update", job_id=job_id, **changes)
    terminal.show(job, [job["job_id"]])
    terminal.note(f"job {prose.short_id(job['job_id'])} is changed; it is {job['state']}")


def _changes(arguments: Any) -> Json:
    changes: Json = {}
    if arguments.priority is not None:
        changes["priority"] = arguments.priority
    if arguments.tag is not None:
        changes["user_tag"] = arguments.tag or None
    if arguments.at is not None:
        changes["scheduled_at"] = arguments.at
    if arguments.payload is not None:
        changes["payload"] = payload.given_object(arguments.payload)
    return changes


def _command(client: Client, job_id: str, arguments: Any) -> Json:
    """The command takes the place of the old one, in the same folder; variables are added to the others. The daemon
    keeps what the job has gathered, and a secret whose value is given as it was shown."""
    job, changes = client.call("job.get", job_id=job_id), {}
    if arguments.command:
        if arguments.payload is not None:
            raise CommandFailed("a command and --payload are both given", "give only one of them")
        if "argv" not in (job["payload"] or {}):
            hint = "--payload changes what its handler gets"
            raise CommandFailed(f"job {prose.short_id(job['job_id'])} runs no command", hint, DATA)
        argv = [payload.check_text(word, "the command") for word in arguments.command]
        kept = {name: value for name, value in job["payload"].items() if not name.startswith("gathered")}
        changes["payload"] = {**kept, "argv": argv}
    if arguments.env:
        changes["env_vars"] = {**(job["env_vars"] or {}), **payload.named_texts(arguments)}
    return changes


OPTIONS = [
    ids.ONE_JOB,
    Option("-p, --priority P", "low, normal, high, or -100 to 100; it goes to the back of this priority", priority),
    Option("-t, --tag TAG", "another tag; '' removes it"),
    Option("--at WHEN", "not before this time; now: as soon as it can", instant),
    Option("-e, --env NAME[=VALUE]", action="append", default=[],
           help="set a variable: to yours, or to this value; the others stay"),
    Option("--payload JSON", "for a handler; - reads stdin, @FILE a file"),
]  # fmt: skip
COMMAND = Command(
    "Change a job that waits. Its command, variables and payload can be changed only before its first run.",
    run,
    OPTIONS,
    """
  semantica edit @last --priority high
  semantica edit 3f2a --at 'tomorrow 02:00' --tag nightly
  semantica edit 3f2a --env MODE=slow -- make test
  semantica edit 3f2a --at now""",
    "ID [options] [-- COMMAND [ARGUMENT …]]",
    after_dashes=True,
)
