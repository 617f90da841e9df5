"""`semantica run`: runs a command as a job and behaves like the command: its output, its exit code; Ctrl-C detaches."""

import signal

from semantica_daemon import prose
from semantica_daemon.cli import job_options, last_job, outcome, payload, progress_line
from semantica_daemon.cli.add import print_notes
from semantica_daemon.cli.command import Any, Command, Terminal
from semantica_daemon.cli.errors import CommandFailed
from semantica_daemon.cli.follow import copy_output, follow
from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import CallRefused, ConnectionLost, NoDaemon
from semantica_daemon.client.exit_codes import INTERRUPTED, NO_DAEMON, SIGNALLED

STATE_TIMEOUT_S = 2
WAKE_EVERY_S = 0.5
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Detached(BaseException):
    """Raised when a signal detaches the command from its job."""


class DetachOnSignal:
    """From here on Ctrl-C, SIGTERM and SIGHUP raise Detached: at once, or as soon as the job's id is known (`allow`).
    A second signal does not wait for the id."""

    def __init__(self) -> None:
        self.exit_code = INTERRUPTED
        self._allowed = False
        self._signalled = False
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # keeps the effect of nohup
                signal.signal(number, self._handle)
        # Python handles a signal that comes just before a read blocks only when the read ends or another signal comes.
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.setitimer(signal.ITIMER_REAL, WAKE_EVERY_S, WAKE_EVERY_S)

    def allow(self) -> None:
        self._allowed = True
        if self._signalled:
            self._detach()

    def _handle(self, number: int, frame: object) -> None:
        again, self._signalled = self._signalled, True
        self.exit_code = SIGNALLED + number
        if again or self._allowed:
            self._detach()

    def _detach(self) -> None:
        """Ignores further signals, so that the last note is printed."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise Detached


def run(arguments: Any, terminal: Terminal) -> int:
    spec = job_options.job_spec(arguments)
    job_id = ""
    with terminal.client() as client:
        detach = DetachOnSignal()
        try:
            ack = client.call("job.enqueue", **payload.complete(client, spec))
            job_id = ack["job_id"]
            last_job.remember(terminal.paths, job_id)
            detach.allow()
            print_notes(terminal, ack, "generation" in spec)
            return _follow_to_end(client, terminal, job_id, not arguments.command)
        except Detached:
            _print_how_to_return(terminal, job_id)
            return detach.exit_code
        except ConnectionLost as lost:
            terminal.before_note()
            if not job_id:
                raise
            name = prose.short_id(job_id)
            hint = f"`semantica wait {name}` waits for its end, `semantica logs {name}` shows its output"
            raise CommandFailed(f"{lost}; the end of job {name} is not known", hint, NO_DAEMON) from None


def _print_how_to_return(terminal: Terminal, job_id: str) -> None:
    if not job_id:
        return terminal.note("interrupted before the daemon answered; `semantica list` shows whether it has the job")
    name = prose.short_id(job_id)
    what = "stays in the queue" if _is_waiting(terminal, job_id) else "goes on"
    return_by = f"follow it with `semantica logs -f {name}`, end it with `semantica cancel {name}`"
    terminal.note(f"job {name} {what}; {return_by}")


def _is_waiting(terminal: Terminal, job_id: str) -> bool:
    """Asks over a new connection, because the old one may be in the middle of a reply; False when no answer comes."""
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, STATE_TIMEOUT_S)
    try:
        with Client(terminal.paths, autostart=False) as client:
            return client.call("job.get", job_id=job_id)["state"] in ("QUEUED", "SCHEDULED")
    except (Detached, CallRefused, ConnectionLost, NoDaemon):
        return False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _give_up(number: int, frame: object) -> None:
    raise Detached


def _follow_to_end(client: Client, terminal: Terminal, job_id: str, is_handler: bool) -> int:
    show = progress_line.around(client, terminal, job_id, (lambda _: None) if terminal.as_json else copy_output)
    end = follow(client, terminal, job_id, show)
    if outcome.exit_code_is_enough(end) and not (terminal.as_json or is_handler):
        return outcome.exit_code(end)
    job = client.call("job.get", job_id=job_id)
    if not outcome.exit_code_is_enough(job):
        terminal.note(outcome.sentence(job, job_id))
    if terminal.as_json:
        terminal.print_json(job)
    elif job["result_summary"] is not None:
        terminal.print_json(job["result_summary"])
    return outcome.exit_code(job)


COMMAND = Command(
    "Run a command as a job and follow it: its output as it is written, its exit code. Ctrl-C leaves it running.",
    run,
    job_options.OF_RUN,
    """
  semantica run -- make test
  semantica run --timeout 10m --attempts 3 -- ./flaky-test
  semantica run -Q build -p high -- cargo build --release
  semantica run --newest-wins src/a.py --on-running cancel -- pytest tests/test_a.py
  git diff | semantica run --stdin -- wc -l

With --json the output stays in the log (`semantica logs`), and the ended job is printed.""",
    "[options] [--] COMMAND [ARGUMENT …]",
)
