"""Ctrl-C, SIGTERM and SIGHUP for `semantica run`: the command detaches from its job, or cancels the job."""

import signal

from semantica_daemon import prose
from semantica_daemon.cli.stdin import StdinSender
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.client import WAITING_STATES, Client
from semantica_daemon.client.errors import CallRefused, ConnectionLost, NoDaemon
from semantica_daemon.client.exit_codes import INTERRUPTED, SIGNALLED
from semantica_daemon.client.json_types import Any

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
AGAIN_WITHIN_S = 2
CALL_TIMEOUT_S = 2


class Detached(BaseException):
    """Raised by a signal that ends `semantica run`; the note about it is printed already."""


class CallTimedOut(BaseException):
    """No TimeoutError: the connection handles that itself, and goes on waiting."""


class Interrupts:
    """Handles signals from its construction on. Before the job's id is known the first signal is only kept."""

    def __init__(self, terminal: Terminal, cancel_at_once: bool, stdin: StdinSender | None) -> None:
        self.exit_code = INTERRUPTED
        self.has_cancelled = False
        self._terminal = terminal
        self._cancel_at_once = cancel_at_once
        self._stdin = stdin
        self._job_id = ""
        self._early = 0  # a signal that came before the id
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # keeps the effect of nohup
                signal.signal(number, self._handle)

    def job_is_known(self, job_id: str) -> None:
        self._job_id = job_id
        if self._early:
            self._interrupt(self._early)

    def _handle(self, number: int, frame: object) -> None:
        self.exit_code = SIGNALLED + number
        if self._job_id:
            self._interrupt(number)
        elif self._early:
            self._detach("interrupted before the daemon answered; `semantica list` shows whether it has the job")
        else:
            self._early = number

    def _interrupt(self, number: int) -> None:
        """Returns when the job is being cancelled: its output is then followed to the end. Raises Detached if not."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        name = prose.short_id(self._job_id)
        if self.has_cancelled:
            self._detach(f"job {name} is still ending; `semantica wait {name}` waits for its end")
        if not self._cancel_at_once:
            self._wait_for_another(number, name)
        self.has_cancelled = True
        self._terminal.note(f"cancelling job {name}; another Ctrl-C stops waiting for its end")
        if self._call("job.cancel", reason="interrupted") is None:
            self._detach(f"the daemon does not answer; `semantica cancel {name}` tries again")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _wait_for_another(self, number: int, name: str) -> None:
        """Raises Detached unless Ctrl-C is pressed twice."""
        job = self._call("job.get")
        what = "stays in the queue" if job is not None and job["state"] in WAITING_STATES else "goes on"
        is_ctrl_c = number == signal.SIGINT
        how = f"follow it with `semantica logs -f {name}`, cancel it with `semantica cancel {name}`"
        ends = "; its stdin ends now" if self._stdin is not None and self._stdin.is_open else ""
        self._terminal.note(f"job {name} {what}; {how}{' or another Ctrl-C now' if is_ctrl_c else ''}{ends}")
        if not is_ctrl_c or next_signal(AGAIN_WITHIN_S) != signal.SIGINT:
            raise Detached

    def _call(self, method: str, **params: Any) -> Any:
        """The result, or None if no answer comes. The call has a connection of its own, because the other one may be
        in the middle of a reply."""
        signal.signal(signal.SIGALRM, _end_call)
        signal.setitimer(signal.ITIMER_REAL, CALL_TIMEOUT_S)
        try:
            with Client(self._terminal.paths, autostart=False) as client:
                return client.call(method, job_id=self._job_id, **params)
        except (CallTimedOut, CallRefused, ConnectionLost, NoDaemon):
            return None
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _detach(self, note: str) -> None:
        """Leaves further signals blocked, so that the note is printed."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self._terminal.note(note)
        raise Detached


def next_signal(seconds: float) -> int:
    """The number of the next blocked signal; SIGALRM if none comes in time. macOS has no sigtimedwait."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGALRM,))
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        return signal.sigwait((*SIGNALS, signal.SIGALRM))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_IGN)  # discards an alarm that came together with another signal
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))


def _end_call(number: int, frame: object) -> None:
    raise CallTimedOut
