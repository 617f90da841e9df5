"""`semantica run`: a job that behaves like the command itself, with output, exit code and a way to leave."""

import os
import select
import signal
from collections.abc import Callable

from semantica_daemon.client import ids, outcome, output, spec, why, work
from semantica_daemon.client.adding import one_job, tell
from semantica_daemon.client.codes import INTERRUPTED, NO_DAEMON, SIGNALLED
from semantica_daemon.client.connection import ENDS, Client, ConnectionLost
from semantica_daemon.client.parser import Command, Namespace
from semantica_daemon.client.shapes import Json
from semantica_daemon.client.terminal import Failed, Terminal, unwritable

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
SOON_MS = 500
CUT = "the log is not whole: some of the output could not be kept (`semantica events --job ID` says why)"
DESCRIPTORS = {"stdout": 1, "stderr": 2}


class Detached(BaseException):
    """The user leaves; the job goes on."""


class Leaving:
    """From here on Ctrl-C, SIGTERM and SIGHUP mean to leave: at once, or as soon as the job is known (`release`)."""

    def __init__(self) -> None:
        self.code = INTERRUPTED
        self._held = True
        self._wanted = False
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup stays nohup
                signal.signal(number, self._arrived)

    def release(self) -> None:
        self._held = False
        if self._wanted:
            self._leave()

    def _arrived(self, number: int, frame: object) -> None:
        again, self._wanted = self._wanted, True
        self.code = SIGNALLED + number
        if again or not self._held:
            self._leave()

    def _leave(self) -> None:
        """Once: who leaves is not to be hurried."""
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
        raise Detached


def run(arguments: Namespace, terminal: Terminal) -> int:
    asked = spec.job_spec(arguments)
    job_id = ""
    with terminal.client() as client:
        leaving = Leaving()
        try:
            ack = client.call("job.enqueue", **work.completed(client, asked))
            job_id = ack["job_id"]
            ids.remember(terminal.where, job_id)
            leaving.release()
            tell(terminal, ack)
            return _followed(client, terminal, job_id, not arguments.command)
        except Detached:
            _say_left(terminal, job_id)
            return leaving.code
        except ConnectionLost as lost:
            if not job_id:
                raise
            hint = f"`semantica wait {ids.short(job_id)}` tells how it ends, `semantica logs` what it writes"
            raise Failed(f"{lost}; what becomes of job {ids.short(job_id)} is not known", NO_DAEMON, hint) from None


def _say_left(terminal: Terminal, job_id: str) -> None:
    if not job_id:
        terminal.chat("left before the daemon has answered; `semantica list` shows whether it took the job")
        return
    name = ids.short(job_id)
    terminal.chat(
        f"job {name} goes on; come back with `semantica logs -f {name}`, end it with `semantica cancel {name}`"
    )


def _followed(client: Client, terminal: Terminal, job_id: str, is_handler: bool) -> int:
    end = follow(client, terminal, job_id, (lambda _: None) if terminal.as_json else write)
    if not outcome.is_plain(end):
        by = client.call("job.get", job_id=job_id)["superseded_by"] if end["state"] == "SUPERSEDED" else None
        terminal.chat(outcome.sentence(end, job_id, by))
    if terminal.as_json:
        terminal.document(client.call("job.get", job_id=job_id))
    elif is_handler and end["state"] == "DONE":
        result = client.call("job.get", job_id=job_id)["result_summary"]
        if result is not None:
            terminal.document(result)
    return outcome.code(end)


def follow(
    client: Client, terminal: Terminal, job_id: str, write: Callable[[Json], None], after: Json | None = None
) -> Json:
    """Writes what the job writes until it has ended, and says why it waits; the last answer of job.logs."""
    run_id, asked = after["run_id"] if after else None, False
    for reply in output.replies(client, job_id, SOON_MS, after):
        if reply["run_id"] is None and not (asked or reply["eof"]):
            asked = True
            _say_why(client, terminal, job_id)
        if run_id is not None and reply["run_id"] != run_id:
            terminal.chat(f"attempt {reply['run']} of job {ids.short(job_id)} begins")
        run_id = reply["run_id"]
        write(reply)
        if reply["eof"] and reply["truncated"]:
            terminal.chat(CUT)
        if reply["eof"] and reply["state"] not in ENDS:
            _say_why(client, terminal, job_id)
    return reply


def _say_why(client: Client, terminal: Terminal, job_id: str) -> None:
    if not terminal.quiet and (reason := why.waits(client, job_id)) is not None:
        terminal.chat(f"job {ids.short(job_id)} waits: {reason}")


def write(reply: Json) -> None:
    for stream, data in output.pieces(reply):
        put(DESCRIPTORS[stream], data)


def put(descriptor: int, data: bytes) -> None:
    """All of it, also where somebody has made the terminal non-blocking."""
    rest = memoryview(data)
    while rest:
        try:
            rest = rest[os.write(descriptor, rest) :]
        except BlockingIOError:
            select.select([], [descriptor], [])
        except BrokenPipeError:
            raise
        except OSError as error:
            raise unwritable(error) from None


RUN = Command(
    "Run a command as a job and follow it: its output as it comes, its exit code. Ctrl-C leaves it running.",
    run,
    one_job,
    """
  semantica run -- make test
  semantica run --timeout 10m --attempts 3 -- ./flaky-test
  semantica run -Q build -p high -- cargo build --release
  semantica run --newest-wins src/a.py --on-running cancel -- pytest tests/test_a.py
  git diff | semantica run --stdin -- wc -l

With --json the output stays in the log (`semantica logs`), and the ended job is printed.""",
    "[options] [--] COMMAND [ARGUMENT …]",
)
