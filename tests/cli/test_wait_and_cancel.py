"""`wait` and `cancel` come back when jobs have really ended, with the code of how they ended."""

import os
import subprocess
from pathlib import Path

from tests.cases import each_case
from tests.cli.command_line import Line


def _is_there(pid: str) -> bool:
    return os.path.exists(f"/proc/{pid}")


@each_case(("script", "code"), [("exit 0", 0), ("exit 9", 9), ("kill -INT $$", 130)])
def test_wait_returns_the_jobs_own_code(line: Line, script: str, code: int) -> None:
    line("add", "--", "sh", "-c", script)
    result = line("wait", "@last")
    assert (result.code, result.out) == (code, "")
    assert ("failed" in result.err) == (code != 0)
    assert line("wait", "-q", "@last") == (code, "", "")


def test_of_several_the_first_that_failed_counts(line: Line) -> None:
    ids = [line("add", "--", "sh", "-c", f"exit {code}").out.strip() for code in (0, 5, 6)]
    result = line("wait", *ids)
    assert result.code == 5
    assert len(result.err.splitlines()) == 2
    lines = line("wait", "--json", *ids).lines
    assert [(waited["finished"], waited["job"]["exit_code"]) for waited in lines] == [(True, 0), (True, 5), (True, 6)]


def test_a_wait_that_takes_too_long_is_124(line: Line) -> None:
    line("add", "--after", "1h", "--", "true")
    result = line("wait", "--timeout", "50ms", "@last")
    assert result.code == 124
    assert "is still SCHEDULED" in result.err
    assert line("wait", "--timeout", "0", "--json", "@last").json["finished"] is False


def test_a_wait_for_no_job_is_an_error(line: Line) -> None:
    assert line("wait", "00000000").code == 65
    result = line("wait", "--tag", "nosuch")
    assert (result.code, result.err.splitlines()[0]) == (65, "semantica: wait: no job has tag nosuch")
    assert line("wait", "-t", "x", "-Q", "y").code == 64
    assert line("wait", "@last", "-t", "x").code == 64


def test_a_wait_without_an_id_is_for_the_last_job(line: Line) -> None:
    line("add", "--", "sh", "-c", "exit 7")
    assert line("wait").code == 7


@each_case("option", ["--tag", "--group", "--subject", "--queue"])
def test_a_selection_is_waited_for(line: Line, tmp_path: Path, option: str) -> None:
    name = f"wait{option}"
    line("run", "-q", option, name, "--", "sh", "-c", "exit 9")
    assert line("wait", option, name).code == 9, "of the newest job, when none is live"
    go = tmp_path / f"go{option}"
    os.mkfifo(go)
    job_id = line("add", option, name, "--", "sh", "-c", f"cat {go}; exit 8").out.strip()
    waiting = line.start("wait", option, name, "--json")
    go.write_text("")
    result = waiting.result()
    assert (result.code, result.json["job"]["job_id"]) == (8, job_id), "of the live jobs alone"


def test_cancel_comes_back_when_the_process_is_gone(line: Line) -> None:
    stubborn = "trap '' TERM; echo $$; while :; do sleep 0.1; done"
    begun = line.start("run", "--grace", "1500ms", "--", "sh", "-c", stubborn)
    pid = begun.until("\n").strip()
    assert _is_there(pid)
    result = line("cancel", "@last", "--reason", "enough")
    assert not _is_there(pid)
    assert (result.code, result.out.strip()) == (0, line("show", "-q", "@last").out.strip())
    assert "waiting until gone" in result.err
    assert "enough" in line("events", "--job", "@last").out
    assert begun.result().code == 1


def test_cancel_need_not_wait(line: Line) -> None:
    begun = line.start(
        "run", "--grace", "1500ms", "--", "sh", "-c", "trap '' TERM; echo begun; while :; do sleep 0.1; done"
    )
    begun.until("begun")
    result = line("cancel", "--no-wait", "--json", "@last").json
    assert (result["cancelled"], len(result["cancelling"])) == ([], 1)
    result = line("cancel", "--no-wait", "@last")
    assert "asked to end" in result.err
    assert begun.result().code == 1


