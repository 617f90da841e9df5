"""What a job may do with `semantica` itself: report progress, lines and a result, and find its own daemon."""

import os
import shlex
from pathlib import Path

from tests.cases import each_case
from tests.cli.command_line import COMMAND, Line
from tests.harness import Process

SEMANTICA = shlex.join(COMMAND)


def in_job(script: str) -> tuple[str, ...]:
    """The words of a job that runs this shell script, in which `semantica` is our command line."""
    return ("--", "sh", "-c", f'semantica() {{ {SEMANTICA} "$@"; }}\n{script}')


def test_progress_lines_and_a_result_need_no_token(line: Line) -> None:
    script = """semantica progress 50% 'half way' --phase compiling --items 3/12 &&
        semantica log --level warn the cache is cold && echo '{"files": 12}' | semantica result - && exit 3"""
    result = line("run", *in_job(script))
    assert (result.code, result.out, result.err) == (3, "", "")
    job = line("show", "--json", "@last").json
    assert job["progress"] == {
        "percent": 50, "phase": "compiling", "items_completed": 3, "items_total": 12, "message": "half way",
    }  # fmt: skip
    assert job["result_summary"] == {"files": 12}
    events = line("events", "--job", "@last").out
    assert "warn: the cache is cold" in events
    [progress] = [row for row in events.splitlines() if "job.progress" in row]
    assert progress.endswith("  50 %, 3 of 12, compiling, half way")


def test_progress_without_a_number_is_a_message(line: Line) -> None:
    result = line("run", *in_job("semantica progress --items 1/4 --phase copying 'part 1' && exit 3"))
    assert (result.code, result.err) == (3, "")
    progress = line("show", "--json", "@last").json["progress"]
    assert (progress["items_completed"], progress["phase"], progress["message"]) == (1, "copying", "part 1")
    assert progress["percent"] is None


def test_a_report_as_json_names_its_job(line: Line) -> None:
    result = line("run", *in_job("semantica progress 1 --json"))
    assert result.json == {"job_id": line("show", "-q", "@last").out.strip(), "attempt": 1}


@each_case(
    ("words", "code", "sentence"),
    [
        (("progress", "50"), 64, "progress: this is not a job"),
        (("progress", "101"), 64, "'101' is not a number from 0 to 100"),
        (("progress", "half", "way"), 64, "'half' is not a number from 0 to 100"),
        (("progress",), 64, "there is nothing to report"),
        (("progress", "--items", "x"), 64, "write 3 or 3/12"),
        (("log", "hello"), 64, "log: this is not a job"),
        (("log",), 64, "MESSAGE"),
        (("result", "{"), 65, "result: not JSON"),
        (("result", "1"), 64, "result: this is not a job"),
    ],
)
def test_what_cannot_be_reported_is_refused(line: Line, words: tuple[str, ...], code: int, sentence: str) -> None:
    result = line(*words)
    assert (result.code, result.out) == (code, "")
    assert sentence in result.err


def test_a_job_that_is_done_is_at_100_percent(line: Line, daemon: Process) -> None:
    line("run", *in_job("semantica progress 50 half"))
    job = line("show", "--json", "@last").json
    assert (job["progress"]["percent"], job["progress"]["message"]) == (100, "half")
    assert daemon.call("job.list", limit=1)["items"][0]["progress"]["percent"] == 100


def test_list_and_status_have_a_column_for_progress(line: Line, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    begun = line.start("run", *in_job("semantica progress 40 && echo reported && cat go"))
    begun.until("reported")
    for words in (("list", "--state", "running"), ("status",)):
        table = line(*words).out.partition("ID ")
        assert "PROGRESS" in table[2].splitlines()[0]
        assert " 40 % " in table[2].splitlines()[1]
    (tmp_path / "go").write_text("")
    assert begun.result().code == 0
    assert " 100 % " in line("list", "-n", "1").out


def test_run_shows_the_progress_on_a_terminal_and_erases_it_before_output(line: Line, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "go")
    erase = "\r\x1b[K"
    script = "semantica progress 50 half; cat go; semantica progress 75; cat go; printf unfinished"
    shown = line.start_on_terminal("run", *in_job(script))
    shown.until(f"{erase}50 %, half")
    (tmp_path / "go").write_text("written\n")
    shown.until(f"{erase}75 %, half")
    (tmp_path / "go").write_text("")
    text = shown.result().out
    assert f"{erase}50 %, half{erase}written\n{erase}50 %, half" in text
    assert text.endswith(f"{erase}75 %, half{erase}unfinished")


def test_run_shows_no_progress_line_off_a_terminal_or_quietly(line: Line) -> None:
    script = in_job("semantica progress 50 && echo written")
    assert line("run", *script) == (0, "written\n", "")
    assert line.on_terminal("run", "-q", *script).out == "written\n"


def test_every_command_inside_a_job_sees_the_daemon_that_runs_it(line: Line, daemon: Process, tmp_path: Path) -> None:
    other = {"HOME": str(tmp_path), "XDG_CONFIG_HOME": "/etc/other", "XDG_DATA_HOME": "/var/other"}
    assert line("run", *in_job("semantica paths --json"), **other).json == line("paths", "--json").json
    assert line("run", *in_job("semantica config path"), **other).out == f"{daemon.home}/config.toml\n"
    found = line("run", *in_job("semantica doctor --json"), **other).json["checks"]
    seen = {check["check"]: (check["verdict"], check["seen"]) for check in found}
    assert seen["data folder"] == ("ok", str(daemon.home))
    assert seen["a command"][0] == "ok"
