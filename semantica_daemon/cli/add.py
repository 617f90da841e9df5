"""`semantica add`: adds a job to the queue and prints its id; with --every it makes a schedule of the command."""

import os
import socket
import time

from semantica_daemon import prose
from semantica_daemon.cli import job_options, last_job, needs, other_folder, payload, repeat, schedule
from semantica_daemon.cli.command import Any, Command, Group, Json, Option, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.format import now
from semantica_daemon.cli.shell_hint import shell_hint
from semantica_daemon.client.client import LIVE_STATES, result
from semantica_daemon.client.connection import Connection


def run(arguments: Any, terminal: Terminal) -> None:
    if arguments.every is not None:
        return _add_schedule(arguments, terminal)
    if arguments.each:
        from semantica_daemon.cli import each  # noqa: PLC0415

        return each.add(arguments, terminal)
    for one in EVERY.options:
        if getattr(arguments, one.dest) is not None:
            raise CommandFailed(f"add: --{one.dest} needs --every", "--every 'daily 03:00' makes a schedule")
    spec, since = job_options.job_spec(arguments), now()
    with terminal.client() as client:
        other_folder.warn(client, terminal)
        spec = needs.resolve(client, terminal.paths, spec)
        ack = client.call("job.enqueue", **payload.complete(client, spec))
    _print_ack(terminal, ack, "generation" in spec and "force" not in spec)
    if (hint := shell_hint(arguments.command)) and not os.path.exists(arguments.command[0]):
        terminal.note(f"there may be no command of this name: {hint}")
    reasons = job_options.start_reasons(spec, since) if ack["state"] == "SCHEDULED" and not ack["existing"] else []
    if text := prose.start(reasons, since, lambda at: prose.instant(at, since)):
        terminal.note(f"job {prose.short_id(ack['job_id'])} starts {text}")


def finish(descriptor: int, received: bytes, quiet: bool) -> int:
    """Goes on with a job that the fast path has sent: `received` is the part of the reply that it has read."""
    terminal = Terminal(quiet=quiet)
    connection = Connection(socket.socket(fileno=descriptor), terminal.note, received)
    _print_ack(terminal, result(connection.receive(time.monotonic())))
    return 0


def _print_ack(terminal: Terminal, ack: Json, can_be_forced: bool = False) -> None:
    last_job.remember(terminal.paths, ack["job_id"])
    terminal.show(ack, [ack["job_id"]])
    print_notes(terminal, ack, can_be_forced)


def print_notes(terminal: Terminal, ack: Json, can_be_forced: bool = False) -> None:
    """Prints what an ack has besides the id. `can_be_forced`: the job was found by its generation, without
    --force."""
    name = prose.short_id(ack["job_id"])
    if ack["existing"]:
        again = "; --force runs it again" if can_be_forced and ack["state"] not in LIVE_STATES else ""
        terminal.note(f"this is job {name}, which was added before; it is {ack['state']}{again}")
    if ack["superseded"]:
        older = prose.count(len(ack["superseded"]), "older job")
        terminal.note(f"job {name} supersedes {older}: {', '.join(map(prose.short_id, ack['superseded'][:5]))}")
    for warning in ack["warnings"]:
        terminal.note(warning)


def _add_schedule(arguments: Any, terminal: Terminal) -> None:
    from semantica_daemon.cli import repeated_command  # noqa: PLC0415

    if arguments.each:
        raise CommandFailed("--every and --each are both given", "give only one of them")
    if arguments.template is not None:
        hint = f"semantica schedule put NAME --template {arguments.template} --every '{arguments.every}'"
        raise CommandFailed("--every makes a template of its own", hint)
    repeated_command.put(arguments, terminal, "--every", repeat.fields(arguments.every))


EVERY = Group("schedules", [
    Option("--every WHEN", schedule.EVERY_HELP, repeat.check),
    schedule.ZONE,
    Option("--name NAME", "name of the schedule and its template (default: by the command)"),
    *schedule.POLICIES,
], "make a schedule instead of a job; prints the schedule's name")  # fmt: skip
EACH = Group("many jobs", [
    Option("--each", "add one job for each line of stdin, which takes the place of {} in the command"),
], "{} in --subject, --key, --tag, --group and the values of --env stands for the line as well")  # fmt: skip
COMMAND = Command(
    "Add a job to the queue and return at once. Prints its id.",
    run,
    [*job_options.OF_ADD, EACH, EVERY],
    """
  semantica add -- make test
  semantica add --at 'tomorrow 02:00' -t nightly -- ./backup.sh
  semantica add --when-idle --on-power --stop-when-lost -- ./reindex
  semantica add --on-event git:commit=main -- make docs
  semantica add --needs 3f2a,@last -- ./deploy       when both jobs are DONE
  semantica add --on-event job:3f2a=failed -- ./page-me
  semantica add --newest-wins a.py --debounce 2s --max-wait 30s -- lint a.py
  semantica add --every 10m --jitter 30s --name poll -- ./poll.sh
  semantica add --every 'daily 03:00' --name backup -- ./backup.sh
  semantica add --newest-wins a.py -- lint a.py      save ten times: one run, of the newest
  semantica add -s repo --gather --debounce 2s -- ./lint a.py      one run, which knows all the files
  semantica add -s deploy --append -- ./release.sh v2      after those added before, and none is dropped
  git ls-files '*.py' | semantica add --each -t lint -- ruff check {}
  semantica add --type INDEX_FILE --payload '{"path": "a.py"}'
  id=$(semantica add -q -- make) && semantica wait $id""",
    job_options.USAGE_LINE.format("add"),
)
