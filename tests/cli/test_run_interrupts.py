"""Signals to `semantica run`, which detaches or cancels its job, and to `logs -f`, `wait` and `events -f`."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases import each_case
from tests.cli.command_line import Line, StartedCommand


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_the_job_running_and_notes_how_to_come_back(
    line: Line, tmp_path: Path, number: signal.Signals
) -> None:
    os.mkfifo(tmp_path / "go")
    begun = line.start("run", "--", "sh", "-c", "echo begun; cat go; echo ended")
    begun.until("begun\n")
    begun.signal(number)
    result = begun.result()
    name = line("list", "-q", "-n", "1").out[:8]
    assert (result.code, result.out) == (128 + number, "begun\n")
    assert f"job {name} goes on" in result.err
    assert f"`semantica logs -f {name}`" in result.err
    assert f"`semantica cancel {name}`" in result.err
    follower = line.start("logs", "-f", "@last")
    follower.until("begun\n")
    (tmp_path / "go").write_text("gone on\n")
    assert follower.result() == (0, "begun\ngone on\nended\n", "")


def test_a_signal_leaves_a_waiting_job_in_the_queue(line: Line) -> None:
    begun = line.start("run", "--after", "1h", "--", "true")
    begun.until("waiting: scheduled for ", "err")
    begun.signal(signal.SIGINT)
    result = begun.result()
    name = line("list", "-q", "-n", "1").out[:8]
    assert result.code == 130
    assert f"job {name} stays in the queue; follow it" in result.err
    line("cancel", name)


ENDS_WITH_A_WORD = "trap 'echo cleaned up; exit 9' TERM; echo begun; while :; do sleep 0.05; done"


def check_two_interrupts(begun: StartedCommand) -> None:
    begun.until("begun\n")
    begun.signal(signal.SIGINT)
    begun.until("or another Ctrl-C now", "err")
    begun.signal(signal.SIGINT)
    result = begun.result()
    assert (result.code, result.out) == (130, "begun\ncleaned up\n")
    assert "was cancelled" in result.err.splitlines()[-1]


def test_a_second_ctrl_c_cancels_the_job_and_shows_its_last_output(line: Line) -> None:
    begun = line.start("run", "--", "sh", "-c", ENDS_WITH_A_WORD)
    check_two_interrupts(begun)
    assert line("show", "@last", "--json").json["state"] == "CANCELLED"


AS_ON_MACOS = """
import signal, sys
del signal.sigtimedwait
from semantica_daemon.cli import main
main.run(sys.argv[1:])
"""


def test_ctrl_c_needs_no_system_call_that_macos_lacks(line: Line) -> None:
    command = [sys.executable, "-c", AS_ON_MACOS, "run", "--", "sh", "-c", ENDS_WITH_A_WORD]
    pipe = subprocess.PIPE
    begun = StartedCommand(subprocess.Popen(command, stdout=pipe, stderr=pipe, env=line.env, cwd=line.cwd))
    check_two_interrupts(begun)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_job_at_once_on_request(line: Line, number: signal.Signals) -> None:
    begun = line.start("run", "--cancel-on-interrupt", "--", "sh", "-c", ENDS_WITH_A_WORD)
    begun.until("begun\n")
    begun.signal(number)
    result = begun.result()
    assert (result.code, result.out) == (128 + number, "begun\ncleaned up\n")
    assert line("show", "@last", "--json").json["state"] == "CANCELLED"


def test_ctrl_c_while_the_job_is_being_cancelled_does_not_wait_for_its_end(line: Line, tmp_path: Path) -> None:
    stubborn = "trap 'echo asked' TERM; echo begun; until test -e go; do sleep 0.05; done"
    begun = line.start("run", "--grace", "1m", "--cancel-on-interrupt", "--", "sh", "-c", stubborn)
    begun.until("begun\n")
    begun.signal(signal.SIGINT)
    begun.until("asked\n")
    begun.signal(signal.SIGINT)
    result = begun.result()
    (tmp_path / "go").touch()
    assert (result.code, "is still ending" in result.err) == (130, True)
    assert "was cancelled" in line("wait", "@last").err


OTHER_THREAD_GETS_SIGNALS = """
import signal, sys, threading
from semantica_daemon.cli import main
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
main.run(sys.argv[1:])
"""


@each_case(
    ("words", "first"),
    [
        ("logs -f @last", "begun"),
        ("wait --json ENDED @last", '"DONE"'),
        ("events -f --since 0", "job.started"),
    ],
)
def test_a_signal_that_interrupts_no_system_call_is_handled_at_once(line: Line, words: str, first: str) -> None:
    """As a signal that comes between the last output and the next wait: no system call returns because of it."""
    ended = line("run", "--json", "--", "true").json["job_id"]
    line("add", "--", "sh", "-c", "echo begun; exec sleep 60")
    command = [sys.executable, "-c", OTHER_THREAD_GETS_SIGNALS, *words.replace("ENDED", ended).split()]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=line.env, cwd=line.cwd)
    begun = StartedCommand(process)
    begun.until(first)
    begun.signal(signal.SIGINT)
    try:
        assert begun.process.wait(20) == 130
    finally:
        process.kill()
        process.communicate()
        line("cancel", "-Q", "default")
