"""`semantica logs`: what a job has written, by stream, by attempt, by its last lines, and as it comes."""

import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from semantica_daemon import paths
from semantica_daemon.cli.logs import last_lines
from semantica_daemon.client import output
from semantica_daemon.client.client import Client
from tests.cases import each_case
from tests.cli.command_line import Line
from tests.harness import Process


@pytest.fixture(scope="module")
def written(daemon: Process, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A job that has written three lines to stdout and two to stderr, in turn."""
    line = Line(daemon.home, tmp_path_factory.mktemp("logs"))
    script = "for i in 1 2; do echo o$i; echo e$i >&2; sleep 0.02; done; printf o3"
    return str(line("run", "--json", "--", "sh", "-c", script).json["job_id"])


def test_each_stream_comes_out_where_it_went_in(line: Line, written: str) -> None:
    assert line("logs", written) == (0, "o1\no2\no3", "e1\ne2\n")
    assert line("logs", "--stdout", written) == (0, "o1\no2\no3", "")
    assert line("logs", "--stderr", written) == (0, "", "e1\ne2\n")
    assert line("logs", "--stderr", "--stdout", written).code == 64


@each_case(
    ("count", "out", "err"), [("0", "", ""), ("1", "o3", ""), ("2", "o3", "e2\n"), ("9", "o1\no2\no3", "e1\ne2\n")]
)
def test_the_last_lines_are_of_both_streams_together(line: Line, written: str, count: str, out: str, err: str) -> None:
    assert line("logs", "-n", count, written) == (0, out, err)


@given(
    st.lists(st.tuples(st.sampled_from(["stdout", "stderr"]), st.text("ab\n\r", min_size=1).map(str.encode))),
    st.integers(0, 5),
)
def test_of_any_pieces_the_last_lines_are_the_last_lines(pieces: list[tuple[str, bytes]], most: int) -> None:
    kept: list[tuple[str, bytes]] = []
    for piece in pieces:
        kept = last_lines([*kept, piece], most)
    *whole, rest = b"".join(data for _, data in pieces).split(b"\n")
    lines = [line + b"\n" for line in whole] + [rest] * bool(rest)
    assert b"".join(data for _, data in kept) == b"".join(lines[max(0, len(lines) - most) :])


def test_a_number_of_lines_is_not_negative(line: Line, written: str) -> None:
    assert line("logs", "-n", "-1", written).code == 64


def test_json_is_a_line_for_each_piece(line: Line, written: str) -> None:
    pieces = line("logs", "--json", written).lines
    assert "".join(piece["text"] for piece in pieces if piece["stream"] == "stderr") == "e1\ne2\n"
    assert {piece["run"] for piece in pieces} == {1}


def test_json_has_a_replacement_character_for_a_byte_that_is_not_utf_8(line: Line) -> None:
    line("run", "--json", "--", "printf", r"a\377b")
    assert [piece["text"] for piece in line("logs", "--json", "@last").lines] == ["a\ufffdb"]


def test_each_attempt_can_be_read(line: Line) -> None:
    line("run", "-q", "--attempts", "2", "--backoff", "10ms", "--", "sh", "-c", "echo $SEMANTICA_ATTEMPT; exit 1")
    assert line("logs", "@last").out == "2\n"
    assert line("logs", "--run", "1", "@last").out == "1\n"
    assert line("logs", "--run", "1", "-f", "@last").out == "1\n"
    assert line("logs", "--run", "9", "@last").code == 65


def test_a_follower_that_comes_late_reads_every_run(line: Line) -> None:
    script = "echo $SEMANTICA_ATTEMPT; test $SEMANTICA_ATTEMPT = 2"
    line("run", "-q", "--attempts", "2", "--backoff", "10ms", "--", "sh", "-c", script)
    with Client(paths.find(line.env)) as client:
        found = list(output.replies(client, line("show", "-q", "@last").out.strip()))
    assert "".join(reply["chunk"] for reply in found) == "1\n2\n"
    assert (found[-1]["run_number"], found[-1]["run_count"]) == (2, 2)


def test_it_follows_from_the_last_lines_on(line: Line, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    begun = line.start("run", "--", "sh", "-c", "echo 1; echo 2; cat go; exit 3")
    begun.until("2\n")
    follower = line.start("logs", "-f", "-n", "1", "@last")
    follower.until("2\n")
    (tmp_path / "go").write_text("3\n")
    result = follower.result()
    assert (result.code, result.out) == (0, "2\n3\n")
    assert "failed with exit code 3" in result.err
    assert begun.result().code == 3


def test_it_follows_a_job_that_has_not_begun(line: Line) -> None:
    line("queue", "pause", "--create", "held")
    line("add", "-Q", "held", "--", "echo", "at last")
    follower = line.start("logs", "-f", "@last")
    follower.until("waiting: queue held is paused", "err")
    line("queue", "resume", "held")
    assert follower.result()[:2] == (0, "at last\n")


def test_without_an_id_it_is_the_log_of_the_last_job(line: Line) -> None:
    line("run", "--json", "--", "echo", "mine")
    assert line("logs") == (0, "mine\n", "")


def test_the_logs_of_a_selection_come_one_after_another(line: Line, tmp_path: Path) -> None:
    for name in ("1", "2"):
        os.mkfifo(tmp_path / name)
    names = [line("add", "-t", "pair", "--", "sh", "-c", f"echo {n}; cat {n}").out[:8] for n in (1, 2)]
    follower = line.start("logs", "-f", "--tag", "pair")
    follower.until("1\n")
    for name in ("1", "2"):
        (tmp_path / name).write_text("")
    result = follower.result()
    assert (result.code, result.out) == (0, "1\n2\n")
    assert [row[:23] for row in result.err.splitlines()] == [f"semantica: job {name}: sh"[:23] for name in names]
    assert line("logs", "--tag", "pair").out == "2\n", "of the newest job, when none is live"
    assert line("logs", "--tag", "nosuch").code == 65


def test_a_job_without_a_run_has_no_log(line: Line) -> None:
    line("add", "--after", "1h", "--", "true")
    result = line("logs", "@last")
    assert (result.code, result.out) == (0, "")
    assert "has not run: it is SCHEDULED" in result.err
    assert line("logs", "-q", "@last") == (0, "", "")


def test_a_log_that_was_cut_has_both_ends_and_a_line_between_them(home: Path, tmp_path: Path) -> None:
    (home / "config.toml").write_text("[limits]\nlog_bytes = 100000\n")
    line = Line(home, tmp_path)
    with Process(home).start():
        line("add", "--", "seq", "100000")
        line("wait", "@last")
        result = line("logs", "@last")
        assert (result.out[:4], result.out[-7:]) == ("1\n2\n", "100000\n")
        assert 90_000 < len(result.out) <= 100_000
        assert result.err == f"\n[semantica: {588_895 - len(result.out)} bytes of output are missing here]\n"
        last = line("logs", "-n", "1", "@last")
        assert last.out == "100000\n"
        assert "the log is incomplete" in last.err, "where that line is not shown"
        assert line("logs", "-f", "@last").err == result.err


def test_run_and_a_follower_show_everything_whatever_the_log_keeps(home: Path, tmp_path: Path) -> None:
    (home / "config.toml").write_text("[limits]\nlog_bytes = 65536\n")
    line = Line(home, tmp_path)
    os.mkfifo(tmp_path / "go")
    everything = "".join(f"{number}\n" for number in range(1, 500_001))
    with Process(home).start():
        result = line("run", "-q", "--", "seq", "500000")
        assert (result.code, result.out == everything) == (0, True)
        line("add", "--", "sh", "-c", "echo begun; cat go; seq 500000")
        follower = line.start("logs", "-q", "-f", "@last")
        follower.until("begun\n")
        (tmp_path / "go").write_text("")
        assert follower.result().out == "begun\n" + everything


def test_both_ends_are_there_after_the_daemon_was_killed(home: Path, tmp_path: Path) -> None:
    (home / "config.toml").write_text("[limits]\nlog_bytes = 100000\n")
    line = Line(home, tmp_path)
    with Process(home).start() as process:
        begun = line.start("run", "-q", "--", "sh", "-c", "seq 100000; exec sleep 60")
        begun.until("\n100000\n")
        while "missing here" not in line("logs", "@last").err:
            pass  # the log keeps everything until the daemon knows that the follower has read it
        process.kill()
        begun.result()
        process.start()
        result = line("logs", "@last")
        assert (result.out[:4], result.out[-7:]) == ("1\n2\n", "100000\n")
        assert "bytes of output are missing here" in result.err


HANDLER = """
import time
def talk(ctx, payload):
    ctx.log("hello", name="x")
    while not ctx.cancelled:
        time.sleep(0.01)
        if payload.get("quick"):
            return
"""


def test_a_handlers_words_are_its_log(home: Path, tmp_path: Path) -> None:
    (tmp_path / "talking.py").write_text(HANDLER)
    (home / "config.toml").write_text(f'handler_path = ["{tmp_path}"]\n[handlers]\nTALK = "talking:talk"\n')
    line = Line(home, tmp_path)
    with Process(home).start():
        line("run", "--type", "TALK", "--payload", '{"quick": true}')
        result = line("logs", "@last")
        assert result.out.rstrip().endswith("hello name=x")
        assert line("logs", "--json", "@last").lines[0]["payload"] == {"name": "x"}
        line("add", "--type", "TALK")
        follower = line.start("logs", "-f", "@last")
        follower.until("hello")
        line("cancel", "@last")
        assert follower.result().code == 0


def test_a_builtin_of_the_shell_names_the_shell(line: Line) -> None:
    result = line("run", "--", "cd", "/tmp")
    assert result.code == 127
    assert result.err.endswith("; cd is a shell builtin: use sh -c 'cd /tmp'\n")


def test_a_job_that_could_not_start_wrote_nothing(line: Line) -> None:
    line("run", "--", "no-such-command")
    job_id = line("show", "-q", "@last").out[:8]
    reason = "it failed: no-such-command was not found on the job's PATH"
    assert line("logs", "@last") == (0, "", f"semantica: job {job_id} wrote nothing; {reason}\n")
    assert "shows what it wrote" not in line("show", "@last").out


def test_a_process_that_is_left_running_is_named_by_its_command(line: Line) -> None:
    program = "sleep 100 & while ! grep -q sleep /proc/$!/cmdline; do :; done; echo started"
    result = line("run", "--", "sh", "-c", program)
    named = r"\[semantica: the command left 1 process running, which was ended: sleep 100 \(\d+\)\]\n"
    assert (result.code, result.out) == (0, "started\n")
    assert re.fullmatch(named, result.err)
