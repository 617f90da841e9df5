"""`semantica run`: runs a command as a job and behaves like the command: its output, its exit code.

`interrupts` handles Ctrl-C.
"""

from collections.abc import Callable
from contextlib import suppress

from semantica_daemon import prose
from semantica_daemon.cli import (
    job_options,
    last_job,
    needs,
    other_folder,
    outcome,
    payload,
    progress_line,
    raw_terminal,
    run_now,
    stdin,
)
from semantica_daemon.cli.add import print_notes
from semantica_daemon.cli.command import Any, Command, Json, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.follow import copy_output, follow
from semantica_daemon.cli.interrupts import Detached, Interrupts
from semantica_daemon.cli.stdin import StdinSender
from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import CallRefused, ConnectionLost
from semantica_daemon.client.exit_codes import NO_DAEMON


def run(arguments: Any, terminal: Terminal) -> int:
    spec = job_options.job_spec(arguments)
    run_now.check(arguments, spec)
    job_id = ""
    with terminal.client() as client:
        other_folder.warn(client, terminal)
        sender = _sender(arguments, terminal)
        started = _start_now(client, terminal, arguments, spec, sender) if arguments.now else None
        interrupts = Interrupts(terminal, arguments.cancel_on_interrupt, sender)
        try:
            ack = _enqueue(client, terminal, spec, sender) if started is None else started
            job_id = ack["job_id"]
            last_job.remember(terminal.paths, job_id)
            interrupts.job_is_known(job_id)
            print_notes(terminal, ack, "generation" in spec and "force" not in spec)
            if sender is not None and not ack["existing"]:
                sender.start()
            code = _follow_to_end(client, terminal, ack, not arguments.command, sender)
            return interrupts.exit_code if interrupts.has_cancelled else code
        except Detached:
            return interrupts.exit_code
        except ConnectionLost as lost:
            terminal.before_note()
            if not job_id:
                raise
            name = prose.short_id(job_id)
            hint = f"`semantica wait {name}` waits for its end, `semantica logs {name}` shows its output"
            raise CommandFailed(f"{lost}; the end of job {name} is not known", hint, NO_DAEMON) from None


def _enqueue(client: Client, terminal: Terminal, spec: Json, sender: StdinSender | None) -> Json:
    spec["attach_id"] = client.call("job.attach")["attach_id"] if sender is None else sender.attach_id
    spec = needs.resolve(client, terminal.paths, spec)
    ack: Json = client.call("job.enqueue", **payload.complete(client, spec))
    return ack


def _start_now(client: Client, terminal: Terminal, arguments: Any, spec: Json, sender: StdinSender | None) -> Json:
    """Before signals are handled: Ctrl-C ends the wait for another reservation, and no job is stored."""
    spec["attach_id"] = client.call("job.attach")["attach_id"] if sender is None else sender.attach_id
    return run_now.execute(client, terminal, arguments.wait or 0, payload.complete(client, spec))


def _sender(arguments: Any, terminal: Terminal) -> StdinSender | None:
    """None when stdin is stored with the job, is the payload of a handler, or is empty."""
    is_used = arguments.stdin or arguments.payload == "-" or not (arguments.command or arguments.template)
    if arguments.pty and is_used:
        raise CommandFailed("--pty needs a command, and stdin for itself", "leave out --stdin and --payload")
    if arguments.pty:
        return StdinSender(terminal, raw_terminal.size())
    return StdinSender(terminal, None) if not is_used and stdin.is_piped() else None


def _follow_to_end(client: Client, terminal: Terminal, ack: Json, is_handler: bool, sender: StdinSender | None) -> int:
    job_id = ack["job_id"]
    show: Callable[[Json], None] = (lambda _: None) if terminal.as_json else copy_output
    if sender is None or not sender.has_terminal:
        show = progress_line.with_progress_line(client, terminal, job_id, show)
    try:
        with raw_terminal.RawTerminal(terminal, sender):
            end = follow(client, terminal, job_id, show, about_next_run=sender.about_next_run if sender else lambda: "")
    except BrokenPipeError:  # SIGPIPE would have ended the command itself
        with suppress(CallRefused, ConnectionLost):
            if not ack["existing"]:
                client.call("job.cancel", job_id=job_id, reason="nobody reads its output")
        raise
    if outcome.exit_code_is_enough(end) and not (terminal.as_json or is_handler):
        return outcome.exit_code(end)
    job = client.query("job.get", job_id=job_id)
    is_noted = ack["state"] == "SUPERSEDED" and not ack["existing"]  # by a warning of the ack
    if not (is_noted or outcome.exit_code_is_enough(job)):
        terminal.note(outcome.sentence(job, job_id))
    if terminal.as_json:
        terminal.print_json(job)
    elif job["result_summary"] is not None:
        terminal.print_json(job["result_summary"])
    return outcome.exit_code(job)


COMMAND = Command(
    "Run a command as a job and follow it: its output as it is written, its exit code. Ctrl-C leaves it running.",
    run,
    [*job_options.OF_RUN, run_now.OPTIONS],
    """
  semantica run -- make test
  semantica run --timeout 10m --attempts 3 -- ./flaky-test
  semantica run -Q build -p high -- cargo build --release
  semantica run --newest-wins src/a.py --on-running cancel -- pytest tests/test_a.py
  semantica run --cancel-on-interrupt -- ./simulate
  semantica run --now -- make hotfix             ahead of all jobs that wait
  git diff | semantica run -- wc -l

With --json the output stays in the log (`semantica logs`), and the ended job is printed.""",
    "[options] [--] COMMAND [ARGUMENT …]",
)