@each_case("option", ["--tag", "--group", "--subject", "--queue"])
def test_a_selection_is_cancelled_and_printed(line: Line, option: str) -> None:
    made = {
        line("add", "--after", "1h", option, "mine", "--type", kind, "--", "true").out.strip() for kind in ("a", "b")
    }
    other = line("add", "--after", "1h", "--", "true").out.strip()
    result = line("cancel", option, "mine")
    assert (result.code, set(result.out.split())) == (0, made)
    assert line("show", "--json", other).json["state"] == "SCHEDULED"
    again = line("cancel", option, "mine")
    assert (again.code, again.out) == (0, "")
    assert "no waiting or running job" in again.err
    assert again.err.endswith(" mine\n")


def test_cancel_names_the_job_it_has_cancelled(line: Line) -> None:
    job_id = line("add", "--after", "1h", "--", "true").out.strip()
    name = job_id[:8]
    note = f"semantica: job {name} was cancelled; `semantica retry {name}` runs it again\n"
    assert line("cancel", "@last") == (0, f"{job_id}\n", note)
    line("add", "--after", "1h", "--", "true")
    assert line("cancel", "-q", "@last").err == ""
    line("add", "--after", "1h", "--", "true")
    assert line("cancel", "--json", "@last").err == ""
    assert line("cancel", "--tag", "nosuch").err == "semantica: no waiting or running job has tag nosuch\n"


def test_what_has_ended_stays_as_it_is(line: Line) -> None:
    line("run", "--", "true")
    result = line("cancel", "@last")
    assert (result.code, result.out) == (0, "")
    assert "had already ended" in result.err
    assert line("show", "--json", "@last").json["state"] == "DONE"


def test_cancel_needs_exactly_one_selection(line: Line) -> None:
    assert line("add", "--after", "1h", "--", "true").code == 0
    assert line("cancel").code == 64
    assert line("cancel", "-t", "x", "-Q", "y").code == 64
    assert line("cancel", "@last", "-t", "x").code == 64
    assert line("cancel", "00000000").code == 65


def test_ids_of_list_can_be_piped_into_cancel(line: Line) -> None:
    for _ in range(3):
        line("add", "--after", "1h", "-t", "piped", "--", "true")
    ids = line("list", "-q", "-t", "piped").out.split()
    result = line("cancel", *ids)
    assert sorted(result.out.split()) == sorted(ids)
    assert line("list", "-q", "-t", "piped", "--state", "live").out == ""


def test_no_process_of_a_cancelled_tree_survives(line: Line) -> None:
    begun = line.start("run", "-t", "tree", "--", "sh", "-c", "setsid sleep 4242 & sleep 4242 & echo begun; wait")
    begun.until("begun")
    line("cancel", "-t", "tree")
    begun.result()
    assert subprocess.run(["pgrep", "-f", "sleep 4242"], capture_output=True).stdout == b""


def test_jobs_are_selected_by_the_file_they_were_added_for(line: Line, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.py").write_text("")
    first = line("add", "-q", "--newest-wins", "folder/a.py", "--on-event", "never", "--", "true").out
    beside = Line(Path(line.env["SEMANTICA_HOME"]), tmp_path / "folder")
    assert beside("list", "-q", "--newest-wins", "a.py").out == first
    assert beside("logs", "--newest-wins", "a.py").err.startswith(f"semantica: job {first[:8]} has not run")
    assert beside("cancel", "--newest-wins", "a.py").out == first
    assert beside("wait", "--newest-wins", "a.py").code == 1
    assert f"no waiting or running job is about the file {tmp_path}/folder/a.py" in beside(
        "cancel", "--newest-wins", "a.py").err  # fmt: skip
    assert "2 selections at once" in beside("cancel", "--newest-wins", "a.py", "-s", "x").err
