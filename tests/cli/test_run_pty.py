"""`semantica run --pty`: the job has a terminal, of the same size as the caller's, and gets every key."""

import fcntl
import os
import pty
import select
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator

import pytest

from tests.cli.command_line import COMMAND, Line


class Screen:
    """A terminal with `semantica run --pty` on it."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._ours, self._theirs = pty.openpty()
        self.seen, self._is_open = "", True
        self.resize(40, 100)

    def run(self, *command_line: str, stderr: int | None = None) -> None:
        """Runs a script of the shell, or a command of several words."""
        words = command_line if len(command_line) > 1 else ("sh", "-c", *command_line)
        command, stream = [*COMMAND, "run", "--pty", "--", *words], self._theirs
        env = {**self._line.env, "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            command, stdin=stream, stdout=stream, stderr=stderr or stream, env=env, cwd=self._line.cwd,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip

    def type(self, keys: bytes) -> None:
        os.write(self._ours, keys)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, text: str) -> None:
        end = time.monotonic() + 40
        while text not in self.seen:
            ready, _, _ = select.select([self._ours], [], [], max(0, end - time.monotonic()))
            assert ready, f"{text!r} is not in {self.seen!r}"
            self.seen += os.read(self._ours, 65_536).decode()

    def settings(self) -> list[int]:
        return termios.tcgetattr(self._theirs)[:4]

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.hang_up()

    def hang_up(self) -> None:
        """Closes the window."""
        for handle in (self._theirs, self._ours) if self._is_open else ():
            os.close(handle)
        self._is_open = False


@pytest.fixture
def screen(line: Line) -> Iterator[Screen]:
    made = Screen(line)
    yield made
    made.close()


def test_all_its_streams_are_a_terminal_of_this_size_and_kind(screen: Screen, line: Line) -> None:
    before = screen.settings()
    screen.run("test -t 0 -a -t 1 -a -t 2 && stty size && echo $TERM && : < /dev/tty && echo controlling; exit 6")
    assert screen.process.wait(40) == 6
    screen.until("40 100\r\nxterm-256color\r\ncontrolling\r\n")
    assert screen.settings() == before
    assert line("logs", "@last").out == screen.seen


def test_ctrl_c_goes_to_the_job(screen: Screen) -> None:
    screen.run("trap 'echo got it; exit 7' INT; echo begun; while :; do sleep 0.05; done")
    screen.until("begun\r\n")
    screen.type(b"\3")
    assert screen.process.wait(40) == 7
    screen.until("^Cgot it\r\n")


def test_what_is_typed_reaches_the_job_until_ctrl_d(screen: Screen) -> None:
    screen.run("echo begun; cat > copy; wc -l < copy")
    screen.until("begun\r\n")
    screen.type(b"one\rtwo\r\4")
    assert screen.process.wait(40) == 0
    screen.until("one\r\ntwo\r\n2\r\n")


def test_a_new_size_of_the_window_reaches_the_job(screen: Screen) -> None:
    screen.run("trap 'stty size; exit 0' WINCH; echo begun; while :; do sleep 0.05; done")
    screen.until("begun\r\n")
    screen.resize(30, 90)
    assert screen.process.wait(40) == 0
    screen.until("30 90\r\n")


def test_a_window_that_changes_all_the_time_leaves_the_job_with_its_last_size(screen: Screen) -> None:
    screen.run("stty -echo; echo begun; while read line && test $line != end; do echo $line; done; "
               "until stty size | grep '^25 60'; do sleep 0.05; done")  # fmt: skip
    screen.until("begun\r\n")
    for number in range(20):
        screen.type(b"%d\r" % number)
        for rows in range(30, 45):
            screen.resize(rows, 90)
            time.sleep(0.001)  # signals that come faster are merged
    screen.resize(25, 60)
    screen.until("19\r\n")
    screen.type(b"end\r")
    screen.until("25 60\r\n")
    assert screen.process.wait(40) == 0
    assert "semantica" not in screen.seen


def test_a_window_that_is_closed_leaves_the_job_running(screen: Screen, line: Line) -> None:
    reading, writing = os.pipe()
    screen.run("echo begun; read line; echo ended", stderr=writing)
    os.close(writing)
    screen.until("begun\r\n")
    screen.hang_up()
    assert screen.process.wait(40) == 129
    with open(reading) as notes:
        assert "goes on; follow it with" in notes.read()
    assert line("wait", "@last").code == 0


def test_three_detach_keys_leave_the_job_running(screen: Screen, line: Line) -> None:
    before = screen.settings()
    screen.run("echo begun; read line; echo ended")
    screen.until("begun\r\n")
    screen.type(b"\x1d\x1d\x1d")
    screen.until("its stdin ends now\r\n")
    assert screen.process.wait(40) == 129
    assert screen.settings() == before
    line("wait", "@last")
    assert line("logs", "@last").out.endswith("ended\r\n")


READS_KEYS = """
import os, tty
tty.setraw(0)
print("begun", end="\\r\\n", flush=True)
while key := os.read(0, 1):
    print(key, end="\\r\\n", flush=True)
print("ended", end="\\r\\n", flush=True)
"""


def test_a_job_that_reads_single_keys_finds_the_end_of_them_when_its_caller_is_gone(screen: Screen, line: Line) -> None:
    screen.run(sys.executable, "-c", READS_KEYS)
    screen.until("begun\r\n")
    screen.type(b"k")
    screen.until("b'k'\r\n")
    screen.process.kill()
    assert line("wait", "--timeout", "30s", "@last").code == 0
    assert line("logs", "@last").out.endswith("ended\r\n")


def test_the_whole_output_is_there_when_the_job_ends_at_once(line: Line) -> None:
    result = line("run", "--pty", "--", "seq", "20000")
    assert result.out == "".join(f"{number}\r\n" for number in range(1, 20_001))


def test_without_a_terminal_here_piped_stdin_is_typed(line: Line) -> None:
    result = line("run", "--pty", "--", "sh", "-c", "stty -echo size; cat", stdin="typed\n")
    assert (result.code, "24 80\r\n" in result.out, result.out.endswith("typed\r\n")) == (0, True, True)
    assert line("run", "--pty", "--stdin", "--", "cat", stdin="x").code == 64
