"""Ctrl-C, SIGTERM and SIGHUP for `semantica map`: its jobs go on in the daemon, and a second Ctrl-C cancels them."""

import signal

from semantica_daemon import prose
from semantica_daemon.cli.interrupts import AGAIN_WITHIN_S, SIGNALS, Detached, next_signal
from semantica_daemon.cli.map_run import MapRun
from semantica_daemon.cli.terminal import Terminal
from semantica_daemon.client.exit_codes import INTERRUPTED, SIGNALLED


class MapInterrupts:
    """Handles signals from its construction on."""

    def __init__(self, terminal: Terminal, run: MapRun) -> None:
        self.exit_code = INTERRUPTED
        self.has_cancelled = False
        self._terminal = terminal
        self._run = run
        for number in SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:  # keeps the effect of nohup
                signal.signal(number, self._handle)

    def _handle(self, number: int, frame: object) -> None:
        self.exit_code = SIGNALLED + number
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        name = self._run.record.name
        if self.has_cancelled:
            self._terminal.note(f"map {name} is still ending; `semantica map --resume {name}` waits for its end")
            return self._detach()
        if self._run.wants_detach:
            raise Detached
        self._terminal.note(self._goes_on(name, number == signal.SIGINT))
        if number != signal.SIGINT or next_signal(AGAIN_WITHIN_S) != signal.SIGINT:
            return self._detach()
        self.has_cancelled = self._run.wants_cancel = True
        self._terminal.note(f"cancelling map {name}; another Ctrl-C stops waiting for its end")
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _goes_on(self, name: str, is_ctrl_c: bool) -> str:
        again = f"come back with `semantica map --resume {name}`"
        if not self._run.all_were_taken:
            again += ", and give the items again: they were not all read"
        cancel = ", cancel it with another Ctrl-C now" if is_ctrl_c else ""
        left = prose.count(self._run.left, "item")
        return f"map {name} goes on, {left} {'is' if self._run.left == 1 else 'are'} left; {again}{cancel}"

    def _detach(self) -> None:
        """At once, or when the output that is being written is complete; then only another signal is at once."""
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        if not self._run.is_printing or self._run.wants_detach:
            raise Detached
        self._run.wants_detach = True
