"""Runs the command of `semantica reserve` as a child of this process, and releases the reservation at its end."""

import signal
import subprocess
import threading

from semantica_daemon.cli.shell_hint import shell_hint
from semantica_daemon.cli.terminal import Terminal, print_error
from semantica_daemon.client.client import Client
from semantica_daemon.client.errors import CallRefused, ConnectionLost, NoDaemon
from semantica_daemon.client.exit_codes import NOT_FOUND, NOT_RUN, SIGNALLED

FORWARDED = (signal.SIGTERM, signal.SIGHUP)
OF_TERMINAL = (signal.SIGINT, signal.SIGQUIT)  # the terminal sends them to the command as well
ENDED = "the reservation has ended before the command: other jobs may start beside it"


def run(argv: list[str], terminal: Terminal, reservation_id: str, holder: str, lease_ms: int | None) -> int:
    """`lease_ms`: the reservation expires so long after this process was killed; None: it is not extended."""
    held = HeldReservation(terminal, reservation_id, holder)
    if lease_ms is not None:
        held.keep_extending(lease_ms)
    try:
        return _exit_code(argv)
    finally:
        held.release()


def _exit_code(argv: list[str]) -> int:
    received: list[int] = []
    process: subprocess.Popen[bytes] | None = None

    def forward(number: int, frame: object) -> None:
        received.append(number)
        if process is not None and number in FORWARDED:
            process.send_signal(number)

    for number in (*FORWARDED, *OF_TERMINAL):
        if signal.getsignal(number) is not signal.SIG_IGN:  # keeps the effect of nohup
            signal.signal(number, forward)
    try:
        process = subprocess.Popen(argv)
    except OSError as error:
        hint = shell_hint(argv)
        print_error(f"{argv[0]}: {error.strerror}" + (f"; {hint}" if hint else ""))
        return NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_RUN
    for early in received.copy():
        forward(early, None)
    code = process.wait()
    return SIGNALLED - code if code < 0 else code


class HeldReservation:
    """Makes each call over a connection of its own: the daemon may be restarted while the command runs."""

    def __init__(self, terminal: Terminal, reservation_id: str, holder: str) -> None:
        self._terminal = terminal
        self._fields = {"reservation_id": reservation_id, "reserved_by": holder}
        self._over = threading.Event()
        self._has_ended = False

    def keep_extending(self, lease_ms: int) -> None:
        """Extends it in a thread, three times in each lease."""

        def work() -> None:
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # the main thread handles them
            while not self._over.wait(lease_ms / 3000) and not self._has_ended:
                self._call("reservation.acquire", ttl_ms=lease_ms)

        threading.Thread(target=work, daemon=True).start()

    def release(self) -> None:
        self._over.set()
        if not self._has_ended:
            self._call("reservation.release")

    def _call(self, method: str, **params: int) -> None:
        try:
            with Client(self._terminal.paths, autostart=False) as client:
                client.call(method, **self._fields, **params)
        except CallRefused:
            self._has_ended = True
            self._terminal.note(ENDED)
        except (ConnectionLost, NoDaemon):
            return  # tried again at the next turn; at the end it expires by itself
