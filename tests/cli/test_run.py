"""`semantica run` behaves like the command itself: streams, exit code, folder, environment; and lets go of it."""

import os
import subprocess
import time
from pathlib import Path

from tests.cases import each_case
from tests.cli.command_line import COMMAND, Line, StartedCommand
from tests.harness import Process


def test_stdout_is_stdout_and_stderr_is_stderr(line: Line) -> None:
    result = line("run", "--", "sh", "-c", "echo out; echo err >&2; echo more")
    assert (result.code, result.out, result.err) == (0, "out\nmore\n", "err\n")


def test_output_comes_as_it_is_written(line: Line, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    begun = line.start("run", "--", "sh", "-c", "echo first; read x < go; echo $x")
    begun.until("first\n")
    (tmp_path / "go").write_text("second\n")
    assert begun.result() == (0, "first\nsecond\n", "")


@each_case("code", [0, 1, 3, 42, 255])
def test_the_exit_code_is_the_commands_own(line: Line, code: int) -> None:
    assert line("run", "--", "sh", "-c", f"exit {code}") == (code, "", "")


@each_case(
    ("words", "code", "sentence"),
    [
        (("sh", "-c", "kill -TERM $$"), 143, "ended by SIGTERM"),
        (("sh", "-c", "kill -KILL $$"), 137, "ended by SIGKILL"),
        (("no-such-command",), 127, "no-such-command was not found"),
        (("./no-such-file",), 127, "does not exist"),
        (("/etc/passwd",), 126, "not executable"),
        (("/tmp",), 126, "is a directory"),
    ],
)
def test_what_ends_without_a_code_has_one_and_a_sentence(
    line: Line, words: tuple[str, ...], code: int, sentence: str
) -> None:
    result = line("run", "--", *words)
    assert (result.code, result.out) == (code, "")
    assert sentence in result.err
    assert result.err.startswith("semantica: job ")


def test_a_run_that_takes_too_long_is_124(line: Line) -> None:
    result = line("run", "--timeout", "100ms", "--", "sleep", "60")
    assert (result.code, result.out) == (124, "")
    assert "longer than its timeout of 100ms" in result.err


def test_it_runs_where_and_as_the_caller_is(line: Line, tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o700)
    result = line("run", "--", "sh", "-c", "pwd -P; umask; echo $LANG $OTHER", LANG="de_DE.UTF-8", OTHER="x")
    assert result.out.split("\n")[:3] == [str(tmp_path.resolve()), f"{_umask():04o}", "de_DE.UTF-8 x"]


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_folder_and_umask_can_be_given(line: Line, tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    result = line("run", "-C", "inner", "--umask", "027", "--", "sh", "-c", "pwd -P; umask")
    assert result.out == f"{tmp_path.resolve()}/inner\n0027\n"


def test_what_follows_the_command_belongs_to_it(line: Line) -> None:
    assert line("run", "echo", "-q", "--json", "--", "x").out == "-q --json -- x\n"
    assert line("run", "--", "echo", "--", "--help").out == "-- --help\n"
    assert line("run", "-q", "echo", "--timeout=x").out == "--timeout=x\n"


def test_bytes_that_are_no_text_come_through(line: Line) -> None:
    begun = line.start("run", "--", "sh", "-c", r"printf 'a\377\000b'")
    out, _ = begun.process.communicate(timeout=30)
    assert out == b"a\xff\x00b"


def test_a_further_attempt_follows_and_is_announced(line: Line) -> None:
    result = line("run", "--attempts", "3", "--backoff", "20ms", "--", "sh", "-c", "echo $SEMANTICA_ATTEMPT; exit 7")
    assert (result.code, result.out) == (7, "1\n2\n3\n")
    assert [text.split(" of job ")[0] for text in result.err.splitlines()] == [
        "semantica: run 2", "semantica: run 3",
    ]  # fmt: skip


def test_an_attempt_that_is_cancelled_before_it_begins_ends_the_wait(line: Line) -> None:
    begun = line.start(
        "run", "--attempts", "2", "--backoff", "10m", "-t", "late", "--", "sh", "-c", "echo once; exit 1"
    )
    begun.until("waiting: attempt 2 of 2 in ", "err")
    assert line("cancel", "-t", "late").code == 0
    result = begun.result()
    assert (result.code, result.out) == (1, "once\n")
    assert "was cancelled" in result.err


def test_it_notes_once_that_a_queue_is_paused(line: Line) -> None:
    line("queue", "pause", "--create", "held")
    begun = line.start("run", "-Q", "held", "--", "echo", "done")
    begun.until("waiting: queue held is paused (`semantica queue resume held` resumes it)", "err")
    line("queue", "resume", "held")
    result = begun.result()
    assert (result.code, result.out, result.err.count("waiting")) == (0, "done\n", 1)


def test_it_notes_how_many_are_ahead(line: Line, tmp_path: Path) -> None:
    line("queue", "set", "--create", "narrow", "--slots", "1")
    os.mkfifo(tmp_path / "go")
    line("add", "-Q", "narrow", "--", "cat", "go")
    line("add", "-Q", "narrow", "--", "true")
    begun = line.start("run", "-Q", "narrow", "--", "echo", "done")
    begun.until("waiting: 1 ahead in narrow; the only slot of narrow is in use", "err")
    (tmp_path / "go").write_text("")
    assert begun.result()[:2] == (0, "done\n")


def test_it_names_the_job_of_its_lane_that_still_runs(line: Line, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    older = line("add", "-s", "lane", "--type", "lint", "--", "cat", "go").out.strip()
    begun = line.start("run", "-s", "lane", "--type", "lint", "--", "echo", "done")
    begun.until(f"waiting: job {older[:8]} of the same subject is still running", "err")
    (tmp_path / "go").write_text("")
    assert begun.result()[:2] == (0, "done\n")


def test_it_notes_when_it_is_scheduled_for(line: Line) -> None:
    begun = line.start("run", "--after", "1500ms", "--", "echo", "done")
    begun.until("waiting: scheduled for ", "err")
    assert begun.result()[:2] == (0, "done\n")


def test_a_superseded_run_names_its_successor(line: Line) -> None:
    begun = line.start("run", "-s", "a", "--after", "10m", "--", "true")
    begun.until("waiting", "err")
    newer = line("add", "-s", "a", "--after", "10m", "--", "true").out
    result = begun.result()
    assert result.code == 1
    assert f"was superseded by {newer[:8]}" in result.err
    line("cancel", "@last")


def test_a_cancelled_run_is_reported(line: Line) -> None:
    begun = line.start("run", "-t", "victim", "--", "sh", "-c", "echo begun; exec sleep 60")
    begun.until("begun\n")
    assert line("cancel", "-t", "victim").code == 0
    result = begun.result()
    assert result.code == 1
    assert "was cancelled" in result.err


def test_a_run_that_waits_too_long_for_a_slot_is_reported(line: Line) -> None:
    line("queue", "pause", "--create", "closed")
    result = line("run", "-Q", "closed", "--ttl", "50ms", "--", "true")
    assert result.code == 1
    assert "was skipped: it waited for a slot longer than its --ttl" in result.err


def test_the_same_key_is_the_same_job_and_its_output_is_shown_again(line: Line) -> None:
    first = line("run", "-k", "once", "--", "sh", "-c", "echo $SEMANTICA_JOB_ID; exit 4")
    second = line("run", "-k", "once", "--", "sh", "-c", "echo $SEMANTICA_JOB_ID; exit 4")
    assert (first.code, second.code) == (4, 4)
    assert first.out == second.out
    assert "added before" in second.err


def test_quiet_prints_no_notes(line: Line) -> None:
    result = line("run", "-q", "--after", "700ms", "--", "sh", "-c", "echo out; kill -9 $$")
    assert result == (137, "out\n", "")


def test_json_is_the_ended_job(line: Line) -> None:
    result = line("run", "--json", "--", "sh", "-c", "echo out; exit 5")
    assert (result.code, result.json["state"], result.json["exit_code"]) == (5, "FAILED", 5)
    assert [run["attempt"] for run in result.json["runs"]] == [1]


def test_a_handler_runs_too_and_its_result_is_printed(line: Line) -> None:
    result = line("run", "--type", "semantica.echo", "--payload", '{"a": 1}')
    assert (result.code, result.json) == (0, {"a": 1})


def until_its_reader_leaves(begun: StartedCommand) -> tuple[int, bytes]:
    """The exit code and the notes of a command that goes on printing lines with a y."""
    begun.until("y\n")
    assert begun.process.stdout is not None
    begun.process.stdout.close()
    begun.process.stdout = None
    code = begun.process.wait(20)
    assert begun.process.stderr is not None
    return code, begun.process.stderr.read()


def test_a_reader_that_leaves_ends_the_job(line: Line) -> None:
    assert until_its_reader_leaves(line.start("run", "--", "yes")) == (141, b"")
    line("wait", "--timeout", "30s", "@last")
    assert line("show", "@last", "--json").json["state"] == "CANCELLED"


def test_a_reader_that_leaves_logs_or_a_job_of_another_caller_ends_only_the_command(line: Line) -> None:
    line("add", "--key", "endless", "--", "yes")
    assert until_its_reader_leaves(line.start("logs", "-f", "@last"))[0] == 141
    assert until_its_reader_leaves(line.start("run", "--key", "endless", "--", "yes"))[0] == 141
    assert line("show", "@last", "--json").json["state"] == "RUNNING"
    line("cancel", "@last")


def test_a_daemon_that_goes_away_is_reported_with_a_hint(home: Path, tmp_path: Path) -> None:
    line = Line(home, tmp_path)
    with Process(home).start() as process:
        begun = line.start("run", "--", "sh", "-c", "echo begun; sleep 60")
        begun.until("begun\n")
        process.kill()
        result = begun.result()
        assert (result.code, result.out) == (69, "begun\n")
        assert "semantica wait" in result.err
        process.start()
        assert line("wait", "@last").code == 1


def test_ten_thousand_lines_of_both_streams_keep_their_order(line: Line) -> None:
    script = "i=0; while [ $i -lt 5000 ]; do echo o$i; echo e$i >&2; i=$((i+1)); done"
    result = line("run", "--", "sh", "-c", script)
    assert result.out.splitlines() == [f"o{number}" for number in range(5000)]
    assert result.err.splitlines() == [f"e{number}" for number in range(5000)]


def test_a_folder_that_is_gone_is_reported(line: Line, tmp_path: Path) -> None:
    assert line("run", "-C", "nowhere", "--", "true").code == 65
    (tmp_path / "gone").mkdir()
    script = ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *COMMAND, "run", "--", "true"]
    done = subprocess.run(script, cwd=tmp_path / "gone", env=line.env, capture_output=True, text=True)
    assert done.returncode == 65
    assert "the current folder does not exist any more" in done.stderr


def test_words_that_are_no_utf_8_are_refused(line: Line) -> None:
    result = line("run", "--", "echo", os.fsdecode(b"\xff"))
    assert result.code == 65
    assert "not UTF-8" in result.err


def test_it_starts_within_moments(line: Line) -> None:
    """Not a benchmark: only that nothing waits where it need not."""
    began = time.monotonic()
    assert line("run", "--", "true").code == 0
    assert time.monotonic() - began < 5


def test_logs_and_wait_find_the_daemon_again_when_it_comes_back(home: Path, tmp_path: Path) -> None:
    """The job is put back and runs again, in the daemon that comes next."""
    line = Line(home, tmp_path)
    os.mkfifo(tmp_path / "go")
    with Process(home).start() as process:
        line("add", "--on-interrupt", "requeue", "--", "sh", "-c", "echo begun $SEMANTICA_RUN_ID; cat go; exit 7")
        follower = line.start("logs", "-f", "@last")
        follower.until("begun")
        process.kill()
        follower.until("waiting for it to come back", "err")
        process.start()
        (tmp_path / "go").write_text("")
        result = follower.result()
        assert (result.code, result.out.count("begun")) == (0, 2)
        assert line("wait", "@last").code == 7
        assert "semantica: run 2 of job" in result.err
        first, second = (f"begun {run['run_id']}\n" for run in line("show", "--json", "@last").json["runs"])
        assert (line("logs", "--run", "1").out, line("logs", "--run", "2").out) == (first, second)
        assert line("logs", "--run", "3").code == 65
        assert [piece["run"] for piece in line("logs", "--json").lines] == [2]
        runs = line("show", "@last").out.partition("\nruns\n")[2].splitlines()
        assert [row.split()[:3] for row in runs] == [
            ["RUN", "ATTEMPT", "STATUS"], ["1", "1", "INTERRUPTED"], ["2", "1", "FAILED"],
        ]  # fmt: skip


def test_a_line_for_the_shell_gets_a_hint_that_names_the_shell(line: Line) -> None:
    hint = "a line for the shell is run with -- sh -c 'echo a | wc -l'"
    result = line("run", "echo a | wc -l")
    assert (result.code, hint in result.err) == (127, True)
    assert hint in line("wait").err
    for words in (("add", "echo a | wc -l"), ("add", "--", "echo a | wc -l")):
        result = line(*words)
        assert (result.code, hint in result.err) == (0, True)
    assert "sh -c" not in line("run", "no-such-command").err
    assert line("add", "--", "sh", "-c", "echo a | wc -l").err == ""


def test_the_end_of_a_job_is_known_when_the_daemon_is_restarted(home: Path, tmp_path: Path) -> None:
    line = Line(home, tmp_path)
    with Process(home).start():
        for _ in range(4):
            begun = line.start("run", "--", "sh", "-c", "echo begun; exec sleep 60")
            begun.until("begun\n")
            line("restart")
            result = begun.result()
            assert (result.code, "failed: the daemon was stopped while this run was under way" in result.err) == (
                1,
                True,
            )
        line("stop")
